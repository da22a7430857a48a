"""Log warnings once, turn failures into warnings, and add notes to errors."""

import functools
import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)


@functools.lru_cache(maxsize=4096)
def one_time_warning(warning_msg: str) -> None:
    """Log a warning once per process and text."""
    log.warning(warning_msg)


def error_wrapper(fn: Callable[..., Any], default_ret: object, warning_msg: str = "") -> Callable[..., Any]:
    """Wrap ``fn`` so that a failure is logged once per message and returns ``default_ret``."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> object:
        try:
            return fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - that is what callers ask of this wrapper
            one_time_warning(f"{warning_msg or getattr(fn, '__name__', fn)}: {error!r}; going on with {default_ret!r}")
            return default_ret

    return wrapped


def add_note(error: BaseException, note: str) -> None:
    """Call ``error.add_note(note)``, or emulate it in Python 3.10."""
    vars(error).setdefault("__notes__", []).append(note)
