"""Files with a limited lifetime."""

import os
import threading
import time
import uuid
from collections import deque

from ding.utils.file_helper import remove_file


class ExpiringFiles:
    """Name new files in a folder, and remove each when it expires.

    Concurrency: :meth:`new_path` and :meth:`written` may be called from several threads. One daemon thread removes
    files; it starts with the first file.

    Args:
        folder: Folder, created with the first file if missing.
        ttl_s: Lifetime in seconds, counted from the write.
    """

    def __init__(self, folder: str, ttl_s: float) -> None:
        self._folder = folder
        self._ttl_s = ttl_s
        self._due: deque[tuple[float, str]] = deque()
        self._changed = threading.Condition()
        self._remover: threading.Thread | None = None

    def new_path(self, prefix: str, suffix: str) -> str:
        """Return a path used by no other process, in an existing folder."""
        os.makedirs(self._folder or ".", exist_ok=True)
        return os.path.join(self._folder, f"{prefix}{uuid.uuid4().hex}{suffix}")

    def written(self, path: str) -> None:
        """Start the lifetime of this file."""
        with self._changed:
            self._due.append((time.monotonic() + self._ttl_s, path))
            if self._remover is None:
                self._remover = threading.Thread(target=self._remove_in_time, name="expiring_files", daemon=True)
                self._remover.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Remove the remaining files and end the thread."""
        with self._changed:
            left, remover = [path for _, path in self._due], self._remover
            self._due.clear()
            self._remover = None
            self._changed.notify_all()
        for path in left:
            remove_file(path)
        if remover is not None:
            remover.join()

    def _remove_in_time(self) -> None:
        while True:
            with self._changed:
                if self._remover is not threading.current_thread():
                    return
                wait_s = None if not self._due else self._due[0][0] - time.monotonic()
                if wait_s is None or wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                _, path = self._due.popleft()
            remove_file(path)
