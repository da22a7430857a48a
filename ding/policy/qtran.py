"""QTRAN: a joint value without restrictions, and agents that follow it (Son et al. 2019, arXiv:1905.05408)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._learning.q_values import greedy, of_action
from ding.policy._learning.update import Logs
from ding.policy._samples.joint_sequences import JOINT_Q_CONFIG, JointQPolicy
from ding.utils import POLICY_REGISTRY, deep_merge_dicts


@POLICY_REGISTRY.register("qtran")
class QTRANPolicy(JointQPolicy):
    """Recurrent Q-learning of a joint value that is any function of the histories and actions, and bounds that make the
    sum of the agents' values agree with it where they act greedily.
    """

    config = {
        "type": "qtran",
        **deep_merge_dicts(
            JOINT_Q_CONFIG,
            {
                "learn": {
                    "clip_value": 1.5,
                    "double_q": True,
                    # (float) Weights of the error of the joint value, and of the bounds for the best joint action and
                    # for the one that was taken.
                    "td_weight": 1,
                    "opt_weight": 0.01,
                    "nopt_min_weight": 0.0001,
                },
                "other": {"replay_buffer": {"max_reuse": 1e9, "max_staleness": 1e9}},
            },
        ),
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``qtran`` of :mod:`ding.model.template.qtran`."""
        return "qtran", ["ding.model.template.qtran"]

    @property
    def _max_grad_norm(self) -> float:
        # DI-engine has the key clip_value and does not limit the norm.
        return 1e7 if self._reference_numerics else super()._max_grad_norm

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, td_loss, opt_loss, nopt_loss, grad_norm``.
        """
        return self._learn(data)

    def _loss(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """``td_weight L_td + opt_weight L_opt + nopt_min_weight L_nopt`` (equations 6 to 8), with ``u*`` the best
        action of each agent by its own value:

        * ``L_td = mean (Q_jt(s, u) - r - discount Q_jt'(s', u*'))^2``, ``Q_jt'`` the target network;
        * ``L_opt = mean (sum_i Q_i(u_i*) - Q_jt(s, u*) + V(s))^2``;
        * ``L_nopt = mean min(sum_i Q_i(u_i) - Q_jt(s, u) + V(s), 0)^2``, where ``Q_jt`` is fixed in the last two.
        """
        learn, weight = self._cfg.learn, batch["weight"]
        now, following = self._learner_outputs(batch)
        total_q, v = now["total_q"], now["vs"]
        best = greedy(now["logit"], batch["action_mask"])
        with torch.no_grad():
            next_best = None if following is None else greedy(following["logit"], batch["next_action_mask"])
            next_q = self._next_outputs(self._target_network.forward, batch, next_best)["total_q"]
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_q
            # The passes of DI-engine follow each other without a reset of the state.
            start = (following or now)["next_state"] if self._reference_numerics else None
            best_total_q = self._outputs(self._model, batch, best, start)["total_q"]
        td_loss = (weight * (total_q - target).square()).mean()
        opt_error = of_action(now["logit"], best).sum(-1) - best_total_q + v
        opt_loss = (weight * opt_error.square()).mean()
        nopt_error = (now["agent_q_act"].sum(-1) - total_q.detach() + v).clamp(max=0)
        nopt_loss = (weight * nopt_error.square()).mean()
        loss = learn.td_weight * td_loss + learn.opt_weight * opt_loss + learn.nopt_min_weight * nopt_loss
        return loss, {"td_loss": td_loss, "opt_loss": opt_loss, "nopt_loss": nopt_loss}

    def _second_state(self, batch: Mapping[str, Any], now: Mapping[str, Any]) -> object:
        return now["next_state"] if self._reference_numerics else None

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "td_loss", "opt_loss", "nopt_loss", "grad_norm"]
