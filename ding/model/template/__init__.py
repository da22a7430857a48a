"""Complete networks, registered in ``MODEL_REGISTRY``."""

from ding.model.template.q_learning import BDQ, C51DQN, DQN, DRQN, FQF, IQN, QRDQN, RainbowDQN

__all__ = ["BDQ", "C51DQN", "DQN", "DRQN", "FQF", "IQN", "QRDQN", "RainbowDQN"]
