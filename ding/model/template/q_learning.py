"""Q networks. The classes live in small private modules; this is their public address."""

from ding.model.template._distributional import C51DQN, FQF, IQN, QRDQN, RainbowDQN
from ding.model.template._dqn import BDQ, DQN
from ding.model.template._drqn import DRQN
from ding.model.template._gtrxl_dqn import GTrXLDQN

__all__ = ["BDQ", "C51DQN", "DQN", "DRQN", "FQF", "IQN", "QRDQN", "GTrXLDQN", "RainbowDQN"]
