"""Collectors step environments to gather training samples; evaluators step them to measure a policy.

Serial collectors return their samples; parallel collectors send them through :mod:`ding.worker.collector.comm`.

Names are imported on first use.
"""

from ding.utils import (
    COMM_COLLECTOR_REGISTRY,
    PARALLEL_COLLECTOR_REGISTRY,
    SERIAL_COLLECTOR_REGISTRY,
    SERIAL_EVALUATOR_REGISTRY,
)
from ding.utils.exports import lazy_exports, register_lazily

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)

for _alias, _target in {
    "sample": "sample_serial_collector:SampleSerialCollector",
    "episode": "episode_serial_collector:EpisodeSerialCollector",
    "sample_1v1": "battle_sample_serial_collector:BattleSampleSerialCollector",
    "episode_1v1": "battle_episode_serial_collector:BattleEpisodeSerialCollector",
}.items():
    register_lazily(SERIAL_COLLECTOR_REGISTRY, _alias, f"{__name__}.{_target}")
_league = "ding.worker.league.league_serial_collector:LeagueSerialCollector"
register_lazily(SERIAL_COLLECTOR_REGISTRY, "league", _league)
for _alias, _target in {
    "flask_fs": "flask_fs_collector:FlaskFileSystemCollector",
    "inproc": "inproc_collector:InprocCollector",
}.items():
    register_lazily(COMM_COLLECTOR_REGISTRY, _alias, f"{__name__}.comm.{_target}")
for _alias, _target in {
    "zergling": "zergling_parallel_collector:ZerglingParallelCollector",
    "marine": "marine_parallel_collector:MarineParallelCollector",
}.items():
    register_lazily(PARALLEL_COLLECTOR_REGISTRY, _alias, f"{__name__}.{_target}")
for _alias, _target in {
    "interaction": "interaction_serial_evaluator:InteractionSerialEvaluator",
    "battle_interaction": "battle_interaction_serial_evaluator:BattleInteractionSerialEvaluator",
    "metric": "metric_serial_evaluator:MetricSerialEvaluator",
}.items():
    register_lazily(SERIAL_EVALUATOR_REGISTRY, _alias, f"{__name__}.{_target}")
