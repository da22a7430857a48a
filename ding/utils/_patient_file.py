"""Log and curve files that survive a full disk.

Without this, a log line that cannot be written prints a traceback, and the writer thread of tensorboardX dies: the next
ten points fill its queue, and the eleventh blocks training for good.
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
    """An append-only file that keeps data it cannot write in memory, up to 64 MiB, and retries at the next write or
    flush.

    Beyond 64 MiB, further data is lost until the file is closed: a gap in the middle would make the rest unreadable.
    Thread-safe.

    Args:
        path: Path of the file; an existing file is appended to.

    Raises:
        OSError: The file cannot be opened. No other call raises it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._refused = self._ended = False

    def write(self, data: bytes) -> int:
        """Append ``data``, now or later, and return its length."""
        with self._lock:
            self._ended = self._ended or len(self._waiting) + len(data) > _MOST_WAITING_BYTES
            if not self._ended:
                self._waiting += data
            refusal = self._write_waiting() if len(self._waiting) >= _BLOCK_BYTES else None
        self._report(refusal)
        return len(data)

    def flush(self) -> None:
        """Write as much of the waiting data as possible."""
        with self._lock:
            refusal = self._write_waiting()
        self._report(refusal)

    def close(self) -> None:
        """Write the waiting data and close the file; data that cannot be written is lost. May be called repeatedly."""
        with self._lock:
            if not self._file.closed:
                self._write_waiting()
                self._file.close()

    def _write_waiting(self) -> OSError | None:
        """Write the waiting data; return the reason if that fails and the reason is new."""
        try:
            while self._waiting:
                del self._waiting[: self._file.write(self._waiting)]
        except OSError as error:
            known, self._refused = self._refused, True
            return None if known else error
        self._refused = False
        return None

    def _report(self, refusal: OSError | None) -> None:
        # Outside the lock: the log line may be meant for this very file.
        if refusal is not None:
            logger.warning("%s cannot be written, what belongs there waits in memory: %s", self._path, refusal)


class LogFileHandler(logging.FileHandler):
    """Append records to a `PatientFile`.

    Args:
        path: Path of the file, written in UTF-8.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")

    def _open(self) -> Any:
        # tensorboardX only writes, flushes and closes the file.
        return codecs.getwriter("utf-8")(PatientFile(self.baseFilename))  # type: ignore[arg-type]


class _EventFiles:
    """Opener that tensorboardX calls for files in a folder ``ding:<folder>``."""

    @staticmethod
    def directory_check(folder: str) -> None:
        os.makedirs(folder.removeprefix(f"{_EVENTS}:"), exist_ok=True)

    @staticmethod
    def open(path: str) -> PatientFile:
        return PatientFile(path.removeprefix(f"{_EVENTS}:"))


def event_folder(folder: str) -> str:
    """Return the folder name under which tensorboardX opens its event files as `PatientFile`."""
    from tensorboardX.record_writer import register_writer_factory

    register_writer_factory(_EVENTS, _EventFiles)
    return f"{_EVENTS}:{folder}"
