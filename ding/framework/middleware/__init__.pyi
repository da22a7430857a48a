from ding.framework.middleware.barrier import Barrier as Barrier
from ding.framework.middleware.barrier import BarrierRuntime as BarrierRuntime
from ding.framework.middleware.battle_collector import BattleEpisodeCollector as BattleEpisodeCollector
from ding.framework.middleware.battle_collector import BattleStepCollector as BattleStepCollector
from ding.framework.middleware.ckpt_handler import CkptSaver as CkptSaver
from ding.framework.middleware.collector import EpisodeCollector as EpisodeCollector
from ding.framework.middleware.collector import PPOFStepCollector as PPOFStepCollector
from ding.framework.middleware.collector import StepCollector as StepCollector
from ding.framework.middleware.data_fetcher import OfflineMemoryDataFetcher as OfflineMemoryDataFetcher
from ding.framework.middleware.distributer import ContextExchanger as ContextExchanger
from ding.framework.middleware.distributer import ModelExchanger as ModelExchanger
from ding.framework.middleware.distributer import PeriodicalModelExchanger as PeriodicalModelExchanger
from ding.framework.middleware.distributer import context_exchanger as context_exchanger
from ding.framework.middleware.distributer import model_exchanger as model_exchanger
from ding.framework.middleware.functional import *
from ding.framework.middleware.learner import HERLearner as HERLearner
from ding.framework.middleware.learner import OffPolicyLearner as OffPolicyLearner
