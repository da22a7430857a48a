"""DQN: Q-learning with a replay buffer and a target network."""

import functools
import logging
from collections.abc import Mapping
from typing import Any

import torch

from ding.data import TransitionBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._acting.eps_greedy import EpsGreedyPolicy
from ding.policy._learning.contrast import ContrastParts
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import QLoss, greedy, heads_of, mean_of, of_action
from ding.policy._learning.resets import (
    RESET_CONFIG,
    ResetSchedule,
    reset_networks,
    reset_schedule,
    returns_of_windows,
    step_windows,
)
from ding.policy._learning.target_update import num_steps, target_network
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_nstep_return_data, get_train_sample
from ding.torch_utils import Adam
from ding.torch_utils.network.nn_module import renew_noise
from ding.torch_utils.weight_checks import misfit
from ding.utils import POLICY_REGISTRY

log = logging.getLogger(__name__)


@POLICY_REGISTRY.register("dqn")
class DQNPolicy(EpsGreedyPolicy):
    """Deep Q-learning with double Q, n-step returns, priorities and, by the model, dueling heads and noisy nets.

    Mnih et al. 2015 (DQN), van Hasselt et al. 2016 (double Q, arXiv:1509.06461), Wang et al. 2016 (dueling,
    arXiv:1511.06581), Schaul et al. 2016 (priorities, arXiv:1511.05952), Fortunato et al. 2018 (noisy nets,
    arXiv:1706.10295).

    The loss of a sample is ``(Q(s, a) - R)^2`` with
    ``R = sum_{i<n} gamma^i r_i + gamma^n Q'(s_n, argmax_a Q(s_n, a))``,
    where ``Q'`` is the target network. An ``action_mask`` (1: allowed) in the observation, or a ``next_action_mask`` in
    the sample, holds for that argmax too. Priorities are ``|Q - R|``; ``reference_numerics=True`` makes them squares,
    stores time limits as terminal and discounts the tail of a cut segment as DI-engine does.

    With ``learn.reset`` the network is reset and n and gamma anneal after that, with ``learn.optim_type='adamw'`` its
    weights decay, and with ``act_with_target`` the target network acts: what BBF (arXiv:2305.19452) adds to Rainbow for
    many updates per env step.
    """

    config = {
        "type": "dqn",
        "cuda": False,
        "on_policy": False,
        # (bool) Whether samples are drawn by priority, and whether the loss is weighted to correct for that.
        "priority": False,
        "priority_IS_weight": False,
        "discount_factor": 0.97,
        # (int) Number of rewards before the bootstrap value.
        "nstep": 1,
        # (bool) Whether the network explores by parameter noise (needs model.noise=True).
        "noisy_net": False,
        # (bool) Whether the target network collects and evaluates; use it with a target_theta such as 0.005. Collectors
        # in other processes get the learner's network only, and act with that.
        "act_with_target": False,
        "model": {"encoder_hidden_size_list": [128, 128, 64]},
        "learn": {
            # (int) Updates per collection.
            "update_per_collect": 3,
            "batch_size": 64,
            "learning_rate": 0.001,
            # (str) 'adam', or 'adamw' with weight_decay apart from the gradient: 0.1 where the network is reset.
            "optim_type": "adam",
            "weight_decay": 0.0,
            # When the network is reset, and what anneals after that: see ding.policy._learning.resets.
            "reset": RESET_CONFIG,
            # (str or None) How gradients are clipped, e.g. 'clip_norm' or 'clip_value', and the limit.
            "grad_clip_type": None,
            "grad_clip_value": None,
            # (str or None) 'assign', 'momentum', or None to tell by the two keys below: momentum when
            # target_update_freq is None, or when only target_theta was changed; else assign.
            "target_update_type": None,
            # (int or None) The target network is a copy of the learner, renewed every so many updates.
            "target_update_freq": 100,
            # (float) Or it moves by this share towards the learner at each update.
            "target_theta": 0.005,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {
            # (int) Samples per collection; give n_sample or n_episode.
            "n_sample": 8,
            # (int) Length of the sequences that trajectories are cut into.
            "unroll_len": 1,
        },
        "eval": {},
        "other": {
            # Epsilon of exploration by env steps: type 'exp' or 'linear'.
            "eps": {"type": "exp", "start": 0.95, "end": 0.1, "decay": 10000},
            "replay_buffer": {"replay_buffer_size": 10000},
        },
    }

    learn_state = {"model": "_learn_model", "target_model": "_target_model", "optimizer": "_optimizer"}

    def _init_learn(self) -> None:
        cfg = self._cfg
        self._gamma, self._nstep = float(cfg.discount_factor), cfg.nstep
        if self._resets is not None:
            self._nstep, self.learn_state = self._resets.nstep, {**self.learn_state, "resets": "_resets"}
            self._prepared, self._after_learning = self._with_present_returns, self._count_update
            self._new_network()  # one that cannot be built shall not end a run at its first reset
        self._optimizer = self._make_optimizer()
        self._target_model = target_network(self._model, cfg.learn, DQNPolicy.config["learn"], self._reference_numerics)
        # For subclasses with a ``_forward_learn`` of their own, which take ``action`` from its output; the one below
        # needs logits only.
        self._learn_model = model_wrap(self._model, wrapper_name="argmax_sample")
        if cfg.noisy_net:
            self._noisy_networks = self._model, self._target_model
        if cfg.noisy_net and not renew_noise(self._model):
            log.warning("policy.noisy_net=True has no effect: the model has no noise layers (policy.model.noise=True)")
        self._learn_model.reset()
        self._target_model.reset()

    def _make_optimizer(self) -> Adam:
        return clipping_adam(self._model.parameters(), self._cfg.learn)

    @functools.cached_property
    def _resets(self) -> ResetSchedule | None:
        return reset_schedule(self._cfg)

    def _with_present_returns(self, samples: Samples) -> Samples:
        assert self._resets is not None
        self._gamma, self._nstep = self._resets.discount, self._resets.nstep
        return returns_of_windows(samples, self._nstep, self._gamma) if self._resets.anneals else samples

    def _count_update(self) -> None:
        assert self._resets is not None
        if self._resets.count_update():
            parts = [getattr(self, name) for name in self.learn_state.values()]
            reset_networks(self._new_network(), [self._model, self._target_model], parts, self._resets.shrink)
            self._target_model.reset(target_update_count=0)

    def _new_network(self) -> torch.nn.Module:
        """A network of ``policy.model`` with new weights."""
        fresh = self._create_model(self._cfg)
        if found := misfit(fresh.state_dict(), self._model.state_dict(), "policy.model"):
            raise PolicyConfigError(f"policy.learn.reset makes networks of policy.model, unlike the given one: {found}")
        return fresh

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """``mean (Q(s, a) - R)^2`` with ``R = r + discount Q'(s', argmax_a Q(s', a))``, ``Q'`` the target network.

        What an algorithm of this family replaces.

        Args:
            batch: see :meth:`_learn_batch`.
        """
        q = heads_of(self._model(batch["obs"])["logit"])
        with torch.no_grad():
            next_q = heads_of(self._target_model.forward(batch["next_obs"])["logit"])
            best = greedy(heads_of(self._model(batch["next_obs"])["logit"]), batch["next_action_mask"])
            target = batch["reward"] + batch["discount"] * batch["not_done"] * of_action(next_q, best)
        td_error = of_action(q, batch["action"]) - target
        loss = (batch["weight"] * td_error.square()).mean()
        return QLoss(loss, self._priorities(td_error), {"q_value": mean_of(q), "target_q_value": mean_of(next_q)})

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        result = self._loss(batch)
        self._optimize(result.loss, self._optimizer, self._model)
        self._target_model.update(self._model)
        return {"total_loss": result.loss, **result.numbers, "priority": result.priority}

    def _priorities(self, td_error: torch.Tensor) -> torch.Tensor:
        """``|Q - R|`` of each sample, ``[B]``; the root of the mean square over the heads of errors ``[heads, B]``."""
        size = td_error.detach().abs()
        if size.ndim > 1:
            size = size.square().mean(0).sqrt()
        # The exponent of prioritised replay is meant for |Q - R|, while DI-engine takes the square.
        return size.square() if self._reference_numerics else size

    def _may_join_updates(self) -> bool:
        # New noise belongs to each update, and so do the places of a schedule.
        return not self._priority and not self._cfg.noisy_net and self._resets is None

    def calculate_priority(self, data: Samples, update_target_model: bool = False) -> dict[str, Any]:
        """Priorities of samples without learning from them; the networks are used in evaluation mode.

        Args:
            data: B samples, as for learning; new ones that no buffer has weighted yet will do, too.
            update_target_model: make the target network a copy of the learner first.

        Returns:
            ``{'priority': [float] * B}``.
        """
        if update_target_model:
            # Not ``update(direct=True)``: the rhythm of the regular copies shall not depend on this.
            self._target_model.load_state_dict(self._model.state_dict(), strict=True)
        batch = self._learn_batch(data if self._prepared is None else self._prepared(data), weighted=False)
        self._model.eval()
        self._target_model.eval()
        if self._cfg.noisy_net:
            self._renew_noise()
        with torch.no_grad():
            priority = self._loss(batch).priority
        self._target_model.train()
        return {"priority": priority.tolist()}

    def _renew_noise(self) -> None:
        self._reset_noise(self._model)
        self._reset_noise(self._target_model)

    def _reset_noise(self, model: torch.nn.Module) -> None:
        """Switch the noise of a network on and draw it."""
        renew_noise(model)

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "q_value", "target_q_value"]

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        super()._load_state_dict_learn(state_dict)
        self._target_model.reset(target_update_count=num_steps(self._optimizer))

    @property
    def _acting_network(self) -> torch.nn.Module:
        if self._cfg.act_with_target and "learn" in self._enable_field:
            network: torch.nn.Module = [*self._target_model.chain()][-1]._model
            return network
        return self._model

    def _model_state(self, state_dict: StateDict) -> StateDict:
        if self._cfg.act_with_target and "target_model" in state_dict:
            return {"model": state_dict["target_model"]}
        return super()._model_state(state_dict)

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        if self._unroll_len > 1 and self._resets is not None and self._resets.anneals:
            raise PolicyConfigError(
                "policy.learn.reset anneals the n-step length or the discount, which needs "
                f"policy.collect.unroll_len=1, found {self._unroll_len}"
            )
        self._gamma, self._nstep = float(self._cfg.discount_factor), self._cfg.nstep
        self._init_acting()

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """n-step returns (``reward`` of n steps, ``value_gamma``), then sequences of ``collect.unroll_len``; windows of
        steps where n or gamma anneal.
        """
        if self._resets is not None and self._resets.anneals:
            return step_windows(TransitionBatch.of(transitions), self._resets.width)
        samples = get_nstep_return_data(
            transitions, self._nstep, gamma=self._gamma, reference_tail=self._reference_numerics
        )
        return get_train_sample(samples, self._unroll_len)


@POLICY_REGISTRY.register("dqn_stdim")
class DQNSTDIMPolicy(DQNPolicy, ContrastParts):
    """DQN whose encoder also learns which observations follow each other (ST-DIM, arXiv:1906.08226)."""

    config = {
        "type": "dqn_stdim",
        # (float) Weight of the contrast in the loss of the network.
        "aux_loss_weight": 0.001,
        # Arguments of ``ContrastiveLoss``.
        "aux_model": {"encode_shape": 64, "heads": [1, 1], "loss_type": "infonce", "temperature": 1.0},
    }
    learn_state = {**DQNPolicy.learn_state, "aux_model": "_aux_model", "aux_optimizer": "_aux_optimizer"}

    def _init_learn(self) -> None:
        super()._init_learn()
        self._init_contrast()

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        learned = self._contrast_step(batch)
        return {**super()._update(batch), "aux_loss_learn": learned}

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        bellman, aux = super()._loss(batch), self._weighted_contrast(batch)
        numbers = {**bellman.numbers, "bellman_loss": bellman.loss, "aux_loss_eval": aux}
        return bellman._replace(loss=bellman.loss + aux, numbers=numbers)

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "bellman_loss", "aux_loss_learn", "aux_loss_eval"]

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        super()._load_state_dict_learn(self._with_aux_model(state_dict))
