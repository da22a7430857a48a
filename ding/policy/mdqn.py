"""Munchausen DQN: the log-policy is added to the reward (Vieillard et al. 2020, arXiv:2007.14430)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import QLoss, mean_of, of_action, one_head
from ding.policy.dqn import DQNPolicy
from ding.policy.errors import PolicyUsageError
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY

# Logarithms of the policy below are cut, so that an action of no probability is not punished without end.
_LOG_POLICY_RANGE = (-1.0, 0.0)


@POLICY_REGISTRY.register("mdqn")
class MDQNPolicy(DQNPolicy):
    """Munchausen Q-learning with one-step returns; the rest is as in :class:`DQNPolicy`."""

    config = {
        "type": "mdqn",
        # (float) Temperature of the policy, and weight of its logarithm.
        "entropy_tau": 0.03,
        "m_alpha": 0.9,
        "collect": {"n_sample": 4},
    }

    def _init_learn(self) -> None:
        super()._init_learn()
        if self._nstep != 1:
            raise PolicyUsageError(f"policy.nstep: Munchausen DQN learns one-step returns, found {self._nstep}")

    def _make_optimizer(self) -> Adam:
        return clipping_adam(self._model.parameters(), self._cfg.learn, eps=0.0003125)

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """``mean (Q(s, a) - R)^2`` with ``pi = softmax(Q' / tau)`` and ``R = r + alpha clip(tau log pi(a | s), -1, 0) +
        discount sum_a pi(a | s') (Q'(s', a) - tau log pi(a | s'))``.
        """
        tau, alpha = self._cfg.entropy_tau, self._cfg.m_alpha
        q = one_head(self._model(batch["obs"])["logit"])
        with torch.no_grad():
            target_q = self._target_model.forward(batch["obs"])["logit"]
            next_q = self._target_model.forward(batch["next_obs"])["logit"]
            log_pi = tau * of_action((target_q / tau).log_softmax(-1), batch["action"])
            next_log_pi = tau * (next_q / tau).log_softmax(-1)
            soft_value = ((next_q / tau).softmax(-1) * (next_q - next_log_pi)).sum(-1)
            reward = batch["reward"] + alpha * log_pi.clamp(*_LOG_POLICY_RANGE)
            target = reward + batch["discount"] * batch["not_done"] * soft_value
        td_error = of_action(q, batch["action"]) - target
        loss = (batch["weight"] * td_error.square()).mean()
        best, second = target_q.topk(2, dim=-1).values.unbind(-1)
        numbers = {
            "q_value": mean_of(q),
            "target_q_value": mean_of(next_q),
            "action_gap": (best - second).mean(),
            "clip_frac": (log_pi < _LOG_POLICY_RANGE[0]).float().mean(),
        }
        return QLoss(loss, self._priorities(td_error), numbers)

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "action_gap", "clip_frac"]
