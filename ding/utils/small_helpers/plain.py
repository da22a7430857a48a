"""Small functions without tensors."""

from __future__ import annotations

import functools
import math
import threading
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ParamSpec, Protocol, TypeVar

import numpy as np

from ding.utils.time_helper import WatchDog

P = ParamSpec("P")
T = TypeVar("T")
_BINS, _MARGIN = 5, 50.0


@dataclass
class ShmObject:
    """Shared memory of an object: ``id_``, which is 0 while taken, and its buffers."""

    id_: object
    buf: object


class FinalMeta(ABCMeta):
    """Metaclass of abstract classes that are also gymnasium envs."""


def timeout_wrapper(func: Callable[P, T], timeout: float | None = None) -> Callable[P, T]:
    """Wrap ``func`` to raise ``TimeoutError`` after ``timeout`` seconds when called in the main thread."""
    if timeout is None:
        return func

    @functools.wraps(func)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        if threading.current_thread() is not threading.main_thread():
            return func(*args, **kwargs)
        with WatchDog(timeout):
            return func(*args, **kwargs)

    return limited


class _Timestep(Protocol):
    info: object


def is_abnormal_timestep(timestep: _Timestep) -> bool:
    """Return whether the info of a timestep, or that of the first or second player, says ``abnormal``.

    Raises:
        TypeError: ``info`` is neither a dict nor a list or tuple of dicts.
    """
    info = timestep.info
    infos = [info] if isinstance(info, Mapping) else list(info[:2]) if isinstance(info, (list, tuple)) else []
    if not infos or not all(isinstance(one, Mapping) for one in infos):
        raise TypeError(f"info must be a dict or a list of dicts, got {type(info).__name__}")
    return any(bool(one.get("abnormal", False)) for one in infos)


def prod(iterable: Iterable[int]) -> int:
    """Return the product."""
    return math.prod(iterable)


def find_char(s: str, flag: str, num: int, reverse: bool = False) -> int:
    """Return the index of the ``num``-th occurrence of ``flag`` in ``s`` (from the end with ``reverse``), else -1.

    Raises:
        AssertionError: ``num`` is not positive.
    """
    if num <= 0:
        raise AssertionError(f"num must be above 0, got {num}")
    places = [place for place in range(len(s)) if s.startswith(flag, place)]
    if num > len(places):
        return -1
    return places[-num] if reverse else places[num - 1]


def to_positive_index(idx: int | None, size: int) -> int | None:
    """Return the index that a negative one means in a sequence of this size; other indices are unchanged."""
    return idx if idx is None or idx >= 0 else size + idx


def dummy_decompressor(data: T) -> T:
    """Return ``data`` unchanged."""
    return data


@functools.cache
def njit() -> Callable[..., object]:
    """Return a decorator without effect: nothing here is compiled by numba."""
    return functools.partial


def softmax(logit: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis of ``[..., N]``."""
    powers = np.exp(logit - np.max(logit, axis=-1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return shares


class _Bar(Protocol):
    def set_height(self, height: float) -> None: ...


def action_prob(num: int, action_prob: Sequence[Sequence[float]], ln: Iterable[_Bar]) -> Iterable[_Bar]:
    """Set the bars of frame ``num`` of an animation to its probabilities and return them."""
    for bar, height in zip(ln, action_prob[num]):
        bar.set_height(height)
    return ln


def return_prob(num: int, return_prob: object, ln: T) -> T:
    """Return the artists of an animation frame unchanged."""
    return ln


def return_distribution(returns: Sequence[float]) -> tuple[np.ndarray, list[str]]:
    """Return the shares of returns in five bins, from 50 below the smallest to 50 above the largest return, and the
    left borders of the bins as strings.
    """
    counts, borders = np.histogram(returns, bins=_BINS, range=(min(returns) - _MARGIN, max(returns) + _MARGIN))
    return counts / len(returns), [f"{border:.1f}" for border in borders[:-1]]
