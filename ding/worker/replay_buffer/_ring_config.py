"""Config sections that all ring buffers have, and the checks of config values."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from ding.data.storage import StorageOptions
from ding.utils import did_you_mean
from ding.worker.replay_buffer.errors import BufferConfigError
from ding.worker.replay_buffer.rate_limiter import SampleRatioLimiter, check_timeout

STORAGE_CONFIG: dict[str, Any] = {
    # (bool) Accept rows of any form, also after the first push: rows that do not fit turn the storage into a list.
    "mixed_rows": False,
    # (bool or 'auto') Store a next_obs that another row has as its obs once. 'auto': for large observations.
    "elide_next_obs": "auto",
    # (int) Store each frame of observations that are stacks of so many frames once. 0: observations as they are.
    "frame_stack": 0,
    # (str or None) Folder for memory-mapped files, for buffers larger than memory.
    "path": None,
    # (str or None) Torch device that holds the rows, e.g. 'cuda'.
    "device": None,
}

LIMIT_CONFIG: dict[str, Any] = {
    # (float or None) Times that each element is sampled on average. None: no limit.
    "samples_per_insert": None,
    # (int) Elements to insert before the first sample.
    "min_size_to_sample": 1,
    # (float) Samples by which the two sides may drift apart.
    "error_buffer": 1.0,
    # (int) Largest number of elements of a push.
    "push_size": 1,
    # (int) Largest number of elements of a sample.
    "sample_size": 1,
    # (float) Seconds to wait until a push or sample is allowed; then it is refused.
    "timeout_s": 0.0,
}


def storage_options(cfg: Mapping[str, Any]) -> StorageOptions:
    """The options of ``cfg.storage``; ``cfg.storage_path`` and ``cfg.frame_stack`` are short for two of them."""
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


def positive_int(value: Any, name: str) -> int:
    """A config value that counts something.

    Raises:
        BufferConfigError: it is no whole number above 0.
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1 or isinstance(value, bool) or number != value:
        raise BufferConfigError(f"{name} must be a positive int, got {value!r}")
    return number


def number_within(cfg: Mapping[str, Any], key: str, low: float, high: float) -> float:
    """A config value that is a number between bounds, which are allowed, too.

    Raises:
        BufferConfigError: it is none.
    """
    value = cfg[key]
    if not isinstance(value, Real) or not low <= float(value) <= high:
        raise BufferConfigError(f"{key} must be a number in [{low:g}, {high:g}], got {value!r}")
    return float(value)


def limiter_of(cfg: Mapping[str, Any], size: int) -> "tuple[SampleRatioLimiter | None, float]":
    """The limiter of ``cfg.rate_limit``, if there is one, and how many seconds to wait for it."""
    options = {**LIMIT_CONFIG, **(cfg.get("rate_limit") or {})}
    unknown = [key for key in options if key not in LIMIT_CONFIG]
    if unknown:
        raise BufferConfigError(f"unknown key rate_limit.{unknown[0]}.{did_you_mean(unknown[0], LIMIT_CONFIG)}")
    timeout_s = float(options.pop("timeout_s"))
    if options["samples_per_insert"] is None:
        return None, timeout_s
    if options["min_size_to_sample"] > size:
        raise BufferConfigError(
            f"rate_limit.min_size_to_sample={options['min_size_to_sample']} is more than replay_buffer_size={size}"
        )
    check_timeout(timeout_s)
    return SampleRatioLimiter(**options), timeout_s
