"""Events of several processes of one run, in files of one folder: who did how much of what, and when.

Times are those of the monotonic clock, which all processes of a machine share on Linux. Standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER_VARIABLE = "BENCH_EVENTS"


class Event(NamedTuple):
    """One line: ``kind`` (a word), time in seconds, an amount or a number, and a name without spaces ('' for none)."""

    pid: int
    kind: str
    time_s: float
    number: int
    name: str


class EventLog:
    """Appends to the file of the running process; a forked child has its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pid = -1
        self._file = -1

    def add(self, kind: str, number: int = 1, name: str = "", time_s: float | None = None) -> None:
        """Write one event; ``time_s`` is now when not given."""
        pid = os.getpid()
        if self._pid != pid:
            path = os.path.join(self._folder, f"{pid}.events")
            # In this order, since other threads may be here, too.
            self._file, self._pid = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), pid
        when = time.monotonic() if time_s is None else time_s
        os.write(self._file, f"{kind} {when:.6f} {number} {name}\n".encode())


def read_events(folder: Path) -> Iterator[Event]:
    """All whole lines of all files, process by process."""
    for file in sorted(folder.glob("*.events")):
        pid = int(file.stem)
        text = file.read_text(encoding="ascii")
        # What follows the last line end is still being written.
        for line in text[: text.rfind("\n") + 1].splitlines():
            kind, when, number, name = line.split(" ")
            yield Event(pid, kind, float(when), int(number), name)
