"""Text loggers with one file per component, tensorboard writers, and tables for both.

Loggers are keyed by the path of their file, so components of the same name in two experiments of one process keep
separate files. Records propagate to the logger ``ding``, so the console is set up in one place (``init_console``, or
the application's own configuration of the root logger).
"""

import json
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, SupportsFloat, TypeVar

from ding.utils._patient_file import LogFileHandler
from ding.utils._tb_writer import LazyWriter

T = TypeVar("T")
_FORMAT = "[%(asctime)s][%(filename)15s][line:%(lineno)4d][%(levelname)8s] %(message)s"
_COLUMNS_PER_BLOCK = 4

_loggers: "weakref.WeakValueDictionary[str, TextLogger]" = weakref.WeakValueDictionary()
_writers: weakref.WeakValueDictionary[str, LazyWriter] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _grid(rows: Sequence[Sequence[str]], header: bool) -> str:
    """Return a table with a frame, columns padded to the same width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    line = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    parts = [line]
    for number, row in enumerate(rows):
        parts.append("|" + "|".join(f" {cell:<{width}} " for cell, width in zip(row, widths)) + "|")
        parts.append(line.replace("-", "=") if header and number == 0 else line)
    return "\n" + "\n".join(parts)


def _cell(value: object) -> str:
    return f"{float(value):.6f}" if isinstance(value, SupportsFloat) else str(value)


class TextLogger(logging.Logger):
    """A ``logging.Logger`` with its own file, and tables of variables."""

    def __init__(self, name: str, level: int, path: str) -> None:
        super().__init__(name, level)
        self.path = path
        self.parent = logging.getLogger("ding")
        handler = LogFileHandler(path)
        handler.setFormatter(logging.Formatter(_FORMAT))
        self.addHandler(handler)
        self._close_file = weakref.finalize(self, handler.close)

    def __reduce__(self) -> str | tuple[Any, ...]:
        # A copy logs to the same file: the same object in this process, a new one in a child process.
        folder, file = os.path.split(self.path)
        return LoggerFactory.create_logger, (folder, file.removesuffix("_logger.txt"), self.level)

    @staticmethod
    def get_tabulate_vars(variables: Mapping[str, Any]) -> str:
        """Return a table with columns for name and value, with 6 decimals."""
        return _grid([("Name", "Value"), *((name, _cell(value)) for name, value in variables.items())], header=True)

    @staticmethod
    def get_tabulate_vars_hor(variables: Mapping[str, Any]) -> str:
        """Return a horizontal table: a row of names above a row of values, 4 variables per block.

        Values that are not numbers are shown as ``str`` prints them.
        """
        items = list(variables.items())
        rows: list[list[str]] = []
        for start in range(0, len(items), _COLUMNS_PER_BLOCK):
            block = items[start : start + _COLUMNS_PER_BLOCK]
            padding = [""] * (_COLUMNS_PER_BLOCK - len(block)) if start > 0 else []
            rows.append(["Name", *(name for name, _ in block), *padding])
            rows.append(["Value", *(_cell(value) for _, value in block), *padding])
        return _grid(rows, header=False) if rows else "\n"


class LoggerFactory:
    """Factory of text loggers."""

    @classmethod
    def create_logger(cls, path: str, name: str | None = None, level: int = logging.INFO) -> TextLogger:
        """Return the logger that writes to ``<path>/<name>_logger.txt``; the folder is created.

        Calls with the same file return the same logger while it is referenced.
        """
        full_name = f"{name or 'default'}_logger"
        file = os.path.abspath(os.path.join(path, f"{full_name}.txt"))
        os.makedirs(path, exist_ok=True)
        return _shared(_loggers, file, lambda: TextLogger(full_name, level, file))

    get_tabulate_vars = staticmethod(TextLogger.get_tabulate_vars)
    get_tabulate_vars_hor = staticmethod(TextLogger.get_tabulate_vars_hor)


def build_logger(
    path: str,
    name: str | None = None,
    need_tb: bool = True,
    need_text: bool = True,
    text_level: int | str = logging.INFO,
) -> tuple[TextLogger | None, LazyWriter | None]:
    """Return the text logger and the tensorboard writer of one component.

    Args:
        path: Folder of both.
        name: Name of the component; text goes to ``<path>/<name>_logger.txt``, events to ``<path>/<name>_tb_logger/``.
        need_tb: Whether to return a writer. It creates its file at the first ``add_*``; one writer per folder.
        need_text: Whether to return a logger.
        text_level: Level of the text logger.

    Returns:
        ``(logger or None, writer or None)``
    """
    name = name or "default"
    level = logging.getLevelName(text_level) if isinstance(text_level, str) else text_level
    if not isinstance(level, int):
        raise ValueError(f"text_level must be a level of logging, got {text_level!r}")
    logger = LoggerFactory.create_logger(path, name, level) if need_text else None
    folder = os.path.join(path, f"{name}_tb_logger")
    return logger, _shared(_writers, os.path.abspath(folder), lambda: LazyWriter(folder)) if need_tb else None


def _shared(cache: MutableMapping[str, T], path: str, make: Callable[[], T]) -> T:
    """Return the object of a file or folder: the existing one while it is referenced, else a new one."""
    with _lock:
        found = cache.get(path)
        if found is None:
            cache[path] = found = make()
        return found


def init_console(level: int = logging.INFO) -> None:
    """Show the library's records on standard error, unless the application configured logging itself."""
    logger = logging.getLogger("ding")
    if logger.level == logging.NOTSET:
        logger.setLevel(level)
    if logging.getLogger().handlers or logger.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("[%(asctime)s][%(levelname)s] %(message)s", "%m-%d %H:%M:%S"))
    logger.addHandler(handler)


def pretty_print(result: Mapping[str, Any], direct_print: bool = True) -> str:
    """Return a nested dict as indented ``key: value`` lines, without entries that are None.

    Args:
        result: JSON-serialisable dict (otherwise ``TypeError``).
        direct_print: Also write the text to standard output.
    """
    plain = json.loads(json.dumps({key: value for key, value in result.items() if value is not None}))
    text = "\n".join(_yaml_lines(plain, "")) + "\n"
    if direct_print:
        sys.stdout.write(text + "\n")
    return text


def _yaml_lines(value: dict[str, Any] | list[Any], pad: str) -> Iterator[str]:
    is_dict = isinstance(value, dict)
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        head = f"{pad}{key}:" if is_dict else f"{pad}-"
        if not (isinstance(item, (dict, list)) and item):
            yield f"{head} {item if isinstance(item, str) else json.dumps(item)}"
            continue
        inner = list(_yaml_lines(item, pad + "  "))
        yield from [head, *inner] if is_dict else [f"{head} {inner[0].lstrip()}", *inner[1:]]
