"""What a buffer reports, and the removal of files whose meta data left it."""

import logging
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ding.data.roles import Writer
from ding.utils import LoggerFactory, remove_file, write_scalars
from ding.utils.lock_helper import OwnLocks

log = logging.getLogger(__name__)

SampleAttributes: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Use, priority and staleness ``[N]`` of the rows of one sample call."""

_NAMES = ("pushed_in", "sampled_out", "removed", "current_have")


class ThruputCounters:
    """How much was ever pushed, sampled and removed, and how much there is.

    The buffer adds to it within its own lock; the reporting thread only reads and forms differences, so nothing that
    is counted gets lost between the two.
    """

    __slots__ = ("__weakref__", "have", "pushed", "removed", "sampled")

    def __init__(self) -> None:
        self.pushed = self.sampled = self.removed = self.have = 0

    def snapshot(self) -> tuple[int, int, int]:
        """``(pushed, sampled, removed)``."""
        return self.pushed, self.sampled, self.removed


def _since_last_report(name: str, doc: str) -> object:
    """Return a property of a monitor: how much a counter grew since the last report."""

    def get(monitor: "PeriodicThruputMonitor") -> int:
        return int(getattr(monitor.counters, name)) - monitor.reported[name]

    def put(monitor: "PeriodicThruputMonitor", count: int) -> None:
        setattr(monitor.counters, name, monitor.reported[name] + count)

    return property(get, put, doc=doc)


class PeriodicThruputMonitor(OwnLocks):
    """Reports every ``cfg.seconds`` how much was pushed, sampled and removed, and how much there is.

    The report is a table in the log and the scalars ``<name>_sec/pushed_in``, ``sampled_out``, ``removed`` and
    ``current_have`` over the number of the report. The thread holds no reference to the monitor while it waits: when
    nobody closes it, it is collected all the same, and the thread ends.

    Args:
        name: of the buffer.
        cfg: ``{'seconds': period}``.
        logger: text logger.
        tb_logger: tensorboard writer, or None.
        counters: what to report; ``None``: counters of its own, for use through the properties.
    """

    push_data_count = _since_last_report("pushed", "Elements pushed since the last report.")
    sample_data_count = _since_last_report("sampled", "Elements sampled since the last report.")
    remove_data_count = _since_last_report("removed", "Elements removed since the last report.")

    def __init__(
        self,
        name: str,
        cfg: Mapping[str, Any],
        logger: logging.Logger,
        tb_logger: "Writer | None",
        counters: "ThruputCounters | None" = None,
    ) -> None:
        seconds = float(cfg["seconds"])
        if not seconds > 0:
            raise ValueError(f"the period of throughput reports must be positive, got {seconds}")
        self.counters = counters or ThruputCounters()
        self.reported = {"pushed": 0, "sampled": 0, "removed": 0}
        self._name, self._seconds, self._logger, self._tb_logger, self._number = name, seconds, logger, tb_logger, 0
        self._make_own()

    # A copy of a buffer's monitor writes no curves, as the copy does not.
    _own = ("_stop", "_thread")

    def _make_own(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_report_periodically, args=(weakref.ref(self), self._stop, self._seconds),
            name=f"{self._name} throughput", daemon=True,
        )  # fmt: skip
        weakref.finalize(self, self._stop.set)
        self._thread.start()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_tb_logger": None}

    @property
    def is_idle(self) -> bool:
        """Whether nothing was pushed, sampled or removed since the last report; such a period is not reported."""
        return all(getattr(self.counters, name) == count for name, count in self.reported.items())

    def report(self) -> None:
        """Report now."""
        now = {name: int(getattr(self.counters, name)) for name in self.reported}
        grown = [float(now[name] - count) for name, count in self.reported.items()]
        self.reported = now
        table = dict(zip(_NAMES, [*grown, float(self.counters.have)]))
        self._logger.info(
            "throughput of %s in %g s:%s", self._name, self._seconds, LoggerFactory.get_tabulate_vars_hor(table)
        )
        if self._tb_logger is not None:
            write_scalars(self._tb_logger, f"{self._name}_sec/", table, self._number)
        self._number += 1

    def close(self) -> None:
        """Stop the thread and wait for its end. May be called again."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def valid_count(self) -> int:
        """Elements that the buffer holds."""
        return self.counters.have

    @valid_count.setter
    def valid_count(self, count: int) -> None:
        self.counters.have = count


def _report_periodically(monitor: "weakref.ref[PeriodicThruputMonitor]", stop: threading.Event, seconds: float) -> None:
    while not stop.wait(seconds):
        held = monitor()
        if held is not None and not held.is_idle:
            held.report()
        del held


class SampledDataAttrMonitor:
    """Use, priority and staleness of what was sampled lately.

    Args:
        average_range: number of sample calls to aggregate over.
    """

    def __init__(self, average_range: int) -> None:
        if average_range < 1:
            raise ValueError(f"average_range must be positive, got {average_range}")
        self._calls: deque[SampleAttributes] = deque(maxlen=average_range)

    def record(self, use: np.ndarray, priority: np.ndarray, staleness: np.ndarray) -> None:
        """Note one sample call; the arrays ``[N]`` are kept and must not be written to."""
        self._calls.append((use, priority, staleness))

    def summary(self) -> dict[str, float]:
        """See :func:`sample_summary`."""
        return sample_summary(self._calls)


def sample_summary(calls: Collection[SampleAttributes]) -> dict[str, float]:
    """``use_avg, use_max, priority_avg, priority_max, priority_min, staleness_avg, staleness_max`` of sample calls;
    ``{}`` without a call. An average is the mean of the means of the calls.
    """
    if not calls:
        return {}
    use, priority, staleness = zip(*calls)
    return {
        "use_avg": float(np.mean([values.mean() for values in use])),
        "use_max": float(max(values.max() for values in use)),
        "priority_avg": float(np.mean([values.mean() for values in priority])),
        "priority_max": float(max(values.max() for values in priority)),
        "priority_min": float(min(values.min() for values in priority)),
        "staleness_avg": float(np.mean([values.mean() for values in staleness])),
        "staleness_max": float(max(values.max() for values in staleness)),
    }


class UsedDataRemover(OwnLocks):
    """Removes the files of used data in a thread of its own.

    Elements are dicts; ``data_id`` is the path of a file.

    Args:
        path_data: folder of the files: ids are relative to it, and one that leads out of it is refused. ``None``: ids
            are paths as they are. Give a folder when the ids come from other processes.
    """

    def __init__(self, path_data: "str | None" = None) -> None:
        self._path_data = path_data
        self._make_own()

    # What is queued stays with the original, and a copy has still to be started.
    _own = ("_queue", "_thread")

    def _make_own(self) -> None:
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. May be called again after ``close``."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="used data remover", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Remove what is queued, end the thread and wait for its end. May be called again."""
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join()
        self._thread = None

    def add_used_data(self, data: object) -> None:
        """Queue the file of one element.

        Raises:
            AssertionError: ``data`` is no dict with the key ``data_id``.
        """
        self._queue.put(self._path_of(data))

    def add_all(self, elements: Iterable[object]) -> None:
        """Queue the files of several elements that :meth:`check` let pass."""
        for data in elements:
            self._queue.put(self._path_of(data))

    def check(self, elements: Iterable[object]) -> None:
        """Raise what :meth:`add_used_data` would raise, without queueing anything."""
        for data in elements:
            self._path_of(data)

    def _path_of(self, data: object) -> str:
        if not isinstance(data, dict) or not isinstance(data.get("data_id"), str):
            raise AssertionError(f"used data must be a dict with the path of a file as 'data_id', got {data!r:.200}")
        if self._path_data is None:
            text: str = data["data_id"]
            return text
        folder = os.path.realpath(self._path_data)
        path = os.path.realpath(os.path.join(folder, data["data_id"]))
        if os.path.commonpath([folder, path]) != folder or path == folder:
            raise AssertionError(f"data_id {data['data_id']!r} leads out of the folder {self._path_data!r}")
        return path

    def _run(self) -> None:
        while True:
            path = self._queue.get()
            if path is None:
                return
            try:
                remove_file(path)
            except OSError as error:
                log.warning("cannot remove the used data %s: %s", path, error)
