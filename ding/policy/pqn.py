"""PQN: Q-learning without a replay buffer and a target network (Gallici et al. 2024, arXiv:2407.04811)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import TransitionBatch, batched
from ding.data.roles import Samples
from ding.policy._acting.eps_greedy import EpsGreedyPolicy
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import greedy, heads_of, mean_of, of_action, weighted
from ding.policy._samples.segments import as_given, with_ends
from ding.policy.errors import PolicyConfigError
from ding.rl_utils.gae import backward_sums
from ding.rl_utils.policy_dist import action_mask_of
from ding.utils import POLICY_REGISTRY

_FIELDS = ("obs", "action", "return", "weight")


def q_lambda_returns(
    next_value: torch.Tensor,
    reward: torch.Tensor,
    done: torch.Tensor,
    traj_flag: torch.Tensor,
    gamma: float,
    lambda_: float,
) -> torch.Tensor:
    """Return ``R_t = r_t + gamma (lambda R_{t+1} + (1 - lambda) max_a Q(s_{t+1}, a))``, those of Peng's Q(lambda), in
    the shape of ``next_value``.

    Args:
        next_value: ``max_a Q(s_{t+1}, a)``, ``[N]`` or ``[N, heads]``.
        reward: ``[N]``.
        done: 1.0 where the episode is over: the return is the reward there. ``[N]``.
        traj_flag: 1.0 at the last step of a segment, whose return is ``r_t + gamma max_a Q(s_{t+1}, a)`` unless it is
            done. ``[N]``.
    """
    if next_value.ndim > 1:
        reward, done, traj_flag = reward.unsqueeze(1), done.unsqueeze(1), traj_flag.unsqueeze(1)
    bootstrap = torch.where(traj_flag > 0, torch.ones_like(traj_flag), torch.full_like(traj_flag, 1 - lambda_))
    delta = reward + gamma * (1 - done) * bootstrap * next_value
    return backward_sums(delta, (gamma * lambda_ * (1 - traj_flag)).expand_as(delta))


@POLICY_REGISTRY.register("pqn")
class PQNPolicy(EpsGreedyPolicy):
    """Q-learning from the steps that many environments have just made. Layer normalisation keeps it stable, so that it
    needs neither a target network nor a replay buffer.

    The loss of a step is ``(Q(s, a) - R)^2`` with the return ``R`` of :func:`q_lambda_returns`, by the network before
    the updates of a collection. ``learn.forward`` takes the samples of a collection in order. The optimiser is Adam,
    where the paper has RAdam.
    """

    _learns_from_transitions = False

    config = {
        "type": "pqn",
        "cuda": False,
        "on_policy": True,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        "discount_factor": 0.99,
        # (float) Share of the following return in a return: 0 is one step, 1 the rewards of the whole segment.
        "q_lambda": 0.65,
        # (str or None) 'LN': the layers of the network are normalised, which this algorithm relies on.
        "model": {"encoder_hidden_size_list": [128, 128], "norm_type": "LN", "dueling": False},
        "learn": {
            # (int) How often all samples of a collection are gone through.
            "epoch_per_collect": 4,
            "batch_size": 64,
            "learning_rate": 2.5e-4,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": 10.0,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {
            # (int) Steps of all environments per collection.
            "n_sample": 256,
            "unroll_len": 1,
        },
        "eval": {},
        # Epsilon of exploration by env steps: type 'exp' or 'linear'.
        "other": {"eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": 50000}},
    }

    learn_state = {"model": "_learn_model", "optimizer": "_optimizer"}

    def _init_learn(self) -> None:
        if self._priority or self._priority_IS_weight:
            raise PolicyConfigError("policy.priority: PQN learns from all samples alike; leave it False")
        if not 0 <= self._cfg.q_lambda <= 1:
            raise PolicyConfigError(f"policy.q_lambda must lie in [0, 1], found {self._cfg.q_lambda!r}")
        self._optimizer = clipping_adam(self._model.parameters(), self._cfg.learn)
        self._learn_model = self._model

    @batched
    def _forward_learn(self, data: Samples) -> list[dict[str, Any]]:
        """``epoch_per_collect`` epochs over the samples of one collection, in the order in which they were collected;
        returns a dict of floats per minibatch.
        """
        learn, batch = self._cfg.learn, self._learn_batch(data)
        if not self._model.training:
            self._model.train()
        batch["return"] = self._returns(batch)
        rate = self._optimizer.param_groups[0]["lr"]
        logs: list[dict[str, Any]] = []
        for _ in range(learn.epoch_per_collect):
            logs += self._run_minibatches(batch, _FIELDS, learn.batch_size)
        return [{"cur_lr": rate, **log} for log in logs]

    def _returns(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """The returns of all steps by the network as it is, ``[N]`` (``[N, heads]``)."""
        with torch.no_grad():
            next_q = heads_of(self._model(batch["next_obs"])["logit"])
            next_value = of_action(next_q, greedy(next_q, action_mask_of(batch["next_obs"]))).movedim(0, -1)
        flag = batch["traj_flag"].to(next_value.dtype)
        cfg = self._cfg
        return q_lambda_returns(next_value, batch["reward"], batch["done"], flag, cfg.discount_factor, cfg.q_lambda)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update on a minibatch: ``mean (Q(s, a) - R)^2``."""
        q = heads_of(self._model(batch["obs"])["logit"])
        error = of_action(q, batch["action"]) - batch["return"].movedim(-1, 0)
        loss = weighted(error.square(), batch.get("weight")).mean()
        self._optimize(loss, self._optimizer, self._model)
        return {"total_loss": loss, "q_value": mean_of(q), "return_mean": batch["return"].mean()}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "q_value", "return_mean"]

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._init_acting()

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments with ``traj_flag``, which is True where a segment ends."""
        return as_given(with_ends(TransitionBatch.of(transitions)), transitions)
