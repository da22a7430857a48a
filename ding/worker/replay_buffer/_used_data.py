"""Removal of files whose meta data left a buffer."""

import logging
import os
import queue
import threading
from collections.abc import Iterable
from typing import Any

from ding.utils import remove_file

log = logging.getLogger(__name__)
_END = None


class UsedDataRemover:
    """Removes the files of used data in a thread of its own.

    Elements are dicts; ``data_id`` is the path of a file.

    Args:
        path_data: folder of the files: ids are relative to it, and one that leads out of it is refused. ``None``: ids
            are paths as they are. Give a folder when the ids come from other processes.
    """

    def __init__(self, path_data: "str | None" = None) -> None:
        self._path_data = path_data
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
        self._queue.put(_END)
        self._thread.join()
        self._thread = None

    def add_used_data(self, data: Any) -> None:
        """Queue the file of one element.

        Raises:
            AssertionError: ``data`` is no dict with the key ``data_id``.
        """
        self._queue.put(self._path_of(data))

    def add_all(self, elements: Iterable[Any]) -> None:
        """Queue the files of several elements that :meth:`check` let pass."""
        for data in elements:
            self._queue.put(self._path_of(data))

    def check(self, elements: Iterable[Any]) -> None:
        """Raise what :meth:`add_used_data` would raise, without queueing anything."""
        for data in elements:
            self._path_of(data)

    def _path_of(self, data: Any) -> str:
        if not isinstance(data, dict) or not isinstance(data.get("data_id"), str):
            raise AssertionError(f"used data must be a dict with the path of a file as 'data_id', got {data!r:.200}")
        if self._path_data is None:
            return data["data_id"]
        folder = os.path.realpath(self._path_data)
        path = os.path.realpath(os.path.join(folder, data["data_id"]))
        if os.path.commonpath([folder, path]) != folder or path == folder:
            raise AssertionError(f"data_id {data['data_id']!r} leads out of the folder {self._path_data!r}")
        return path

    def _run(self) -> None:
        while True:
            path = self._queue.get()
            if path is _END:
                return
            try:
                remove_file(path)
            except OSError as error:
                log.warning("cannot remove the used data %s: %s", path, error)
