"""Complete networks, registered in ``MODEL_REGISTRY``."""

from typing import Any

from ding.model.template.q_learning import BDQ, C51DQN, DQN, DRQN, FQF, IQN, QRDQN, RainbowDQN
from ding.utils import absent_name

__all__ = ["BDQ", "C51DQN", "DQN", "DRQN", "FQF", "IQN", "QRDQN", "RainbowDQN"]


def __getattr__(name: str) -> Any:
    raise absent_name(__name__, name, __all__)
