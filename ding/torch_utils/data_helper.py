"""Conversions of tensors, arrays and containers.

Containers are mappings, which become dicts, and lists and tuples, which keep their type; named tuples stay such. What a
function does not take raises a ``TypeError`` that names the type.
"""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ding.utils.autolog import LogDict as LogDict
from ding.utils.autolog import build_log_buffer as build_log_buffer
from ding.utils.data.dataloader import LoaderError, Prefetcher
from ding.utils.errors import MismatchError
from ding.utils.nested import Tree, is_ignored_key, is_namedtuple, map_leaves, map_nested, rebuilt
from ding.utils.rows import get_shape0 as get_shape0

TreeT = TypeVar("TreeT")
"""A leaf, or nested containers of leaves; functions return the same form."""

_NUMBERS = (bool, int, float, np.number, np.bool_)
_ARRAYS = (torch.Tensor, np.ndarray, np.generic)

FIELD_DTYPES = {torch.float64: torch.float32}
"""Conversions of dtypes that networks do not accept: in a sample, and in its observations, whose bytes are pixels."""
OBSERVATION_DTYPES = {**FIELD_DTYPES, torch.uint8: torch.float32}


def _map(
    name: str,
    expected: str,
    leaf: Callable[[object], Any],
    item: object,
    keep: Callable[[Any], bool] = ().__contains__,
) -> Tree:
    """Apply ``leaf`` to every leaf of nested containers, except dict entries whose keys ``keep`` accepts.

    ``leaf`` returns ``NotImplemented`` for unsupported values. It is also called for containers.
    """
    result = leaf(item)
    if result is not NotImplemented:
        return result
    if isinstance(item, Mapping):
        return {k: v if keep(k) else _map(name, expected, leaf, v, keep) for k, v in item.items()}
    if isinstance(item, (list, tuple)):
        return rebuilt(item, [_map(name, expected, leaf, value, keep) for value in item])
    raise _unsupported(name, item, f"{expected} or a container of these")


def _unsupported(name: str, item: object, expected: str) -> TypeError:
    return TypeError(f"{name} cannot handle {type(item).__module__}.{type(item).__qualname__}: expected {expected}")


def _is_vector(item: object) -> bool:
    """Return whether ``item`` is a list or tuple of numbers, by the first one."""
    return isinstance(item, (list, tuple)) and bool(item) and isinstance(item[0], _NUMBERS) and not is_namedtuple(item)


def _of_tensors(name: str, fn: Callable[[torch.Tensor], torch.Tensor], item: TreeT) -> TreeT:
    tree: TreeT = _map(
        name, "a tensor", lambda leaf: fn(leaf) if isinstance(leaf, torch.Tensor) else NotImplemented, item
    )
    return tree


def to_device(item: TreeT, device: str | torch.device, ignore_keys: Sequence[str] = ()) -> TreeT:
    """Move every tensor inside ``item`` to ``device``.

    Modules are moved in place, distributions are rebuilt on the device; arrays, numbers, strings and ``None`` pass
    through. Dict entries named in ``ignore_keys`` are unchanged.
    """

    def move(leaf: object) -> object:
        if isinstance(leaf, (torch.Tensor, nn.Module)):
            return leaf.to(device)
        if leaf is None or isinstance(leaf, (*_NUMBERS, np.ndarray, str)):
            return leaf
        return _distribution_to(leaf, device) if isinstance(leaf, torch.distributions.Distribution) else NotImplemented

    moved: TreeT = _map(
        "to_device", "a module, tensor, array, number, string, distribution", move, item, ignore_keys.__contains__
    )
    return moved


def _distribution_to(
    distribution: torch.distributions.Distribution, device: str | torch.device
) -> torch.distributions.Distribution:
    moved = copy.copy(distribution)
    for name, value in vars(distribution).items():
        if isinstance(value, torch.Tensor):
            setattr(moved, name, value.to(device))
        elif isinstance(value, torch.distributions.Distribution):
            setattr(moved, name, _distribution_to(value, device))
    return moved


def to_dtype(item: TreeT, dtype: torch.dtype) -> TreeT:
    """Cast every tensor inside nested dicts and sequences. Raises ``TypeError`` for other leaves."""
    return _of_tensors("to_dtype", lambda tensor: tensor.to(dtype), item)


def to_tensor(
    item: object,
    dtype: torch.dtype | None = None,
    ignore_keys: Sequence[str] = (),
    transform_scalar: bool = True,
) -> Tree:
    """Convert arrays, numbers and lists of numbers to tensors, recursively.

    A float64 array becomes float32 unless ``dtype`` says otherwise; any other array shares its memory with the tensor.
    ``bool``, ``str`` and ``None`` are left alone; a scalar becomes a 0-d tensor unless ``transform_scalar=False``; a
    list or tuple that starts with a number becomes one tensor; an empty list stays empty. Dict entries named in
    ``ignore_keys`` are left out of the conversion and kept. Raises ``TypeError`` for other types.
    """

    def convert(leaf: object) -> object:
        if isinstance(leaf, torch.Tensor):
            return leaf if dtype is None else leaf.to(dtype)
        if isinstance(leaf, np.ndarray):
            return _array_to_tensor(leaf, dtype)
        if leaf is None or isinstance(leaf, (bool, str)):
            return leaf
        if isinstance(leaf, _NUMBERS):
            return torch.as_tensor(leaf, dtype=dtype) if transform_scalar else leaf
        return torch.as_tensor(leaf, dtype=dtype) if _is_vector(leaf) else NotImplemented

    return _map("to_tensor", "an array, tensor, number, string", convert, item, ignore_keys.__contains__)


def _array_to_tensor(array: np.ndarray, dtype: torch.dtype | None) -> torch.Tensor:
    if array.dtype == np.float64 and dtype is None:
        dtype = torch.float32
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        # torch has no read-only tensors and no negative strides.
        array = array.copy()
    tensor = torch.from_numpy(array)
    return tensor if dtype is None else tensor.to(dtype)


def network_tensor(
    value: torch.Tensor | np.ndarray, device: str | torch.device = "cpu", bytes_as_floats: bool = True
) -> torch.Tensor:
    """Return part of an observation as the contiguous tensor that a network takes.

    uint8 (pixels) and float64 become float32. Any other dtype stays: int64 for an ``nn.Embedding``, bool for a mask.
    The tensor shares its memory with ``value`` where nothing has to change.

    Args:
        bytes_as_floats: False keeps uint8.
    """
    tensor = value if isinstance(value, torch.Tensor) else _array_to_tensor(value, None)
    dtype = (OBSERVATION_DTYPES if bytes_as_floats else FIELD_DTYPES).get(tensor.dtype, tensor.dtype)
    return tensor.to(device, dtype, non_blocking=True).contiguous()


def network_input(obs: object, device: str | torch.device = "cpu") -> Tree:
    """Convert an observation, or nested containers of observations, to the input of a network.

    Arrays, tensors and numbers become tensors by the rule of :func:`network_tensor`, a list or tuple that starts with a
    number becomes one tensor. ``bool``, ``str``, ``None`` and the values of dict keys that begin with
    ``collate_ignore`` are unchanged. Raises ``TypeError`` for other types.
    """

    def convert(leaf: object) -> object:
        if isinstance(leaf, (torch.Tensor, np.ndarray)):
            return network_tensor(leaf, device)
        if leaf is None or isinstance(leaf, (bool, str)):
            return leaf
        if isinstance(leaf, _NUMBERS) or _is_vector(leaf):
            return network_tensor(torch.as_tensor(leaf), device)
        return NotImplemented

    return _map("network_input", "an array, tensor, number, string", convert, obs, is_ignored_key)


def to_tensor_transitions(data: list[dict[str, Any]], shallow_copy_next_obs: bool = True) -> list[dict[str, Any]]:
    """Convert the arrays of transitions to tensors (float64 to float32), leaving Python scalars unchanged.

    Args:
        data: consecutive transitions of one environment.
        shallow_copy_next_obs: make ``next_obs`` of each transition the very object that is ``obs`` of the next one.
            The last transition keeps its own.

    Returns:
        A new list of new dicts.
    """
    if not data:
        return []
    if "next_obs" not in data[0] or not shallow_copy_next_obs:
        return [to_tensor(transition, transform_scalar=False) for transition in data]
    last = len(data) - 1
    tensors = [
        {k: to_tensor(v, transform_scalar=False) for k, v in transition.items() if k != "next_obs" or i == last}
        for i, transition in enumerate(data)
    ]
    for current, following in itertools.pairwise(tensors):
        current["next_obs"] = following["obs"]
    return tensors


def columns_as_tensors(columns: object) -> Tree:
    """Convert arrays with a row shape to tensors that share memory (float64 is copied to float32); scalar columns stay
    arrays.

    The column form of :func:`to_tensor_transitions`.
    """
    return map_leaves(_column_as_tensor, columns)


def _column_as_tensor(column: object) -> object:
    if not isinstance(column, np.ndarray) or column.ndim < 2:
        return column
    return torch.from_numpy(column.astype(np.float32) if column.dtype == np.float64 else column)


def to_ndarray(item: object, dtype: npt.DTypeLike | None = None) -> Tree:
    """Convert tensors, numbers and lists of numbers to numpy arrays, recursively.

    A CPU tensor shares its memory with the array; tensors on a device or with a graph are detached and copied.
    ``bool``, ``str`` and ``None`` are left alone, an empty list stays empty. Raises ``TypeError`` for other types.
    """

    def convert(leaf: object) -> object:
        if isinstance(leaf, torch.Tensor):
            leaf = leaf.detach().cpu().numpy()
        if isinstance(leaf, np.ndarray):
            return leaf if dtype is None else leaf.astype(dtype)
        if leaf is None or isinstance(leaf, (bool, str)):
            return leaf
        return np.array(leaf, dtype=dtype) if isinstance(leaf, _NUMBERS) or _is_vector(leaf) else NotImplemented

    return _map("to_ndarray", "a tensor, array, number, string", convert, item)


def to_list(item: object) -> Tree:
    """Convert tensors and arrays to (nested) lists, recursively; a 0-d tensor becomes a number."""

    def convert(leaf: object) -> object:
        if leaf is None or isinstance(leaf, (bool, int, float, str)):
            return leaf
        return leaf.tolist() if isinstance(leaf, _ARRAYS) else NotImplemented

    return _map("to_list", "a tensor, array, number, string", convert, item)


def tensor_to_list(item: object) -> Tree:
    """Convert tensors to lists, recursively, leaving numbers, strings and ``None`` unchanged."""

    def convert(leaf: object) -> object:
        if leaf is None or isinstance(leaf, (str, *_NUMBERS)):
            return leaf
        return leaf.tolist() if isinstance(leaf, torch.Tensor) else NotImplemented

    return _map("tensor_to_list", "a tensor, number, string", convert, item)


def to_item(data: object, ignore_error: bool = True) -> Tree:
    """Convert one-element tensors and arrays to Python scalars, recursively.

    A dict entry that holds more than one element is dropped when ``ignore_error``; otherwise ``MismatchError`` is
    raised.
    """

    def convert(leaf: object) -> object:
        if leaf is None or isinstance(leaf, (bool, int, float, str)):
            return leaf
        if isinstance(leaf, _ARRAYS):
            if (leaf.numel() if isinstance(leaf, torch.Tensor) else leaf.size) != 1:
                raise MismatchError(f"to_item expects one element, got shape {tuple(leaf.shape)}")
            return leaf.item()
        if not isinstance(leaf, Mapping):
            return NotImplemented
        kept = {}
        for key, value in leaf.items():
            try:
                kept[key] = to_item(value, ignore_error)
            except ValueError:
                if not ignore_error:
                    raise
        return kept

    return _map("to_item", "a tensor, array, number, string", convert, data)


def same_shape(data: Sequence[torch.Tensor]) -> bool:
    """Return whether all tensors (or arrays) of ``data`` have one shape (False without any).

    Raises ``TypeError`` when one has no shape.
    """
    for item in data:
        if not hasattr(item, "shape"):
            raise _unsupported("same_shape", item, "objects with a shape")
    return len({tuple(item.shape) for item in data}) == 1


def unsqueeze(data: TreeT, dim: int = 0) -> TreeT:
    """``tensor.unsqueeze(dim)`` for every tensor inside nested dicts and sequences."""
    return _of_tensors("unsqueeze", lambda tensor: tensor.unsqueeze(dim), data)


def squeeze(data: TreeT, dim: int = 0) -> TreeT:
    """``tensor.squeeze(dim)`` for every tensor inside nested dicts and sequences."""
    return _of_tensors("squeeze", lambda tensor: tensor.squeeze(dim), data)


def zeros_like(h: TreeT) -> TreeT:
    """``torch.zeros_like`` for every tensor inside nested dicts and sequences."""
    return _of_tensors("zeros_like", torch.zeros_like, h)


def get_tensor_data(data: TreeT) -> TreeT:
    """Return a detached clone of every tensor inside nested dicts and sequences; ``None`` passes through."""

    def cloned(leaf: object) -> object:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone()
        return None if leaf is None else NotImplemented

    clones: TreeT = _map("get_tensor_data", "a tensor, None", cloned, data)
    return clones


def get_null_data(template: Mapping[str, Any], num: int) -> list[dict[str, Any]]:
    """Return ``num`` copies of a transition as padding: ``null`` and ``done`` True, every ``reward`` zero.

    ``template['reward']`` is a tensor, an array or a number; the other fields are deep copies.
    """
    result = []
    for _ in range(num):
        null = copy.deepcopy(dict(template))
        null["null"] = True
        null["done"] = True
        reward = null["reward"]
        null["reward"] = 0.0 if isinstance(reward, _NUMBERS) else reward * 0
        result.append(null)
    return result


def _record_stream(item: object, stream: torch.cuda.Stream) -> None:
    """Mark these tensors as used by ``stream``, so that the allocator does not reuse their memory too early."""
    map_nested(lambda leaf: leaf.record_stream(stream) if getattr(leaf, "is_cuda", False) else None, item)


class CudaFetcher:
    """Fetch items of an iterable in a thread and move their tensors to ``device`` while the caller computes.

    On a CUDA device the copies run in a stream of their own. ``run()`` starts the thread; iteration yields the moved
    items in order and ends when the source ends; an error of the source is raised at ``next()``. ``close()`` ends the
    thread and may be called at any time. ``queue_size`` bounds the number of items waiting on the device. ``sleep`` is
    accepted for compatibility and unused: nothing here polls.
    """

    def __init__(
        self, data_source: Iterable[Any], device: str | torch.device, queue_size: int = 4, sleep: float = 0.1
    ) -> None:
        if queue_size < 1:
            raise ValueError(f"queue_size must be at least 1, got {queue_size}")
        self._source = iter(data_source)
        self._device = torch.device(device)
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._queue_size = queue_size
        self._items: Prefetcher[tuple[Any, torch.cuda.Event | None]] | None = None
        self._closed = False

    def run(self) -> None:
        """Start fetching. Raises ``RuntimeError`` when already running or closed."""
        if self._items is not None or self._closed:
            raise RuntimeError("CudaFetcher.run() may be called once and not after close()")
        self._items = Prefetcher(self._move_next, self._queue_size, "cuda-fetcher")

    def close(self) -> None:
        """Stop fetching and drop waiting items. Safe to call twice."""
        self._closed = True
        if self._items is not None:
            self._items.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._items is None or self._closed:
            raise RuntimeError("CudaFetcher is not running: call run() first")
        try:
            item, event = self._items.take()
        except LoaderError as error:
            raise (error.__cause__ or error) from None
        if event is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(event)
            _record_stream(item, stream)
        return item

    def _move_next(self) -> tuple[Any, torch.cuda.Event | None]:
        item = next(self._source)
        if self._stream is None:
            return to_device(item, self._device), None
        with torch.cuda.stream(self._stream):
            moved = to_device(item, self._device)
            event = torch.cuda.Event()
            event.record(self._stream)
        return moved, event
