"""The network of soft Q-learning with two Q functions."""

from __future__ import annotations

from typing import Any

from torch import nn

from ding.model.template._dqn import DQN
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("sqn")
class SQN(nn.Module):
    """Two networks of :class:`DQN`, of the same arguments, that share nothing. State: ``q0``, ``q1``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.q0 = DQN(*args, **kwargs)
        self.q1 = DQN(*args, **kwargs)

    def forward(self, x: Any) -> dict[str, Any]:
        """``q_value``: the outputs of both networks, each ``[B, N]`` (a list of such for a list-valued
        ``action_shape``); ``logit``: that of ``q0``; and the ``action_mask`` of ``x``, if it has one.
        """
        first = self.q0(x)
        return {**first, "q_value": [first["logit"], self.q1(x)["logit"]]}
