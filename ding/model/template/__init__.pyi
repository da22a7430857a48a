from ding.model.template.q_learning import BDQ as BDQ
from ding.model.template.q_learning import C51DQN as C51DQN
from ding.model.template.q_learning import DQN as DQN
from ding.model.template.q_learning import DRQN as DRQN
from ding.model.template.q_learning import FQF as FQF
from ding.model.template.q_learning import IQN as IQN
from ding.model.template.q_learning import QRDQN as QRDQN
from ding.model.template.q_learning import RainbowDQN as RainbowDQN
