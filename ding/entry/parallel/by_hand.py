"""Roles of a parallel run that a script starts itself, one by one, with the functions of DI-engine.

``parallel_pipeline`` and ``ding -m dist`` watch their roles and replace those that die; here the script does.
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
"""``[process, event that is set when it has started, event to close it]``."""

_LOOK_EVERY_S = 0.5


def run_learner(config: EasyDict, seed: int, start_learner_event: Any, close_learner_event: Any) -> None:
    """Run a comm learner in this process until the second event is set, or its parent process has ended.

    Args:
        config: a section of the compiled system config, e.g. ``cfg.system.learner0``.
        seed: for python, numpy and torch.
        start_learner_event: set when it takes tasks.
        close_learner_event: ends it.
    """
    _run(create_comm_learner, config, seed, start_learner_event, close_learner_event)


def run_collector(config: EasyDict, seed: int, start_collector_event: Any, close_collector_event: Any) -> None:
    """Run a comm collector; see :func:`run_learner`."""
    _run(create_comm_collector, config, seed, start_collector_event, close_collector_event)


def launch_learner(
    seed: int, config: EasyDict | None = None, filename: str | None = None, name: str | None = None
) -> Handle:
    """Start :func:`run_learner` in a process of its own.

    Args:
        seed: for python, numpy and torch.
        config: a section of the compiled system config.
        filename: without ``config``: a config file, or what ``ding -m dist -M config`` made of it.
        name: of the section in that, ``learner0`` by default.

    Returns:
        ``[process, start event, close event]``.
    """
    return _launch(run_learner, "learner", seed, config, filename, name)


def launch_collector(
    seed: int, config: EasyDict | None = None, filename: str | None = None, name: str | None = None
) -> Handle:
    """Start :func:`run_collector` in a process of its own; see :func:`launch_learner`."""
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
        seed: for python, numpy and torch.
        config: the compiled parallel config, ``main`` and ``system``.
        filename: without ``config``: as in :func:`launch_learner`.
        learner_handle, collector_handle: what :func:`launch_learner` and :func:`launch_collector` returned; their start
            is waited for.

    Raises:
        RuntimeError: a worker ended before it had started.
        Exception: what ended the run.
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
