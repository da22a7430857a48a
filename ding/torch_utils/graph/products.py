"""Fast products of large matrices in compiled graphs on AMD processors.

The MKL of torch's CPU build takes kernels for AVX2 on AMD processors, where its oneDNN takes those for AVX-512: a
product of 256 x 256 matrices needs half of the time. A call of oneDNN costs 10 us more, and as an operator of our own
in a graph some us on top, so that small products stay with MKL.
"""

import ctypes
import functools
import logging
from pathlib import Path

import torch

log = logging.getLogger(__name__)

# Maximum number of columns that counts as few.
_FEW = 16
# Minimum number of multiplications worth the call.
_LARGE = 2**22
_CPUINFO = Path("/proc/cpuinfo")


def is_better_transposed(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether MKL is faster with ``(right.t() @ left.t()).t()``: where ``right`` has a few columns, and ``left``
    is the transpose of what lies in memory, as in the gradient of a layer with a few inputs (256 x 256 by 256 x 4: 5 in
    place of 12 us); with its kernels for AVX2 also otherwise (12 in place of 52 us; with those for AVX-512 100, not
    12).
    """
    if left.device.type != "cpu" or not right.shape[1] <= _FEW < left.shape[0]:
        return False
    return left.stride(0) == 1 or mkl_is_slow()


def is_better_by_onednn(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether :func:`onednn_product` is faster than MKL for these matrices, ``[M, K]`` and ``[K, N]``."""
    if left.device.type != "cpu" or left.dtype != torch.float32 or right.dtype != torch.float32:
        return False
    return left.shape[0] * left.shape[1] * right.shape[1] >= _LARGE and mkl_is_slow()


@functools.cache
def mkl_is_slow() -> bool:
    """Return whether MKL leaves AVX-512 unused on this processor, and oneDNN is there to use it."""
    try:
        cpuinfo = _CPUINFO.read_text()
    except OSError:
        return False
    if "AuthenticAMD" not in cpuinfo or "avx512f" not in cpuinfo or _mkl_takes_it_for_intel():
        return False
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    try:
        _library()
    except AttributeError as error:  # torch may take away what it does not document.
        log.info("large products of compiled graphs stay with MKL: %s", error)
        return False
    return True


def _mkl_takes_it_for_intel() -> bool:
    """Return whether the library of ``docs/compile.md`` is preloaded."""
    question = getattr(ctypes.CDLL(None), "mkl_serv_intel_cpu_true", None)
    return question is not None and bool(question())


def onednn_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return ``left @ right`` by oneDNN, as one opaque operation for the compiler: float32 ``[M, N]``."""
    _library()
    result: torch.Tensor = torch.ops.ding.product(left, right)
    return result


@functools.cache
def _library() -> torch.library.Library:
    """Return the library with the operator, which lasts as long as it."""
    library = torch.library.Library("ding", "DEF")
    library.define("product(Tensor left, Tensor right) -> Tensor")
    linear = torch.ops.mkldnn._linear_pointwise.default
    library.impl("product", lambda left, right: linear(left, right.t(), None, "none", [], ""), "CPU")
    torch.library.register_fake(
        "ding::product", lambda left, right: left.new_empty(left.shape[0], right.shape[1]), lib=library
    )
    return library
