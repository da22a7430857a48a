"""Stack samples into a batch, and split a batch into samples.

B is the number of samples, T the number of steps of each.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from easydict import EasyDict

from ding.utils.nested import COLLATE_IGNORE, Tree, is_namedtuple, map_nested, plain_tree
from ding.utils.rows import STATE_KEYS

T = TypeVar("T")

_IGNORE_PREFIX = (COLLATE_IGNORE,)


def _stack_leaves(batch: Sequence[Any]) -> torch.Tensor | None:
    """``[B, ...]`` of tensors, arrays or numbers; None for everything else."""
    elem = batch[0]
    if isinstance(elem, torch.Tensor):
        return torch.stack(list(batch))
    if isinstance(elem, np.ndarray):
        if elem.dtype.kind not in "biufc":
            raise TypeError(f"cannot collate arrays of dtype {elem.dtype}; expected numbers")
        return torch.from_numpy(np.stack(batch))
    if isinstance(elem, np.generic):
        return torch.as_tensor(np.asarray(batch))
    if isinstance(elem, bool):
        return torch.tensor(batch, dtype=torch.bool)
    if isinstance(elem, (int, float)):
        is_float = any(isinstance(value, float) for value in batch)
        return torch.tensor(batch, dtype=torch.float32 if is_float else torch.int64)
    return None


def default_collate(batch: Sequence[Any], cat_1dim: bool = True, ignore_prefix: Sequence[str] = _IGNORE_PREFIX) -> Tree:
    """Stack B samples of one structure along a new first axis.

    Tensors and arrays become tensors ``[B, ...]`` of their dtype; Python floats float32 ``[B]``, ints int64 ``[B]``,
    bools bool ``[B]``; texts a list; dicts a dict with the keys of the first; named tuples one of batches; other
    lists and tuples a list of batches.

    Args:
        batch: B samples, at least one.
        cat_1dim: samples of shape ``(1,)`` become ``[B]`` and not ``[B, 1]``.
        ignore_prefix: values of dict keys that begin so are kept as a list.

    Raises:
        TypeError: samples of a type that has no batch, ``None`` included.
        RuntimeError, ValueError: shapes that differ.
    """
    if len(batch) == 0:
        raise ValueError("cannot collate an empty batch")
    elem = batch[0]
    stacked = _stack_leaves(batch)
    if stacked is not None:
        return stacked.squeeze(1) if cat_1dim and stacked.shape[1:] == (1,) else stacked
    if isinstance(elem, (str, bytes)):
        return list(batch)
    if isinstance(elem, Mapping):
        prefixes = tuple(ignore_prefix)
        return {
            key: [sample[key] for sample in batch]
            if isinstance(key, str) and key.startswith(prefixes)
            else _with_key(key, default_collate, [sample[key] for sample in batch], cat_1dim, ignore_prefix)
            for key in elem
        }
    if isinstance(elem, Sequence):
        if any(len(sample) != len(elem) for sample in batch):
            raise ValueError(f"cannot collate sequences of different lengths: {sorted({len(s) for s in batch})}")
        parts = [default_collate(part, cat_1dim, ignore_prefix) for part in zip(*batch)]
        return type(elem)(*parts) if is_namedtuple(elem) else parts
    raise TypeError(
        f"cannot collate samples of type {type(elem).__name__}; "
        "expected tensors, arrays, numbers, texts, and dicts, lists or tuples of them"
    )


def _with_key(key: object, collate: Callable[..., T], *args: Any) -> T:
    """Call ``collate``; errors name the key of the samples."""
    try:
        return collate(*args)
    except (TypeError, ValueError, RuntimeError) as error:
        if type(error) not in (TypeError, ValueError, RuntimeError):
            raise  # a subclass may take other arguments, or have its own handler
        raise type(error)(f"key {key!r}: {error}") from error


def default_decollate(batch: object, ignore: Sequence[str] = STATE_KEYS) -> list[Any]:
    """Split a batch into a list of B samples.

    A tensor ``[B, ...]`` gives B tensors ``[...]`` that share its memory, ``[B]`` gives tensors ``(1,)``; a dict gives
    B dicts, a list or tuple B tuples; a distribution gives B times None.

    Args:
        batch: tensors ``[B, ...]`` or ``[B]`` in dicts, lists and tuples.
        ignore: dict keys whose values are lists of B entries already.

    Raises:
        TypeError: a leaf of another type.
    """
    if isinstance(batch, torch.Tensor):
        return list(batch.split(1)) if batch.dim() == 1 else list(batch.unbind(0))
    if isinstance(batch, Mapping):
        parts = {key: value if key in ignore else default_decollate(value, ignore) for key, value in batch.items()}
        if not parts:
            return []
        return [dict(zip(parts, values)) for values in zip(*parts.values())]
    if isinstance(batch, torch.distributions.Distribution):
        return [None] * batch.batch_shape[0]
    if isinstance(batch, (list, tuple)):
        return list(zip(*(default_decollate(part, ignore) for part in batch)))
    raise TypeError(f"cannot decollate a {type(batch).__name__}; expected tensors in dicts, lists and tuples")


def timestep_collate(batch: Sequence[Any]) -> dict[str, Any]:
    """Stack B trajectory segments to tensors ``[T, B, ...]``.

    Args:
        batch: B dicts whose values are lists of T steps, or B lists of T dicts. Values that are no lists are stacked
            like ``default_collate`` does. The samples are left as they are.

    Returns:
        a dict of ``[T, B, ...]``, nested as the samples are; samples of shape ``(1,)`` become ``[T, B]``. Steps that
        are lists or tuples (several actions) or texts give a list of T collated steps. ``prev_state`` is a list of T
        tuples of the B states, which are not stacked because the first of them are often None.

    Raises:
        ValueError: the segments have different lengths.
        TypeError: neither dicts nor lists were given.
    """
    if len(batch) == 0:
        raise ValueError("cannot collate an empty batch")
    if isinstance(batch[0], Mapping):
        return {key: _time_major(key, [sample[key] for sample in batch]) for key in batch[0]}
    if isinstance(batch[0], (list, tuple)) and batch[0] and isinstance(batch[0][0], Mapping):
        return {key: _time_major(key, [[step[key] for step in segment] for segment in batch]) for key in batch[0][0]}
    raise TypeError(f"timestep_collate takes dicts of lists or lists of dicts, got a {type(batch[0]).__name__}")


def _time_major(key: str, segments: Sequence[Any]) -> object:
    """B segments of T steps -> ``[T, B, ...]``, in one stack."""
    if isinstance(segments[0], Mapping):
        return {name: _time_major(name, [segment[name] for segment in segments]) for name in segments[0]}
    if not isinstance(segments[0], (list, tuple)):
        return _with_key(key, default_collate, segments)
    lengths = {len(segment) for segment in segments}
    if len(lengths) != 1:
        raise ValueError(f"key {key!r}: the segments have different lengths {sorted(lengths)}")
    steps = list(zip(*segments))
    if key == "prev_state" or not steps:
        return steps
    first = steps[0][0]
    if isinstance(first, Mapping):
        return {name: _time_major(name, [[step[name] for step in segment] for segment in segments]) for name in first}
    if isinstance(first, (Sequence, str)):
        return [_with_key(key, default_collate, step) for step in steps]
    rows = _with_key(key, default_collate, [value for step in steps for value in step])
    return rows.reshape(len(steps), len(segments), *rows.shape[1:])


def diff_shape_collate(batch: Sequence[Any]) -> Tree:
    """Like ``default_collate``, but keep a list where stacking is impossible: unequal shapes, or a None.

    Samples of shape ``(1,)`` become ``[B, 1]``.
    """
    if len(batch) == 0:
        raise ValueError("cannot collate an empty batch")
    if any(sample is None for sample in batch):
        return list(batch)
    elem = batch[0]
    if isinstance(elem, (torch.Tensor, np.ndarray)) and any(sample.shape != elem.shape for sample in batch):
        return [torch.as_tensor(sample) for sample in batch]
    stacked = _stack_leaves(batch)
    if stacked is not None:
        return stacked
    if isinstance(elem, Mapping):
        return {key: _with_key(key, diff_shape_collate, [sample[key] for sample in batch]) for key in elem}
    if isinstance(elem, (list, tuple)):
        parts = [diff_shape_collate(part) for part in zip(*batch)]
        return type(elem)(*parts) if is_namedtuple(elem) else parts
    raise TypeError(f"cannot collate samples of type {type(elem).__name__}")


def ttorch_collate(x: Sequence[Any], json: bool = False, cat_1dim: bool = True) -> Tree:
    """Stack B trees (nested dicts of tensors, or objects of ``treetensor``) along a new first axis.

    Args:
        x: the trees.
        json: whether the result is plain dicts; else they have attribute access, too (``batch.obs``).
        cat_1dim: leaves ``[B, 1]`` become ``[B]``.
    """

    def narrow(leaf: torch.Tensor) -> torch.Tensor:
        one_wide = isinstance(leaf, torch.Tensor) and leaf.dim() == 2 and leaf.shape[1] == 1
        return leaf.squeeze(1) if one_wide else leaf

    stacked = default_collate([plain_tree(tree) for tree in x], cat_1dim=False, ignore_prefix=())
    tree = map_nested(narrow, stacked) if cat_1dim else stacked
    return EasyDict(tree) if isinstance(tree, dict) and not json else tree
