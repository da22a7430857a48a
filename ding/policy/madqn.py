"""Multi-agent DQN with a cooperative critic, which sees more than the agents do."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model.template.madqn import MADQN
from ding.policy._learning.q_values import greedy
from ding.policy._learning.update import Logs
from ding.policy._samples.joint_sequences import JOINT_Q_CONFIG, JointQPolicy
from ding.policy._samples.segments import marked_real
from ding.rl_utils import get_nstep_return_data
from ding.utils import POLICY_REGISTRY, deep_merge_dicts


@POLICY_REGISTRY.register("madqn")
class MADQNPolicy(JointQPolicy):
    """Recurrent Q-learning of two joint values with n-step returns: that of the agents, who act by it, and a
    cooperative one, whose target network gives both their targets.

    ``global_state`` is ``[A, G]``, one per agent.
    """

    config = {
        "type": "madqn",
        **deep_merge_dicts(
            JOINT_Q_CONFIG,
            {
                # (int) Number of rewards before the bootstrap value.
                "nstep": 3,
                "learn": {"weight_decay": 1e-5},
                # (int) Episodes per collection.
                "collect": {"n_episode": 32},
                "other": {"replay_buffer": {"max_reuse": 1e9, "max_staleness": 1e9}},
            },
        ),
    }
    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer_current": "_optimizer",
        "optimizer_cooperation": "_optimizer_cooperation",
    }

    _model: MADQN

    def default_model(self) -> tuple[str, list[str]]:
        """``madqn`` of :mod:`ding.model.template.madqn`."""
        return "madqn", ["ding.model.template.madqn"]

    @property
    def _steps_ahead(self) -> int:
        return int(self._cfg.nstep)

    def _init_learn(self) -> None:
        super()._init_learn()
        decay = self._cfg.learn.weight_decay
        self._optimizer = self._make_optimizer(self._model.current, decay)
        self._optimizer_cooperation = self._make_optimizer(self._model.cooperation, decay)

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update of both joint values on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, cooperation_loss, grad_norm, cooperation_grad_norm``, and per agent ``total_q,
            target_total_q``.
        """
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of both joint values, ``Q`` of the agents and ``Q^c``, the cooperative one.

        Both minimise their mean squared distance from ``R = r_n + discount Q^c'(s_n, a')``. ``r_n`` is the sum of n
        rewards, ``Q^c'`` the target network, and ``a'`` are the best actions by it, or with ``double_q`` by ``Q^c``.
        """

        with torch.no_grad():
            best = None
            if self._double_q:
                following = self._next_outputs(self._model, batch, cooperation=True)
                best = greedy(following["logit"], batch["next_action_mask"])
            next_q = self._next_outputs(self._target_network.forward, batch, best, cooperation=True)["total_q"]
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_q
        total_q = self._outputs(self._model, batch)["total_q"]
        cooperative_q = self._outputs(self._model, batch, cooperation=True)["total_q"]
        loss = (batch["weight"] * (total_q - target).square()).mean()
        cooperation_loss = (batch["weight"] * (cooperative_q - target).square()).mean()
        norm = self._limited_step(loss, self._optimizer, self._model.current)
        cooperation_norm = self._limited_step(cooperation_loss, self._optimizer_cooperation, self._model.cooperation)
        self._target_model.update(self._model)
        return {
            "total_loss": loss,
            "cooperation_loss": cooperation_loss,
            **self._per_agent(batch, total_q=total_q, target_total_q=next_q),
            "grad_norm": norm,
            "cooperation_grad_norm": cooperation_norm,
        }

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``collect.unroll_len`` steps with n-step returns."""
        gamma, reference = self._cfg.learn.discount_factor, self._reference_numerics
        steps = get_nstep_return_data(marked_real(transitions), self._cfg.nstep, gamma=gamma, reference_tail=reference)
        return self._sequences(steps)

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "cooperation_grad_norm", "cooperation_loss"]
