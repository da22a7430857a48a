"""Cal-QL: CQL whose values stay above those of the data's policy, for fine-tuning (Nakamoto et al. 2023,
arXiv:2303.05479).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.policy._samples.following import FollowingFields
from ding.policy.cql import CQLPolicy, conservative_gaps
from ding.rl_utils.following import returns_along
from ding.utils import POLICY_REGISTRY

# The bound of a return that is not known: no value is below it.
_NO_BOUND = -1e30


@POLICY_REGISTRY.register("cal_ql")
class CalQLPolicy(FollowingFields, CQLPolicy):
    """Calibrated Q-learning: CQL that pushes the values of the policy's actions down to the return of the data and no
    further, so that an agent that goes on to learn online does not first forget; the rest is as in
    :class:`~ding.policy.cql.CQLPolicy`.

    Samples have ``return``, the discounted return from their step on (:func:`ding.rl_utils.following.returns_along`).
    Behind a time limit and behind the end of the data it is not known: there counts ``learn.return_floor``. Collected
    samples see as far as their segments: ``collect.collector.type='episode'`` or a large ``collect.n_sample``.
    """

    config = {
        "type": "cal_ql",
        "random_collect_size": 0,
        "learn": {
            "min_q_weight": 5.0,
            # (float or None) A return that no state has less of. None takes the smallest reward of the data set, or 0
            # if that is positive, for ever.
            "return_floor": None,
        },
    }

    _floor: float = _NO_BOUND

    def fields_of_data_set(self, columns: Mapping[str, Any], following: np.ndarray) -> dict[str, np.ndarray]:
        """Return ``return`` ``[N]``, and note the smallest reward."""
        self._floor = min(0.0, float(np.min(columns["reward"]))) / (1 - float(self._cfg.learn.discount_factor))
        return super().fields_of_data_set(columns, following)

    def _following_fields(self, columns: Mapping[str, Any], following: np.ndarray) -> dict[str, np.ndarray]:
        learn = self._cfg.learn
        reward, done = (np.asarray(columns[name]).reshape(-1) for name in ("reward", "done"))
        floor = self._floor if learn.return_floor is None else float(learn.return_floor)
        found = returns_along(reward, done.astype(bool), following, float(learn.discount_factor), floor)
        return {"return": found.astype(np.float32)}

    def _conservative_gaps(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """As in :class:`~ding.policy.cql.CQLPolicy`, with ``max(Q_i(s, a), return)`` for actions of the policy."""
        num_actions = self._cfg.learn.num_actions
        return conservative_gaps(self._model, batch, num_actions, self._reference_numerics, batch["return"])
