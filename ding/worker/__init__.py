"""Workers: collectors, evaluators, the learner, replay buffers and commanders.

Workers are independent of the algorithm: they access a policy only through its learn, collect, eval and command modes.
Names are imported on first use.

Glossary:

* *env step*: one step of one environment. A vector step of N environments is N env steps.
* *episode*: the steps from the reset of an environment to its end.
* *transition*: the record of one env step: obs, action, reward, next obs, done.
* *train sample*: an item that a policy builds from transitions for training (n-step returns, unrolled segments).
* *collect*: one call of a collector; it returns once it has enough samples or episodes.
* *train iteration*: one call of a policy's optimiser, hence one dict returned by ``learn_mode.forward``.
* *evaluation*: one call of an evaluator, which plays ``n_episode`` episodes.
"""

# Registers the buffer type 'deque'.
import ding.data

# Registers collectors and evaluators.
import ding.worker.collector  # noqa: F401
from ding.utils import BUFFER_REGISTRY, COMM_LEARNER_REGISTRY, COMMANDER_REGISTRY, LEARNER_REGISTRY
from ding.utils.exports import lazy_exports, register_lazily

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)

register_lazily(LEARNER_REGISTRY, "base", f"{__name__}.learner.base_learner:BaseLearner")
for _alias, _target in {
    "flask_fs": "flask_fs_learner:FlaskFileSystemLearner",
    "inproc": "inproc_learner:InprocLearner",
}.items():
    register_lazily(COMM_LEARNER_REGISTRY, _alias, f"{__name__}.learner.comm.{_target}")
for _alias, _target in {
    "naive": "base_parallel_commander:NaiveCommander",
    "solo": "solo_parallel_commander:SoloCommander",
    "one_vs_one": "one_vs_one_parallel_commander:OneVsOneCommander",
}.items():
    register_lazily(COMMANDER_REGISTRY, _alias, f"{__name__}.coordinator.{_target}")
for _alias, _target in {
    "naive": "naive_buffer:NaiveReplayBuffer",
    "elastic": "naive_buffer:ElasticReplayBuffer",
    "sequence": "sequence_buffer:SequenceReplayBuffer",
    "episode": "episode_buffer:EpisodeReplayBuffer",
    "advanced": "advanced_buffer:AdvancedReplayBuffer",
}.items():
    register_lazily(BUFFER_REGISTRY, _alias, f"{__name__}.replay_buffer.{_target}")
