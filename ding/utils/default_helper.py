"""Small helpers that everything leans on: merges, seeds, running statistics, messages."""

from __future__ import annotations

import difflib
import functools
import logging
import random
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch

from ding.utils._structure_helper import (
    deep_merge_dicts,
    deep_update,
    default_get,
    dicts_to_lists,
    flatten_dict,
    get_shape0,
    list_split,
    lists_to_dicts,
    split_data_generator,
    squeeze,
)

__all__ = [
    "LimitedSpaceContainer",
    "RunningMeanStd",
    "deep_merge_dicts",
    "deep_update",
    "default_get",
    "dicts_to_lists",
    "did_you_mean",
    "error_wrapper",
    "flatten_dict",
    "get_shape0",
    "list_split",
    "lists_to_dicts",
    "make_key_as_identifier",
    "nearest",
    "one_time_warning",
    "override",
    "remove_illegal_item",
    "set_pkg_seed",
    "split_data_generator",
    "squeeze",
]

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
_MAX_LISTED = 30


def nearest(name: Any, candidates: Iterable[Any]) -> str | None:
    """The candidate that reads most like ``name``, or None when none comes close."""
    found = difflib.get_close_matches(str(name), [str(candidate) for candidate in candidates], n=1)
    return found[0] if found else None


def did_you_mean(name: Any, candidates: Iterable[Any]) -> str:
    """The end of an error message about an unknown name, with a leading blank: the nearest name and the known ones."""
    known = sorted(str(candidate) for candidate in candidates)
    if not known:
        return " No names are known."
    close = nearest(name, known)
    hint = f" Did you mean {close!r}?" if close is not None else ""
    more = f", ... ({len(known)} in all)" if len(known) > _MAX_LISTED else ""
    return f"{hint} Known names: {', '.join(known[:_MAX_LISTED])}{more}."


def override(cls: type) -> Callable[[F], F]:
    """Mark a method as overriding one of ``cls``.

    Raises:
        NameError: ``cls`` has no such method.
    """

    def check(method: F) -> F:
        if method.__name__ not in dir(cls):
            raise NameError(f"{method.__name__} does not override a method of {cls.__name__}")
        return method

    return check


def error_wrapper(fn: Callable[..., Any], default_ret: Any, warning_msg: str = "") -> Callable[..., Any]:
    """Wrap ``fn`` so that a failure is logged once per message and gives ``default_ret``."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - that is what callers ask of this wrapper
            one_time_warning(f"{warning_msg or getattr(fn, '__name__', fn)}: {error!r}; going on with {default_ret!r}")
            return default_ret

    return wrapped


@functools.lru_cache(maxsize=4096)
def one_time_warning(warning_msg: str) -> None:
    """Log a warning once per process and text."""
    log.warning(warning_msg)


def set_pkg_seed(seed: int, use_cuda: bool = True) -> None:
    """Seed ``random``, ``numpy.random`` and torch (and its CUDA devices when ``use_cuda`` and there are any).

    Args:
        seed: 0 <= seed < 2**32.
    """
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in [0, 2**32), got {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    if use_cuda and torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


def make_key_as_identifier(data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy whose keys are Python identifiers: other characters become ``_``, a leading digit gets one in front."""

    def clean(key: str) -> str:
        key = re.sub(r"\W", "_", key)
        return f"_{key}" if not key or key[0].isdigit() else key

    return {clean(key): value for key, value in data.items()}


def remove_illegal_item(data: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without the entries whose value is a text (they have no array form)."""
    return {key: value for key, value in data.items() if not isinstance(value, str)}


class LimitedSpaceContainer:
    """A counter of taken places between ``min_val`` and ``max_val``. Every method is atomic; none blocks."""

    def __init__(self, min_val: int, max_val: int) -> None:
        if min_val > max_val:
            raise ValueError(f"min_val must not be above max_val, got {min_val} and {max_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.cur = min_val
        self._lock = threading.Lock()

    def get_residual_space(self) -> int:
        """Take all free places at once and return how many they were."""
        with self._lock:
            free = self.max_val - self.cur
            self.cur = self.max_val
            return free

    def acquire_space(self) -> bool:
        """Take one place if one is free; tells whether it did."""
        with self._lock:
            if self.cur >= self.max_val:
                return False
            self.cur += 1
            return True

    def release_space(self) -> None:
        """Give one place back; the count never falls below ``min_val``."""
        with self._lock:
            self.cur = max(self.min_val, self.cur - 1)

    def increase_space(self) -> None:
        """One more place; ``cur`` stays."""
        with self._lock:
            self.max_val += 1

    def decrease_space(self) -> None:
        """One place fewer; ``cur`` stays."""
        with self._lock:
            self.max_val -= 1


class RunningMeanStd:
    """Mean and variance of a stream of batches (Chan et al. 1979, "Updating Formulae and a Pairwise Algorithm").

    Args:
        epsilon: the initial weight; the statistics start as mean 0 and variance 1 with this count.
        shape: shape of one element. With ``()`` the properties are floats, else float32 tensors on ``device``.
        device: where the tensors are returned.
    """

    def __init__(
        self,
        epsilon: float = 1e-4,
        shape: tuple[int, ...] = (),
        device: torch.device | str = torch.device("cpu"),  # noqa: B008 - a constant
    ) -> None:
        self._epsilon = epsilon
        self._shape = tuple(shape)
        self._device = torch.device(device)
        self.reset()

    def reset(self) -> None:
        """Back to mean 0, variance 1 and the initial weight."""
        self._mean = np.zeros(self._shape, dtype=np.float64)
        self._var = np.ones(self._shape, dtype=np.float64)
        self._count = float(self._epsilon)

    def update(self, x: Any) -> None:
        """Take in a batch ``[B, *shape]`` (array or tensor); an empty one changes nothing."""
        batch = np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x, dtype=np.float64)
        if batch.shape[0] == 0:
            return
        batch_count = batch.shape[0]
        total = self._count + batch_count
        delta = batch.mean(axis=0) - self._mean
        m2 = (
            self._var * self._count
            + batch.var(axis=0) * batch_count
            + np.square(delta) * self._count * batch_count / total
        )
        self._mean = self._mean + delta * (batch_count / total)
        self._var = m2 / total
        self._count = total

    def _out(self, value: np.ndarray) -> Any:
        if np.ndim(value) == 0:
            return float(value)
        return torch.as_tensor(value, dtype=torch.float32, device=self._device)

    @property
    def mean(self) -> Any:
        """Float, or float32 tensor ``shape``."""
        return self._out(self._mean)

    @property
    def var(self) -> Any:
        """Float, or float32 tensor ``shape``."""
        return self._out(self._var)

    @property
    def std(self) -> Any:
        """``sqrt(var + 1e-8)``: float, or float32 tensor ``shape``."""
        return self._out(np.sqrt(self._var + 1e-8))

    def state_dict(self) -> dict[str, Any]:
        """Count, mean and variance as tensors and floats, fit for a checkpoint."""
        return {
            "count": self._count,
            "mean": torch.as_tensor(self._mean, dtype=torch.float64),
            "var": torch.as_tensor(self._var, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._count = float(state["count"])
        self._mean = torch.as_tensor(state["mean"], dtype=torch.float64).cpu().numpy().copy()
        self._var = torch.as_tensor(state["var"], dtype=torch.float64).cpu().numpy().copy()
