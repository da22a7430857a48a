"""Collectors step environments to gather training samples; evaluators step them to measure a policy.

The serial ones return what they collect; the parallel ones send it, and :mod:`ding.worker.collector.comm` connects
them.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING, Any

from ding.utils import (
    COMM_COLLECTOR_REGISTRY,
    PARALLEL_COLLECTOR_REGISTRY,
    SERIAL_COLLECTOR_REGISTRY,
    SERIAL_EVALUATOR_REGISTRY,
)
from ding.worker._lazy import load_export, register_lazily

if TYPE_CHECKING:
    from ding.worker.collector.base_parallel_collector import (
        BaseParallelCollector,
        create_parallel_collector,
        get_parallel_collector_cls,
    )
    from ding.worker.collector.base_serial_collector import (
        ISerialCollector,
        create_serial_collector,
        get_serial_collector_cls,
        to_tensor_transitions,
    )
    from ding.worker.collector.base_serial_evaluator import (
        ISerialEvaluator,
        VectorEvalMonitor,
        create_serial_evaluator,
        get_serial_evaluator_cls,
    )
    from ding.worker.collector.battle_episode_serial_collector import BattleEpisodeSerialCollector
    from ding.worker.collector.battle_interaction_serial_evaluator import BattleInteractionSerialEvaluator
    from ding.worker.collector.battle_sample_serial_collector import BattleSampleSerialCollector
    from ding.worker.collector.comm import (
        BaseCommCollector,
        FlaskFileSystemCollector,
        NaiveCollector,
        create_comm_collector,
    )
    from ding.worker.collector.episode_serial_collector import EpisodeSerialCollector
    from ding.worker.collector.interaction_serial_evaluator import InteractionSerialEvaluator
    from ding.worker.collector.marine_parallel_collector import MarineParallelCollector
    from ding.worker.collector.metric_serial_evaluator import IMetric, MetricSerialEvaluator
    from ding.worker.collector.sample_serial_collector import SampleSerialCollector
    from ding.worker.collector.zergling_parallel_collector import ZerglingParallelCollector

__all__ = [
    "BaseCommCollector",
    "BaseParallelCollector",
    "BattleEpisodeSerialCollector",
    "BattleInteractionSerialEvaluator",
    "BattleSampleSerialCollector",
    "EpisodeSerialCollector",
    "FlaskFileSystemCollector",
    "IMetric",
    "ISerialCollector",
    "ISerialEvaluator",
    "InteractionSerialEvaluator",
    "MarineParallelCollector",
    "MetricSerialEvaluator",
    "NaiveCollector",
    "SampleSerialCollector",
    "VectorEvalMonitor",
    "ZerglingParallelCollector",
    "create_comm_collector",
    "create_parallel_collector",
    "create_serial_collector",
    "create_serial_evaluator",
    "get_parallel_collector_cls",
    "get_serial_collector_cls",
    "get_serial_evaluator_cls",
    "to_tensor_transitions",
]

_MODULES = {
    "BaseCommCollector": "comm",
    "BaseParallelCollector": "base_parallel_collector",
    "BattleEpisodeSerialCollector": "battle_episode_serial_collector",
    "BattleInteractionSerialEvaluator": "battle_interaction_serial_evaluator",
    "BattleSampleSerialCollector": "battle_sample_serial_collector",
    "EpisodeSerialCollector": "episode_serial_collector",
    "FlaskFileSystemCollector": "comm",
    "IMetric": "metric_serial_evaluator",
    "ISerialCollector": "base_serial_collector",
    "ISerialEvaluator": "base_serial_evaluator",
    "InteractionSerialEvaluator": "interaction_serial_evaluator",
    "MarineParallelCollector": "marine_parallel_collector",
    "MetricSerialEvaluator": "metric_serial_evaluator",
    "NaiveCollector": "comm",
    "SampleSerialCollector": "sample_serial_collector",
    "VectorEvalMonitor": "base_serial_evaluator",
    "ZerglingParallelCollector": "zergling_parallel_collector",
    "create_comm_collector": "comm",
    "create_parallel_collector": "base_parallel_collector",
    "create_serial_collector": "base_serial_collector",
    "create_serial_evaluator": "base_serial_evaluator",
    "get_parallel_collector_cls": "base_parallel_collector",
    "get_serial_collector_cls": "base_serial_collector",
    "get_serial_evaluator_cls": "base_serial_evaluator",
    "to_tensor_transitions": "base_serial_collector",
}

for _alias, _name in {
    "sample": "SampleSerialCollector",
    "episode": "EpisodeSerialCollector",
    "sample_1v1": "BattleSampleSerialCollector",
    "episode_1v1": "BattleEpisodeSerialCollector",
}.items():
    register_lazily(SERIAL_COLLECTOR_REGISTRY, _alias, f"{__name__}.{_MODULES[_name]}:{_name}")
for _alias, _target in {
    "flask_fs": "flask_fs_collector:FlaskFileSystemCollector",
    "inproc": "inproc_collector:InprocCollector",
}.items():
    register_lazily(COMM_COLLECTOR_REGISTRY, _alias, f"{__name__}.comm.{_target}")
for _alias, _name in {"zergling": "ZerglingParallelCollector", "marine": "MarineParallelCollector"}.items():
    register_lazily(PARALLEL_COLLECTOR_REGISTRY, _alias, f"{__name__}.{_MODULES[_name]}:{_name}")
for _alias, _name in {
    "interaction": "InteractionSerialEvaluator",
    "battle_interaction": "BattleInteractionSerialEvaluator",
    "metric": "MetricSerialEvaluator",
}.items():
    register_lazily(SERIAL_EVALUATOR_REGISTRY, _alias, f"{__name__}.{_MODULES[_name]}:{_name}")


def __getattr__(name: str) -> Any:
    return load_export(__name__, _MODULES, name, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
