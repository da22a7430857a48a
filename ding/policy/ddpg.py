"""DDPG: a deterministic actor and a Q function."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import EnvBatch, batched
from ding.data.roles import Samples
from ding.model import IModelWrapper, model_wrap
from ding.policy._learning.critics import ActorCriticModule, critic_losses, priorities, q_values
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.target_update import actor_turns, target_network
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_train_sample
from ding.utils import POLICY_REGISTRY
from ding.utils.names import did_you_mean

_ACTION_SPACES = ("continuous", "hybrid")


def _noisy(model: Any, sigma: float, limits: Mapping[str, float] | None = None) -> IModelWrapper:
    noise = {"mu": 0.0, "sigma": sigma}
    return model_wrap(model, wrapper_name="action_noise", noise_type="gauss", noise_kwargs=noise, noise_range=limits)


@POLICY_REGISTRY.register("ddpg")
class DDPGPolicy(Policy):
    """Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

    With two critics the smaller one counts in targets. A hybrid action (``action_space='hybrid'``) has a discrete type
    and continuous arguments: the critic reads the chances of the types, and collecting draws the type (PADDPG,
    arXiv:1511.04143). Priorities are ``|Q - target|``; ``reference_numerics=True`` makes them squares and stores time
    limits as terminal, as DI-engine does.
    """

    optional_keys = {"learn": "noise_sigma noise_range betas optim_type"}
    acts_in_unit_range = True

    config = {
        "type": "ddpg",
        "cuda": False,
        "on_policy": False,
        "priority": False,
        "priority_IS_weight": False,
        # (int) Samples of random actions before the first update.
        "random_collect_size": 25000,
        # (bool) Whether transitions need what the network puts out; then they are collected by it from the beginning.
        "transition_with_policy_data": False,
        # (str) 'continuous' or 'hybrid'.
        "action_space": "continuous",
        # (bool) Whether rewards are standardised in each batch.
        "reward_batch_norm": False,
        # (bool) Whether the observations and actions are those of several agents.
        "multi_agent": False,
        # (str) The form of the actor: 'regression', or 'hybrid' as above.
        "model": {"action_space": "regression"},
        "learn": {
            "update_per_collect": 1,
            "batch_size": 256,
            "learning_rate_actor": 1e-3,
            "learning_rate_critic": 1e-3,
            "ignore_done": False,
            # (float) The share by which the target network moves to the learner at each update.
            "target_theta": 0.005,
            "discount_factor": 0.99,
            # (int) Updates of the critic per update of the actor.
            "actor_update_freq": 1,
            # (bool) Whether the target's actions get noise: ``noise_sigma`` (0.2), clamped to ``noise_range`` if given.
            "noise": False,
        },
        "collect": {
            "unroll_len": 1,
            # (float) Deviation of the noise that is added to actions.
            "noise_sigma": 0.1,
        },
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 100000}},
    }

    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer_actor": "_optimizer_actor",
        "optimizer_critic": "_optimizer_critic",
    }

    learn_rates = {"cur_lr_actor": "_optimizer_actor", "cur_lr_critic": "_optimizer_critic"}

    _model: ActorCriticModule

    def default_model(self) -> tuple[str, list[str]]:
        """``continuous_qac`` of :mod:`ding.model.template.qac`, or ``continuous_maqac`` for several agents."""
        name = "maqac" if self._cfg.multi_agent else "qac"
        return f"continuous_{name}", [f"ding.model.template.{name}"]

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        self._gamma = float(learn.discount_factor)
        # Of a subclass whose samples have it (D4PG); of others nobody reads the key.
        self._nstep = int(self._cfg.nstep) if "nstep" in self.default_config() else 1
        self._optimizer_actor = clipping_adam(model.actor.parameters(), learn, lr=learn.learning_rate_actor)
        self._optimizer_critic = clipping_adam(model.critic.parameters(), learn, lr=learn.learning_rate_critic)
        self._turns = actor_turns(self._optimizer_critic, learn.actor_update_freq)
        self._learn_model = model_wrap(model, wrapper_name="base")
        self._target_model = target_network(model, learn, DDPGPolicy.config["learn"], self._reference_numerics)
        if learn.noise:
            self._target_model = _noisy(self._target_model, learn.get("noise_sigma", 0.2), learn.get("noise_range"))

    def _may_join_updates(self) -> bool:
        return not self._priority

    def _update(self, batch: Mapping[str, Any], *, with_actor: bool = True, **options: Any) -> dict[str, torch.Tensor]:
        """One update of the critics, and ``with_actor`` one of the actor."""
        if self._cfg.reward_batch_norm:
            reward = batch["reward"]
            batch = {**batch, "reward": (reward - reward.mean()) / (reward.std() + 1e-8)}
        losses, numbers = self._update_critic(batch)
        if with_actor:
            losses.update(self._update_actor(batch))
        self._target_model.update(self._model)
        losses["total_loss"] = torch.stack([loss.detach() for loss in losses.values()]).sum()
        action = batch["action"]
        action = action["action_args"] if isinstance(action, Mapping) else action
        return {"action": action.mean(), **numbers, **losses}

    def _update_critic(self, batch: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """One step of the critics on ``mean (Q_i(s, a) - R)^2`` with ``R = r + discount min_i Q_i'(s', mu'(s'))``; the
        target ``mu'`` may have noise (``learn.noise``).

        Returns:
            The losses, by name, and further values to log, with ``priority`` ``[B]``.
        """
        types_taken = not self._reference_numerics
        with torch.no_grad():
            next_action = self._target_model.forward(batch["next_obs"], mode="compute_actor")
            next_input = _critic_input(next_action, types_taken)
            next_q = q_values(self._target_model.forward, batch["next_obs"], **next_input).amin(0)
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_q
        q = q_values(self._model, batch["obs"], **_critic_input(batch, types_taken))
        td_errors = q - target
        losses = critic_losses(td_errors, batch["weight"])
        self._optimize(losses.sum(), self._optimizer_critic, self._model.critic)
        numbers = {
            "priority": priorities(td_errors, self._reference_numerics),
            "td_error": td_errors.detach().square().mean(),
            **dict(zip(("q_value", "q_value_twin"), q.detach().flatten(1).mean(1))),
            "target q_value": next_q.mean(),
        }
        return dict(zip(("critic_loss", "critic_twin_loss"), losses)), numbers

    def _update_actor(self, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """One step of the actor; returns the losses, by name."""
        loss = self._actor_loss(batch)
        self._optimize(loss, self._optimizer_actor, self._model.actor)
        return {"actor_loss": loss}

    def _actor_loss(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """``-mean Q(s, mu(s))`` by the first critic: 0-d."""
        output = self._model(batch["obs"], mode="compute_actor")
        return -self._first_q(batch["obs"], output).mean()

    def _first_q(self, obs: Any, output: Mapping[str, Any]) -> torch.Tensor:
        """``Q(s, a)`` by the first critic for what an actor put out: ``[B]``."""
        # A network of another make computes all critics.
        mode = (
            "compute_first_critic" if "compute_first_critic" in getattr(self._model, "mode", ()) else "compute_critic"
        )
        value = self._model({"obs": obs, **_critic_input(output)}, mode=mode)["q_value"]
        return value if isinstance(value, torch.Tensor) else value[0]

    def _monitor_vars_learn(self) -> list[str]:
        twin = ["critic_twin_loss", "q_value_twin"] if getattr(self._model, "twin_critic", False) else []
        names = ["critic_loss", "actor_loss", "total_loss", "q_value", "target q_value", "td_error", "action"]
        return ["cur_lr_actor", "cur_lr_critic", *names, *twin]

    def _hybrid(self) -> bool:
        space = str(self._cfg.action_space)
        if space not in _ACTION_SPACES:
            raise PolicyConfigError(f"policy.action_space: {space!r} is unknown.{did_you_mean(space, _ACTION_SPACES)}")
        return space == "hybrid"

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = _noisy(self._model, self._cfg.collect.noise_sigma)
        if self._hybrid():
            self._collect_model = model_wrap(self._collect_model, wrapper_name="hybrid_eps_greedy_multinomial_sample")

    def _get_keeps_outputs(self) -> bool:
        return self._hybrid()

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """Actions with noise: ``action`` float32 ``[N, D]``; of a hybrid, with ``eps``, ``action`` (``action_type``,
        ``action_args``) and ``logit``.
        """
        return self._act(self._collect_model, data, mode="compute_actor", **kwargs)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, reward, done`` and for a hybrid ``logit``; for one environment or columns of N."""
        fields = ("action", "logit") if self._hybrid() else ("action",)
        return transition_of(obs, policy_output, timestep, fields, time_limit_is_end=self._reference_numerics)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``collect.unroll_len``."""
        return get_train_sample(transitions, self._unroll_len)

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="hybrid_argmax_sample" if self._hybrid() else "base")

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """Actions without noise."""
        return self._act(self._eval_model, data, mode="compute_actor")


def _critic_input(output: Mapping[str, Any], types_taken: bool = False) -> dict[str, Any]:
    """What a critic reads beside the observation: ``action``, and of a hybrid one ``logit``, the chances of its types.

    Args:
        output: of an actor, or samples.
        types_taken: whether the type that was taken, or would be, has a chance of 1: what was drawn, or even random,
            says nothing of the chances of all types.
    """
    action: Mapping[str, Any]
    if "action_args" in output:
        action, logit, taken = {"action_args": output["action_args"]}, output["logit"], output["logit"].argmax(-1)
    elif isinstance(output["action"], Mapping):
        action, logit, taken = output["action"], output["logit"], output["action"]["action_type"]
    else:
        return {"action": output["action"]}
    if types_taken:
        is_taken = torch.zeros_like(logit, dtype=torch.bool).scatter_(-1, taken.reshape(-1, 1), True)
        logit = torch.zeros_like(logit).masked_fill_(~is_taken, float("-inf"))
    return {"action": action, "logit": logit}
