"""Checks of buffer configs and arguments."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from ding.data.replay.errors import BufferArgumentError, BufferConfigError
from ding.data.storage import StorageOptions
from ding.utils import did_you_mean

STORAGE_CONFIG: dict[str, Any] = {
    # (bool) Handling of rows that do not match earlier ones: True turns the storage into a list, with a warning that
    # names the field; False refuses them.
    "mixed_rows": True,
    # (bool or 'auto') Store a next_obs that equals another row's obs only once. 'auto': for large observations.
    "elide_next_obs": "auto",
    # (int) Number of stacked frames per observation, each of which is stored once. 0: store observations unchanged.
    "frame_stack": 0,
    # (str or None) Folder for memory-mapped files, for buffers larger than memory.
    "path": None,
    # (str or None) Torch device that holds the rows, e.g. 'cuda'.
    "device": None,
}


def storage_options(cfg: Mapping[str, Any]) -> StorageOptions:
    """Return the options of ``cfg.storage``; ``cfg.storage_path`` and ``cfg.frame_stack`` are short for two of them."""
    options = dict(cfg["storage"])
    unknown = [key for key in options if key not in STORAGE_CONFIG]
    if unknown:
        raise BufferConfigError(f"unknown key storage.{unknown[0]}.{did_you_mean(unknown[0], STORAGE_CONFIG)}")
    for short, key in (("storage_path", "path"), ("frame_stack", "frame_stack")):
        if cfg.get(short):
            options[key] = cfg[short]
    try:
        return StorageOptions(**options)
    except ValueError as error:
        raise BufferConfigError(str(error)) from error


def positive_int(value: object, name: str) -> int:
    """Return a config value that must be a positive integer.

    Raises:
        BufferConfigError: The value is not an integer above 0.
    """
    try:
        number: int = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or isinstance(value, bool) or number != value:
        raise BufferConfigError(f"{name} must be a positive int, got {value!r}")
    return number


def number_within(cfg: Mapping[str, Any], key: str, low: float, high: float) -> float:
    """Return a config value that must be a number within inclusive bounds.

    Raises:
        BufferConfigError: The value is out of bounds or not a number.
    """
    value = cfg[key]
    if not isinstance(value, Real) or not low <= float(value) <= high:
        raise BufferConfigError(f"{key} must be a number in [{low:g}, {high:g}], got {value!r}")
    return float(value)


def sample_size(size: object) -> int:
    """Return the number of elements to sample.

    Raises:
        BufferArgumentError: The value is not a non-negative integer.
    """
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
        raise BufferArgumentError(f"the size of a sample must be an int >= 0, got {size!r}")
    return int(size)


def places(sample_range: object, count: int) -> range:
    """Return the places (0 is the oldest element) that a ``sample_range`` selects of ``count`` elements.

    Raises:
        BufferArgumentError: The range is not a slice of ints, or selects nothing.
    """
    try:
        if not isinstance(sample_range, slice):
            raise TypeError("no slice")
        selected = range(count)[sample_range]
    except (TypeError, ValueError) as error:
        raise BufferArgumentError(f"sample_range must be a slice of ints, got {sample_range!r}: {error}") from error
    if not selected:
        raise BufferArgumentError(f"sample_range {sample_range!r} selects nothing of {count} elements")
    return selected
