"""QMIX: a joint value that is monotone in the value of each agent (Rashid et al. 2018, arXiv:1803.11485)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._joint_q import JOINT_Q_CONFIG, JointQPolicy
from ding.policy._joint_q_loss import qmix_loss
from ding.policy.common_utils import with_rates
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("qmix")
class QMIXPolicy(JointQPolicy):
    """Recurrent Q-learning of a joint value, which is mixed from the agents' values with weights made from the global
    state.
    """

    config = {"type": "qmix", **JOINT_Q_CONFIG}

    def default_model(self) -> tuple[str, list[str]]:
        """``qmix`` of :mod:`ding.model.template.qmix`."""
        return "qmix", ["ding.model.template.qmix"]

    @batched
    def _forward_learn(self, data: Samples) -> Any:
        """One update on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, grad_norm``, and per agent ``total_q, target_reward_total_q, target_total_q``.
        """
        batch = self._time_first(data, one_pass=self._settings.double_q)
        if not self._model.training:
            self._model.train()
        return with_rates(self._run_updates(batch), {"cur_lr": self._optimizer.param_groups[0]["lr"]})

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        result, _ = qmix_loss(self._model, self._target_network.forward, batch, self._settings)
        norm = self._limited_step(result.loss, self._optimizer, self._model, self._cfg.learn.clip_value)
        self._target_model.update(self._model)
        return {"total_loss": result.loss, **result.numbers, "grad_norm": norm}

    def _make_optimizer(self, network: Any, weight_decay: float = 1e-5) -> Any:
        return super()._make_optimizer(network, weight_decay)
