"""State of a run, read repeatedly from its folder while the run grows."""

import hashlib
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ding.config import ConfigValueError
from ding.entry.view.event_files import EventFile, Scalars, add_scalars
from ding.entry.view.runs import (
    CONFIG_FILE,
    STATUS_FILE,
    event_files,
    find_runs,
    label_of,
    main_config_of,
    read_literals,
    read_object,
    seed_of,
)
from ding.utils.nested import dotted

logger = logging.getLogger("ding.entry")

RETURN_METRICS = ("evaluator/reward_mean", "basic/eval_episode_return_mean", "evaluator/eval_episode_return_mean")
"""Tags of evaluations: of pipelines, of tasks, of DI-engine scripts."""

_AXIS = re.compile(r"^(\w+)_(iter|step)/")
# A run writes its status every 2 s; a long evaluation or a slow network may delay it.
_LOST_AFTER_S = 60.0
_LOOK_EVERY_S = 1.0
# Seconds that a request spends on reading new runs: the page shows the first ones, and requests the others.
_READ_S = 0.3
_VIDEOS = (".mp4", ".webm", ".gif")
_LOGS = (".txt", ".log")


def metric_of(tag: str) -> tuple[str, str]:
    """Return the metric of a tag, and its x-axis: ``iter`` (train iterations) or ``step`` (env steps).

    ``learner_iter/total_loss`` and ``learner_step/total_loss`` are the same metric, ``learner/total_loss``.
    """
    found = _AXIS.match(tag)
    return (f"{found[1]}/{tag[found.end() :]}", found[2]) if found else (tag, "step")


class BoardRun:
    """One experiment folder.

    Args:
        folder: Path of the folder.
        name: Path relative to the folder of the board.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.id = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
        self.config: dict[str, Any] = {}
        self.status: dict[str, Any] = {}
        #: Problem of its files, if any.
        self.fault = ""
        self._result: dict[str, Any] = {}
        self._files: dict[Path, EventFile] = {}
        self._scalars: dict[str, Scalars] = {}
        self._drawn: dict[str, Scalars] = {}
        self._changed_s: dict[Path, float] = {}

    def refresh(self) -> None:
        """Read new data of the folder. An unreadable file is recorded in ``fault`` and skipped."""
        self.fault = ""
        self._reread(self.folder / CONFIG_FILE, self._read_config)
        self._reread(self.folder / STATUS_FILE, self._read_status)
        self._reread(self.folder / "result.json", self._read_result)
        for path in event_files(self.folder):
            try:
                new = self._files.setdefault(path, EventFile(path)).read_new()
            except (OSError, ValueError) as error:
                self.fault = str(error)
                continue
            add_scalars(self._scalars, new)
            for tag in new:
                self._drawn.pop(tag, None)

    @property
    def label(self) -> str:
        """Name of its experiment."""
        return label_of(Path(self.name), seed_of(self.folder, self._main_config()))

    @property
    def metrics(self) -> dict[str, set[str]]:
        """Return the x-axes of each recorded metric."""
        found: dict[str, set[str]] = {}
        for tag in self._scalars:
            metric, axis = metric_of(tag)
            found.setdefault(metric, set()).add(axis)
        return found

    def curve(self, metric: str, axis: str) -> Scalars | None:
        """Return the values of a metric by ascending step of ``axis``; ``None`` if it has none."""
        for tag in self._scalars:
            if metric_of(tag) == (metric, axis):
                if tag not in self._drawn:
                    self._drawn[tag] = self._scalars[tag].newest_by_step()
                return self._drawn[tag]
        return None

    @property
    def state(self) -> str:
        """``running``, ``ended``, ``stopped`` (before its end), ``lost`` (without a process) or ``unknown``."""
        if self.status.get("state") == "running":
            return "running" if self._is_alive() else "lost"
        return self.status.get("state") or ("ended" if self._result else "unknown")

    def _is_alive(self) -> bool:
        """Return whether the process of the run exists; on another machine, whether its status is recent."""
        pid, time_s = self.status.get("pid"), self.status.get("time_s")
        if self.status.get("host") != socket.gethostname() or not isinstance(pid, int) or pid <= 0:
            return isinstance(time_s, (int, float)) and time_s > time.time() - _LOST_AFTER_S
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):  # no process has such a number
            return False
        except PermissionError:
            pass
        return True

    def summary(self) -> dict[str, Any]:
        """Return the run's row for the table of runs."""
        create, main = self.config.get("create_config"), self._main_config()
        returns = self._returns()
        known = {**self._result, **self.status}
        last = known.get("last_return", known.get("eval_value", known.get("return")))
        best = known.get("best_return")
        if returns is not None and len(returns):
            last = float(returns.values[-1]) if last is None else last
            best = float(np.nanmax(returns.values, initial=-np.inf)) if best is None else best
        return {
            "id": self.id,
            "name": self.name,
            "label": self.label,
            "seed": seed_of(self.folder, main),
            "env": _first(main, ("env", "env_id"), ("env", "type")) or _first(create, ("env", "type")),
            "policy": (_first(create, ("policy", "type")) or _first(main, ("policy", "type")) or "").removesuffix(
                "_command"
            ),
            "state": self.state,
            "fault": self.fault,
            "env_step": known.get("env_step"),
            "train_iter": known.get("train_iter"),
            "last_return": last,
            "best_return": best,
            "elapsed_s": known.get("elapsed_s"),
            "share": known.get("share"),
            "rates": known.get("rates"),
        }

    def detail(self) -> dict[str, Any]:
        """Return all data that the page shows of one run."""
        return {
            **self.summary(),
            "status": self.status,
            "result": self._result,
            "config": self.flat_config(),
            "videos": self._relative(_VIDEOS),
            "logs": self._relative(_LOGS),
        }

    def flat_config(self) -> dict[str, Any]:
        """Return the config with dotted keys."""
        return dotted(self._main_config(), empty=True)

    def file(self, name: str, suffixes: tuple[str, ...]) -> Path | None:
        """Return the path of a file of the run that the page may request; ``None`` if it does not exist."""
        return self.folder / name if name in self._relative(suffixes) else None

    def log_file(self, name: str) -> Path | None:
        """Return the path of a text log."""
        return self.file(name, _LOGS)

    def video_file(self, name: str) -> Path | None:
        """Return the path of a video."""
        return self.file(name, _VIDEOS)

    def _relative(self, suffixes: tuple[str, ...]) -> list[str]:
        home = self.folder.resolve()
        # A link could lead out of the folder.
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if path.suffix in suffixes and path.is_file() and path.resolve().is_relative_to(home)
        )

    def _main_config(self) -> dict[str, Any]:
        return main_config_of(self.config)

    def _returns(self) -> Scalars | None:
        metrics = self.metrics
        found = next((metric for metric in RETURN_METRICS if metric in metrics), None)
        return None if found is None else self.curve(found, sorted(metrics[found])[-1])

    def _reread(self, path: Path, read: Callable[[Path], None]) -> None:
        try:
            changed_s = path.stat().st_mtime
            if self._changed_s.get(path) != changed_s:
                read(path)
                self._changed_s[path] = changed_s
        except FileNotFoundError:
            return
        except (OSError, ValueError, SyntaxError, RecursionError) as error:
            self.fault = f"{path.name}: {error}"

    def _read_config(self, path: Path) -> None:
        self.config = read_literals(path)

    def _read_status(self, path: Path) -> None:
        self.status = read_object(path)

    def _read_result(self, path: Path) -> None:
        self._result = read_object(path)


class BoardRuns:
    """All runs below some folders. Thread-safe.

    Args:
        folders: Folders to search, at each refresh.
        read_s: Seconds that a call spends on reading new runs, at least one run.
    """

    def __init__(self, folders: Sequence[Path], read_s: float = _READ_S) -> None:
        self._folders = folders
        self._read_s = read_s
        self._runs: dict[Path, BoardRun] = {}
        self._lock = threading.Lock()
        self._looked_s = float("-inf")
        self._new: list[BoardRun] = []

    @property
    def unread(self) -> int:
        """Number of runs that later calls of :meth:`refreshed` will read."""
        return len(self._new)

    def refreshed(self) -> list[BoardRun]:
        """Return the current runs, except unread ones; the disk is searched at most once per second."""
        with self._lock:
            if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
                self._look()
                self._looked_s = time.monotonic()
            self._read_new()
            return list(self._runs.values())

    def get(self, run_id: str) -> BoardRun | None:
        """Return the run with this id, if any."""
        return next((run for run in self.refreshed() if run.id == run_id), None)

    def _look(self) -> None:
        found: dict[Path, str] = {}
        for folder in self._folders:
            try:
                paths = find_runs([folder])
            except ConfigValueError:
                # The folder does not exist yet, or no longer.
                continue
            for path in paths:
                found[path] = path.name if path == folder else path.relative_to(folder).as_posix()
        self._runs = {path: self._runs[path] for path in found if path in self._runs}
        for run in self._runs.values():
            run.refresh()
        self._new = [BoardRun(path, name) for path, name in found.items() if path not in self._runs]

    def _read_new(self) -> None:
        until_s = time.monotonic() + self._read_s
        while self._new:
            run = self._new.pop(0)
            run.refresh()
            self._runs[run.folder] = run
            if time.monotonic() >= until_s:
                break


def _first(config: object, *paths: tuple[str, ...]) -> str | None:
    """Return the first string among these paths of a nested dict."""
    for keys in paths:
        value = config
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str):
            return value
    return None
