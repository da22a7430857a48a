"""Whether the installed torch is as new as an old version, for scripts of DI-engine that ask."""

import torch


def torch_ge_131() -> bool:
    """Whether torch is 1.3.1 or newer."""
    return _version() >= (1, 3, 1)


def torch_ge_180() -> bool:
    """Whether torch is 1.8.0 or newer."""
    return _version() >= (1, 8, 0)


def _version() -> tuple[int, ...]:
    return tuple(int(number) for number in torch.__version__.partition("+")[0].split(".")[:3] if number.isdigit())
