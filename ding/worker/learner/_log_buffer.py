"""What one train iteration has to say, until a hook shows it."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ding.torch_utils.data_helper import LogDict


class LazyLogDict(LogDict):
    """A ``LogDict`` that turns tensors into numbers or lists when they are read, not when they are put in.

    Most iterations are not shown, and reading a tensor from a device waits for it.
    """

    def __setitem__(self, key: Any, value: Any) -> None:
        dict.__setitem__(self, key, value)

    def __getitem__(self, key: Any) -> Any:
        return self._plain(dict.__getitem__(self, key))

    def get(self, key: Any, default: Any = None) -> Any:
        """As ``dict.get``, converted."""
        return self._plain(dict.get(self, key, default))

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """As ``dict.setdefault``, converted."""
        return self._plain(dict.setdefault(self, key, default))

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As ``dict.update``."""
        dict.update(self, *args, **kwargs)

    def pop(self, key: Any, *default: Any) -> Any:
        """As ``dict.pop``, converted."""
        return self._plain(dict.pop(self, key, *default))

    # With an __iter__ of its own, dict(log_dict) goes through __getitem__ instead of copying the raw values.
    def __iter__(self) -> Iterator[Any]:
        return dict.__iter__(self)

    def items(self) -> Any:
        """Converted items, as a list."""
        return [(key, self._plain(value)) for key, value in dict.items(self)]

    def values(self) -> Any:
        """Converted values, as a list."""
        return [self._plain(value) for value in dict.values(self)]

    def raw_items(self) -> Iterable[tuple[Any, Any]]:
        """The items as they were put in."""
        return dict.items(self)


def new_log_buffer() -> dict[str, LazyLogDict]:
    """Empty buffers for ``scalar``, ``scalars`` and ``histogram`` values."""
    return {"scalar": LazyLogDict(), "scalars": LazyLogDict(), "histogram": LazyLogDict()}


def as_float(name: str, value: Any) -> float:
    """A Python float out of a number, a 0-d or one-element array or tensor.

    Raises:
        TypeError: ``value`` has more than one element or is no number; the message tells ``name``.
    """
    try:
        return float(value.item() if isinstance(value, torch.Tensor) else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"the log variable {name!r} must be one number, found {type(value).__name__}: {value!r:.80}"
        ) from error
