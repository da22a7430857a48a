"""Files for which a run does not end: its logs and its curves, on a disk that is full for a while.

Without this, a log line that cannot be written prints a traceback, and tensorboardX loses the thread that writes: the
next ten points fill its queue, and the eleventh blocks the training for good.
"""

import codecs
import logging
import os
import threading
from typing import Any

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 8192
_MOST_WAITING_BYTES = 1 << 26
_EVENTS = "ding"


class PatientFile:
    """A file to append to. What it does not take waits in memory, up to 64 MiB, for the next write or flush.

    Beyond that, what is written is lost, up to the end of the file: a part in between would make the rest unreadable.
    Safe to share between threads.

    Args:
        path: of the file; one that is there is appended to.

    Raises:
        OSError: it cannot be opened. Nothing else raises it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._refused = self._ended = False

    def write(self, data: bytes) -> int:
        """Append ``data``, now or later; returns its length."""
        with self._lock:
            self._ended = self._ended or len(self._waiting) + len(data) > _MOST_WAITING_BYTES
            if not self._ended:
                self._waiting += data
            refusal = self._write_waiting() if len(self._waiting) >= _BLOCK_BYTES else None
        self._report(refusal)
        return len(data)

    def flush(self) -> None:
        """Write what waits, as far as that is possible."""
        with self._lock:
            refusal = self._write_waiting()
        self._report(refusal)

    def close(self) -> None:
        """Write what waits and close the file; what it does not take now is lost. May be called again."""
        with self._lock:
            if not self._file.closed:
                self._write_waiting()
                self._file.close()

    def _write_waiting(self) -> OSError | None:
        """Write what waits; returns why it cannot be written, unless that is known."""
        try:
            while self._waiting:
                del self._waiting[: self._file.write(self._waiting)]
        except OSError as error:
            known, self._refused = self._refused, True
            return None if known else error
        self._refused = False
        return None

    def _report(self, refusal: OSError | None) -> None:
        # Without the lock: the line may be meant for this file.
        if refusal is not None:
            logger.warning("%s cannot be written, what belongs there waits in memory: %s", self._path, refusal)


class LogFileHandler(logging.FileHandler):
    """Appends records to a `PatientFile`.

    Args:
        path: of the file, in UTF-8.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")

    def _open(self) -> Any:
        # It is written, flushed and closed, and nothing else.
        return codecs.getwriter("utf-8")(PatientFile(self.baseFilename))  # type: ignore[arg-type]


class _EventFiles:
    """How tensorboardX opens the files of a folder ``ding:<folder>``."""

    @staticmethod
    def directory_check(folder: str) -> None:
        os.makedirs(folder.removeprefix(f"{_EVENTS}:"), exist_ok=True)

    @staticmethod
    def open(path: str) -> PatientFile:
        return PatientFile(path.removeprefix(f"{_EVENTS}:"))


def event_folder(folder: str) -> str:
    """Return what to call a folder to tensorboardX, so that its event files are patient ones."""
    from tensorboardX.record_writer import register_writer_factory

    register_writer_factory(_EVENTS, _EventFiles)
    return f"{_EVENTS}:{folder}"
