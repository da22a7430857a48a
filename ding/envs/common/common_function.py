"""Helper functions of envs: scaling of actions, encodings of numbers, GIF files."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from ding.torch_utils import one_hot
from ding.utils import require_extra

Table: TypeAlias = Sequence[int] | np.ndarray


def num_first_one_hot(val: torch.Tensor, num: int, *, num_first: bool = True) -> torch.Tensor:
    """Encode int64 ``[B]`` one-hot with the classes on the first axis, ``[num, B]``."""
    return one_hot(val, num, num_first=num_first)


def sqrt_one_hot(v: torch.Tensor, max_val: int) -> torch.Tensor:
    """Encode the floor of the square root one-hot.

    Returns float32 ``[B, int(sqrt(max_val)) + 1]`` for ``v`` ``[B]`` in [0, max_val].
    """
    num = int(math.sqrt(max_val)) + 1
    return one_hot(torch.floor(torch.sqrt(v.float())).long(), num)


def div_one_hot(v: torch.Tensor, max_val: int, ratio: int) -> torch.Tensor:
    """Encode ``floor(v / ratio)`` one-hot.

    Returns float32 ``[B, int(max_val / ratio) + 1]`` for ``v`` ``[B]`` in [0, max_val].
    """
    num = int(max_val / ratio) + 1
    return one_hot(torch.floor(v.float() / ratio).long(), num)


def div_func(inputs: torch.Tensor, other: float, unsqueeze_dim: int = 1) -> torch.Tensor:
    """Return ``inputs / other`` as float32, with a new axis at ``unsqueeze_dim``."""
    return (inputs.float() / other).unsqueeze(unsqueeze_dim)


def clip_one_hot(v: torch.Tensor, num: int) -> torch.Tensor:
    """Encode ``v`` ``[B]``, clipped to [0, num - 1], one-hot as ``[B, num]``."""
    return one_hot(v.clamp(0, num - 1), num)


def reorder_one_hot(
    v: torch.Tensor, dictionary: dict[int, int], num: int, transform: Table | None = None
) -> torch.Tensor:
    """Map ``v`` ``[B]`` through ``dictionary`` and encode the result one-hot as ``[B, num]``.

    Args:
        v: int64 ``[B]``.
        dictionary: Maps values to classes.
        num: Number of classes.
        transform: Table that is applied first: an array or list with ``transform[value]``.

    Raises:
        KeyError: ``dictionary`` lacks a value.
    """
    values = [int(transform[int(value)]) if transform is not None else int(value) for value in v]
    return one_hot(torch.tensor([dictionary[value] for value in values], dtype=torch.long), num)


def reorder_one_hot_array(v: torch.Tensor, array: np.ndarray, num: int, transform: Table | None = None) -> torch.Tensor:
    """Encode ``array[v]`` for int64 ``v`` ``[B]`` one-hot as ``[B, num]``; see :func:`reorder_one_hot`."""
    values = v.numpy() if transform is None else np.asarray(transform)[v.numpy()]
    return one_hot(torch.as_tensor(np.asarray(array)[values], dtype=torch.long), num)


def reorder_boolean_vector(
    v: Sequence[int], dictionary: dict[int, int], num: int, transform: Table | None = None
) -> torch.Tensor:
    """Return float32 ``[num]`` with ones at the classes of the values in ``v``; see :func:`reorder_one_hot`."""
    result = torch.zeros(num)
    for value in v:
        result[dictionary[int(transform[int(value)]) if transform is not None else int(value)]] = 1.0
    return result


def affine_transform(
    data: float | np.ndarray | torch.Tensor,
    action_clip: bool = True,
    alpha: float | None = None,
    beta: float | None = None,
    min_val: float | None = None,
    max_val: float | None = None,
) -> float | np.ndarray | torch.Tensor:
    """Map values in [-1, 1] affinely: to [min_val, max_val], or to ``data * alpha + beta``.

    Args:
        data: Number, array or tensor.
        action_clip: Clip to [-1, 1] first.
        alpha: Factor.
        beta: Offset; 0 if missing.
        min_val: Lower bound of the result.
        max_val: Upper bound of the result.

    Raises:
        ValueError: Neither ``alpha`` nor both bounds are given.
    """
    if action_clip:
        data = data.clamp(-1, 1) if isinstance(data, torch.Tensor) else np.clip(data, -1, 1)
    if min_val is not None and max_val is not None:
        alpha = (max_val - min_val) / 2
        beta = (max_val + min_val) / 2
    if alpha is None:
        raise ValueError("affine_transform needs alpha, or both min_val and max_val")
    return data * alpha + (0.0 if beta is None else beta)


def batch_binary_encode(x: torch.Tensor, bit_num: int) -> torch.Tensor:
    """Return the ``bit_num`` low bits of non-negative ints ``[B]``, highest first, float32 ``[B, bit_num]``."""
    shifts = torch.arange(bit_num - 1, -1, -1, device=x.device)
    return ((x.long().unsqueeze(-1) >> shifts) & 1).float()


def get_to_and(num_bits: int) -> np.ndarray:
    """Return the value of each of ``num_bits`` bits, highest first, int64 ``[1, num_bits]``."""
    return 2 ** np.arange(num_bits - 1, -1, -1).reshape(1, num_bits)


def compute_denominator(x: torch.Tensor) -> torch.Tensor:
    """Return the frequencies ``10000 ** -(x // 2 * 2 / 64)`` of a 64-dimensional position encoding."""
    return 1.0 / torch.pow(torch.tensor(10000.0), torch.div(x, 2, rounding_mode="floor") * 2 / 64)


def get_postion_vector(x: float | Sequence[float] | torch.Tensor) -> torch.Tensor:
    """Return a sine and cosine position encoding, float32 ``[64]`` (Vaswani et al. 2017).

    Args:
        x: A position, or 32 positions, one per pair of sine and cosine.
    """
    angles = torch.as_tensor(x, dtype=torch.float32) * compute_denominator(torch.arange(0, 64, 2).float())
    return torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1).flatten()


def save_frames_as_gif(frames: Sequence[np.ndarray], path: str, fps: float = 30.0) -> None:
    """Write RGB frames, uint8 ``[H, W, 3]`` each, to a GIF file; its folder is created.

    Raises:
        ValueError: There are no frames.
        ImportError: imageio is missing.
    """
    if not len(frames):
        raise ValueError("a GIF needs at least one frame")
    imageio = require_extra("imageio", "video")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}.partial.gif")
    imageio.mimsave(str(partial), [np.asarray(frame, dtype=np.uint8) for frame in frames], duration=1000.0 / fps)
    partial.replace(target)
