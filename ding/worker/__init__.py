"""The workers: collectors, evaluators, the learner, replay buffers and commanders.

They know no algorithm: what they do with a policy goes through its learn, collect, eval and command modes. Names are
imported when they are first used.

A glossary, because half of all mistakes are confusions of these words:

* *env step*: one step of one environment. A vector step of N environments is N env steps.
* *episode*: from the reset of an environment to its end.
* *transition*: what one env step leaves behind: obs, action, reward, next obs, done.
* *train sample*: what a policy makes of transitions for training (n-step returns, unrolled pieces).
* *collect*: one call of a collector; it lasts until enough samples or episodes are there.
* *train iteration*: one call of a policy's optimiser, so one dict that ``learn_mode.forward`` returns.
* *evaluation*: one call of an evaluator; it plays ``n_episode`` episodes.
"""

from typing import TYPE_CHECKING, Any

# Registers the buffer type 'deque'.
import ding.data  # noqa: F401
from ding.utils import BUFFER_REGISTRY, COMM_LEARNER_REGISTRY, COMMANDER_REGISTRY, LEARNER_REGISTRY
from ding.worker import collector as _collector
from ding.worker._lazy import load_export, register_lazily

if TYPE_CHECKING:
    from ding.data.buffer.deque_buffer_wrapper import DequeBufferWrapper
    from ding.worker.adapter import LearnerAggregator
    from ding.worker.collector import (
        BaseCommCollector,
        BaseParallelCollector,
        BattleEpisodeSerialCollector,
        BattleInteractionSerialEvaluator,
        BattleSampleSerialCollector,
        EpisodeSerialCollector,
        FlaskFileSystemCollector,
        IMetric,
        InteractionSerialEvaluator,
        ISerialCollector,
        ISerialEvaluator,
        MarineParallelCollector,
        MetricSerialEvaluator,
        NaiveCollector,
        SampleSerialCollector,
        VectorEvalMonitor,
        ZerglingParallelCollector,
        create_comm_collector,
        create_parallel_collector,
        create_serial_collector,
        create_serial_evaluator,
        get_parallel_collector_cls,
        get_serial_collector_cls,
        get_serial_evaluator_cls,
        to_tensor_transitions,
    )
    from ding.worker.coordinator import (
        BaseCommander,
        BaseSerialCommander,
        Coordinator,
        create_parallel_commander,
        get_parallel_commander_cls,
    )
    from ding.worker.learner import (
        BaseLearner,
        LearnerHook,
        add_learner_hook,
        build_learner_hook_by_cfg,
        create_learner,
        merge_hooks,
        register_learner_hook,
    )
    from ding.worker.learner.comm import BaseCommLearner, FlaskFileSystemLearner, create_comm_learner
    from ding.worker.replay_buffer import (
        AdvancedReplayBuffer,
        ElasticReplayBuffer,
        EpisodeReplayBuffer,
        IBuffer,
        NaiveReplayBuffer,
        SampleRatioLimiter,
        SequenceReplayBuffer,
        create_buffer,
        get_buffer_cls,
    )

__all__ = [
    "AdvancedReplayBuffer",
    "BaseCommCollector",
    "BaseCommLearner",
    "BaseCommander",
    "BaseLearner",
    "BaseParallelCollector",
    "BaseSerialCommander",
    "BattleEpisodeSerialCollector",
    "BattleInteractionSerialEvaluator",
    "BattleSampleSerialCollector",
    "Coordinator",
    "DequeBufferWrapper",
    "ElasticReplayBuffer",
    "EpisodeReplayBuffer",
    "EpisodeSerialCollector",
    "FlaskFileSystemCollector",
    "FlaskFileSystemLearner",
    "IBuffer",
    "IMetric",
    "ISerialCollector",
    "ISerialEvaluator",
    "InteractionSerialEvaluator",
    "LearnerAggregator",
    "LearnerHook",
    "MarineParallelCollector",
    "MetricSerialEvaluator",
    "NaiveCollector",
    "NaiveReplayBuffer",
    "SampleRatioLimiter",
    "SampleSerialCollector",
    "SequenceReplayBuffer",
    "VectorEvalMonitor",
    "ZerglingParallelCollector",
    "add_learner_hook",
    "build_learner_hook_by_cfg",
    "create_buffer",
    "create_comm_collector",
    "create_comm_learner",
    "create_learner",
    "create_parallel_collector",
    "create_parallel_commander",
    "create_serial_collector",
    "create_serial_evaluator",
    "get_buffer_cls",
    "get_parallel_collector_cls",
    "get_parallel_commander_cls",
    "get_serial_collector_cls",
    "get_serial_evaluator_cls",
    "merge_hooks",
    "register_learner_hook",
    "to_tensor_transitions",
]

_MODULES = {
    **dict.fromkeys(_collector.__all__, "collector"),
    "LearnerAggregator": "adapter",
    **dict.fromkeys(
        [
            "BaseCommander",
            "BaseSerialCommander",
            "Coordinator",
            "create_parallel_commander",
            "get_parallel_commander_cls",
        ],
        "coordinator",
    ),
    **dict.fromkeys(["BaseCommLearner", "FlaskFileSystemLearner", "create_comm_learner"], "learner.comm"),
    **dict.fromkeys(
        [
            "BaseLearner",
            "LearnerHook",
            "add_learner_hook",
            "build_learner_hook_by_cfg",
            "create_learner",
            "merge_hooks",
            "register_learner_hook",
        ],
        "learner",
    ),
    **dict.fromkeys(
        [
            "AdvancedReplayBuffer",
            "DequeBufferWrapper",
            "ElasticReplayBuffer",
            "EpisodeReplayBuffer",
            "IBuffer",
            "NaiveReplayBuffer",
            "SampleRatioLimiter",
            "SequenceReplayBuffer",
            "create_buffer",
            "get_buffer_cls",
        ],
        "replay_buffer",
    ),
}

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


def __getattr__(name: str) -> Any:
    return load_export(__name__, _MODULES, name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
