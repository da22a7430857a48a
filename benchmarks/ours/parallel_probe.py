"""Makes the processes of a parallel run write down what they do. For this project and for DI-engine.

Both are counted at the same places: rows that enter the coordinator's replay buffer, steps of an optimiser, env steps
that a zergling collector handles. This project's chunks and policies are timed as well. An event costs a few
microseconds.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

from bench_events import FOLDER_VARIABLE, EventLog
from ding_parts import OWN


def install() -> None:
    """Put the counters into the classes, where the folder of the events is set in the environment.

    The script of a side calls this when it is imported: processes that are not forked import it again.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        return
    log = EventLog(folder)
    _count_updates(log)
    _count_env_steps(log)
    if OWN:
        _time_chunks(log)
        _time_policies(log)
    else:
        _count_pushes(log)


def _count_updates(log: EventLog) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(lambda *_: log.add("update"))


def _count_env_steps(log: EventLog) -> None:
    from ding.rollout import VectorStep
    from ding.worker.collector.zergling_parallel_collector import ZerglingParallelCollector

    def stepped(collector: Any, steps: list[VectorStep], *_: Any) -> None:
        if steps:
            log.add("eval_step" if collector._eval_flag else "env_step", len(steps[0].timesteps))

    _after(ZerglingParallelCollector, "_process_timestep", lambda began, found, *args: stepped(*args))


def _count_pushes(log: EventLog) -> None:
    from ding.worker import AdvancedReplayBuffer

    def pushed(_: float, __: Any, buffer: Any, data: Any, *___: Any) -> None:
        log.add("push", len(data) if isinstance(data, list) else 1)

    _after(AdvancedReplayBuffer, "push", pushed)


def _time_chunks(log: EventLog) -> None:
    from ding.parallel.planes.data_plane import StoredDataPlane
    from ding.worker.coordinator.buffers.metadata_buffer import MetadataBuffer

    seen: set[str] = set()

    def pushed(_: float, rows: int, buffer: Any, refs: Any, *__: Any) -> None:
        log.add("push", rows)
        for ref in refs:
            log.add("arrived", name=ref["chunk"])

    def sampled(_: float, batches: Any, *__: Any) -> None:
        # Batches that were drawn together share their list of chunks.
        for chunk in batches[0]["chunks"] if batches else ():
            if chunk not in seen:
                seen.add(chunk)
                log.add("sampled", name=chunk)

    _after(StoredDataPlane, "put", lambda began, ref, *_: log.add("written", name=ref["chunk"], time_s=began))
    _after(MetadataBuffer, "push_chunks", pushed)
    _after(MetadataBuffer, "sample_batches", sampled)


def _time_policies(log: EventLog) -> None:
    from ding.parallel.planes import FileWeightPlane, InprocWeightPlane
    from ding.parallel.planes.ray.planes import RayWeightPlane
    from ding.worker.collector.zergling_parallel_collector import ZerglingParallelCollector

    def published(began: float, _: Any, plane: Any, state: Any, version: int, *__: Any) -> None:
        log.add("published", version, time_s=began)

    def loaded(_: float, __: Any, collector: Any, player: int, version: Any) -> None:
        if version is not None and not collector._eval_flag:
            log.add("loaded", version[0])

    for plane in (FileWeightPlane, InprocWeightPlane, RayWeightPlane):
        _after(plane, "publish", published)
    _after(ZerglingParallelCollector, "_load", loaded)


def _after(owner: type, name: str, note: Callable[..., None]) -> None:
    """Call ``note(began_s, result, *args)`` after each call of a method that succeeded."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def noted(*args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        result = method(*args, **kwargs)
        note(began, result, *args)
        return result

    setattr(owner, name, noted)
