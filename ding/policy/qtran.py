"""QTRAN: a joint value without restrictions, and agents that follow it (Son et al. 2019, arXiv:1905.05408)."""

from typing import Any

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._joint_q import JOINT_Q_CONFIG, JointQPolicy
from ding.policy._joint_q_loss import qtran_loss
from ding.policy.common_utils import read_out
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

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._weights = (learn.td_weight, learn.opt_weight, learn.nopt_min_weight)

    @batched
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """One update on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, td_loss, opt_loss, nopt_loss, grad_norm``.
        """
        batch = self._time_first(data, one_pass=self._settings.double_q)
        self._model.train()
        result = qtran_loss(self._model, self._target_network.forward, batch, self._settings, self._weights)
        # The original API has the key clip_value and does not limit the norm.
        limit = 1e7 if self._reference_numerics else self._cfg.learn.clip_value
        norm = self._limited_step(result.loss, self._optimizer, self._model, limit)
        self._target_model.update(self._model)
        numbers = read_out({"total_loss": result.loss, **result.numbers, "grad_norm": norm})
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **numbers}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "td_loss", "opt_loss", "nopt_loss", "grad_norm"]
