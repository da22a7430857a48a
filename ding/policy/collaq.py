"""CollaQ: an agent's own value, and what the presence of others adds (Zhang et al. 2020, arXiv:2010.08531)."""

from typing import Any

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._joint_q import JOINT_Q_CONFIG, JointQPolicy
from ding.policy._joint_q_loss import collaq_loss
from ding.policy.common_utils import read_out
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
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """One update on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, colla_loss, td_loss, grad_norm``, and ``priority``: B floats, the mean
            absolute errors of the steps that do not only fill up.
        """
        batch = self._time_first(data, one_pass=self._settings.double_q)
        self._model.train()
        network, target, weight = self._model, self._target_network.forward, self._cfg.learn.collaq_loss_weight
        result = collaq_loss(network, target, batch, self._settings, weight)
        norm = self._limited_step(result.loss, self._optimizer, self._model, self._cfg.learn.clip_value)
        self._target_model.update(self._model)
        values = {"total_loss": result.loss, **result.numbers, "grad_norm": norm}
        if self._reference_numerics:
            values["priority"] = result.priority.mean(0)
        else:
            real = 1 - batch["null"]
            values["priority"] = (result.priority.sqrt() * real).sum(0) / real.sum(0).clamp(min=1)
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **read_out(values)}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "colla_loss", "td_loss", "grad_norm"]
