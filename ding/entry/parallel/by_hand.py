"""Roles of a parallel run started individually by a script, with DI-engine's functions.

``parallel_pipeline`` and ``ding -m dist`` supervise their roles and replace dead ones; here the script is responsible.
"""

import logging
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from typing import Any

from easydict import EasyDict

from ding.entry.distributed.config import load_config, section_of
from ding.utils import set_pkg_seed
from ding.worker import Coordinator
from ding.worker.collector.comm import create_comm_collector
from ding.worker.learner.comm import create_comm_learner

logger = logging.getLogger("ding.entry")

Handle = list[Any]
"""``[process, event set after the start, event that closes it]``."""

_LOOK_EVERY_S = 0.5


def run_learner(config: EasyDict, seed: int, start_learner_event: Any, close_learner_event: Any) -> None:
    """Run a comm learner in this process until the second event is set, or its parent process has ended.

    Args:
        config: Section of the compiled system config, e.g. ``cfg.system.learner0``.
        seed: Seed of Python, NumPy and torch.
        start_learner_event: Set when the learner accepts tasks.
        close_learner_event: Ends the learner.
    """
    _run(create_comm_learner, config, seed, start_learner_event, close_learner_event)


def run_collector(config: EasyDict, seed: int, start_collector_event: Any, close_collector_event: Any) -> None:
    """Run a comm collector; see :func:`run_learner`."""
    _run(create_comm_collector, config, seed, start_collector_event, close_collector_event)


def launch_learner(
    seed: int, config: EasyDict | None = None, filename: str | None = None, name: str | None = None
) -> Handle:
    """Run :func:`run_learner` in a new process.

    Args:
        seed: Seed of Python, NumPy and torch.
        config: Section of the compiled system config.
        filename: Instead of ``config``: a config file, or a file of ``ding -m dist -M config``.
        name: Name of the section in that file, by default ``learner0``.

    Returns:
        ``[process, start event, close event]``.
    """
    return _launch(run_learner, "learner", seed, config, filename, name)


def launch_collector(
    seed: int, config: EasyDict | None = None, filename: str | None = None, name: str | None = None
) -> Handle:
    """Run :func:`run_collector` in a new process; see :func:`launch_learner`."""
    return _launch(run_collector, "collector", seed, config, filename, name)


def launch_coordinator(
    seed: int,
    config: EasyDict | None = None,
    filename: str | None = None,
    learner_handle: Sequence[Handle] | None = None,
    collector_handle: Sequence[Handle] | None = None,
) -> None:
    """Run a coordinator in this process until the stop value is reached, then close it and the workers.

    Args:
        seed: Seed of Python, NumPy and torch.
        config: Compiled parallel config, ``main`` and ``system``.
        filename: Instead of ``config``: as in :func:`launch_learner`.
        learner_handle, collector_handle: Results of :func:`launch_learner` and :func:`launch_collector`; their starts
            are awaited.

    Raises:
        RuntimeError: A worker ended before it had started.
        Exception: The error that ended the run.
    """
    set_pkg_seed(seed)
    cfg = load_config(_file(config, filename), seed, save=False) if config is None else config
    workers = [*(learner_handle or []), *(collector_handle or [])]
    coordinator = Coordinator(cfg)
    try:
        for process, started, _ in workers:
            _wait_for_start(process, started)
        coordinator.start()
        pause = threading.Event()
        while not coordinator.system_shutdown_flag and coordinator.exception is None:
            pause.wait(_LOOK_EVERY_S)
    finally:
        coordinator.close()
        for _, _, closes in workers:
            closes.set()
        for process, *_ in workers:
            process.join()
    if coordinator.exception is not None:
        raise coordinator.exception
    logger.info("the parallel run is over: the stop value is reached")


def _run(create: Callable[[EasyDict], Any], config: EasyDict, seed: int, started: Any, closes: Any) -> None:
    set_pkg_seed(seed)
    worker = create(config)
    worker.start()
    try:
        started.set()
        parent = multiprocessing.parent_process()
        while not closes.wait(_LOOK_EVERY_S) and (parent is None or parent.is_alive()):
            pass
    finally:
        worker.close()


def _launch(
    run: Callable[..., None], kind: str, seed: int, config: EasyDict | None, filename: str | None, name: str | None
) -> Handle:
    if config is None:
        config = section_of(load_config(_file(config, filename), seed, save=False), kind, name)
    context = multiprocessing.get_context("spawn")
    started, closes = context.Event(), context.Event()
    process = context.Process(target=run, args=(config, seed, started, closes), name=kind)
    process.start()
    return [process, started, closes]


def _file(config: EasyDict | None, filename: str | None) -> str:
    if filename is None:
        raise ValueError(f"give config or filename, got config={config!r} and filename={filename!r}")
    return filename


def _wait_for_start(process: Any, started: Any) -> None:
    while not started.wait(_LOOK_EVERY_S):
        if not process.is_alive():
            raise RuntimeError(f"the {process.name} has ended before it started, with exit code {process.exitcode}")
