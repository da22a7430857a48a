"""Status of a run as a file in its experiment folder, which ``ding board`` shows for active runs."""

import dataclasses
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from ding.entry.view.runs import STATUS_FILE
from ding.entry.view.status import RateMeter, RunStatus, finite
from ding.entry.view.views import RunView
from ding.utils import get_rank, one_time_warning
from ding.utils.file_helper import write_text


class StatusFile:
    """View that also writes ``<exp_name>/status.json`` atomically, every ``interval_s`` seconds and at start and end.

    The fields are those of :class:`~ding.entry.view.status.RunStatus`, and ``state`` (``running``, ``ended``,
    ``stopped`` before its end), ``sentence`` (about the end), ``host`` and ``pid``, ``time_s`` (seconds since the
    epoch), ``share`` and the rates per second. Non-finite numbers become null.

    Args:
        view: Wrapped view.
        interval_s: Seconds between two writes.
    """

    def __init__(self, view: RunView, interval_s: float = 2.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._view = view
        self._interval_s = interval_s
        self._clock = clock
        self._meter = RateMeter()
        self._status: RunStatus | None = None
        self._next_s = 0.0

    def start(self, status: RunStatus) -> None:
        self._view.start(status)
        self._write(status, "running")

    def update(self, status: RunStatus) -> None:
        self._view.update(status)
        if self._clock() >= self._next_s:
            self._write(status, "running")
        self._status = status

    def stopping(self) -> None:
        self._view.stopping()

    def finish(self, sentence: str, ok: bool) -> None:
        try:
            if self._status is not None:
                self._write(self._status, "ended" if ok else "stopped", sentence)
        finally:
            self._view.finish(sentence, ok)

    def _write(self, status: RunStatus, state: str, sentence: str = "") -> None:
        self._status = status
        if get_rank() > 0:
            return
        now_s = self._clock()
        self._next_s = now_s + self._interval_s
        rates = self._meter.measure(now_s, status)
        evaluations = {name: getattr(status, name) for name in ("last_evaluation", "best_evaluation")}
        content = {
            "state": state,
            "sentence": sentence,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "time_s": time.time(),
            "share": status.share,
            "rates": dataclasses.asdict(rates),
            **dataclasses.asdict(status),
            **{name: None if found is None else found.as_dict() for name, found in evaluations.items()},
        }
        try:
            write_text(Path(status.exp_name) / STATUS_FILE, json.dumps(finite(content)))
        except OSError as error:
            # A lack of disk space for a file that is rewritten soon must not end the run.
            one_time_warning(f"{STATUS_FILE} of {status.exp_name} is not written: {error.strerror}")
