"""CollaQ: an agent's own value, and what the presence of others adds (Zhang et al. 2020, arXiv:2010.08531)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._learning.q_values import greedy
from ding.policy._learning.update import Logs
from ding.policy._samples.joint_sequences import JOINT_Q_CONFIG, JointQPolicy
from ding.utils import POLICY_REGISTRY, deep_merge_dicts


@POLICY_REGISTRY.register("collaq")
class CollaQPolicy(JointQPolicy):
    """QMIX over values that are split into those of an agent alone and those of its collaboration.

    Observations have also ``agent_alone_state`` and ``agent_alone_padding_state``, see :class:`ding.model.CollaQ`.
    """

    config = {
        "type": "collaq",
        **deep_merge_dicts(
            JOINT_Q_CONFIG,
            {
                "learn": {
                    "target_update_theta": 0.001,
                    # (float) Weight of the loss of what agents expect of others who are not there.
                    "collaq_loss_weight": 1.0,
                },
                "other": {"eps": {"decay": 200000}, "replay_buffer": {"max_reuse": 10}},
            },
        ),
    }
    output_fields = ("action", "prev_state", "agent_colla_alone_q")

    def default_model(self) -> tuple[str, list[str]]:
        """``collaq`` of :mod:`ding.model.template.collaq`."""
        return "collaq", ["ding.model.template.collaq"]

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, colla_loss, td_loss, grad_norm``, and ``priority``: B floats, the mean
            absolute errors of the steps that do not only fill up.
        """
        return self._learn(data)

    def _loss(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """``mean (Q_tot(s, a) - R)^2 + c mean (sum_i Q_i^collab(o_i^alone, a))^2`` with ``R = r + discount Q_tot'(s',
        a')``, ``a'`` the best action of each agent.

        The second term (attention to others where there are none) makes the value of an agent alone that of its own
        part; its weight ``c`` is ``learn.collaq_loss_weight``.
        """
        now, following = self._learner_outputs(batch)
        with torch.no_grad():
            best = None if following is None else greedy(following["logit"], batch["next_action_mask"])
            next_q = self._next_outputs(self._target_network.forward, batch, best)["total_q"]
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_q
        td_error = now["total_q"] - target
        td_loss = (batch["weight"] * td_error.square()).mean()
        colla_loss = (batch["weight"] * now["agent_colla_alone_q"].sum((-2, -1)).square()).mean()
        loss = td_loss + self._cfg.learn.collaq_loss_weight * colla_loss
        priority = self._priorities(td_error.detach(), 1 - batch["null"])
        return loss, {"colla_loss": colla_loss, "td_loss": td_loss, "priority": priority}

    def _priorities(self, td_error: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """The mean absolute error of the real steps of each sequence, ``[B]``."""
        if self._reference_numerics:
            return td_error.square().mean(0)
        return (td_error.abs() * real).sum(0) / real.sum(0).clamp(min=1)

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "colla_loss", "td_loss", "grad_norm"]
