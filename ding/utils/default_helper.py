"""Small helpers that everything leans on: nested containers, seeds, running statistics, messages."""

import copy
import functools
import logging
import random
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from ding.utils.errors import InvalidArgumentError, MissingKeyError, UnknownKeyError
from ding.utils.names import did_you_mean

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])
# Recurrent states are lists with one entry per sample, whatever the entries are.
STATE_KEYS = ("prev_state", "prev_actor_state", "prev_critic_state")


def check_choice(
    key: str, value: object, choices: Collection[object], error: type[Exception] = InvalidArgumentError
) -> None:
    """Raise ``error``, which names the choices and the nearest one, unless ``value`` is one of them."""
    if value not in choices:
        raise error(f"{key}={value!r} is unknown.{did_you_mean(value, choices)}")


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


def error_wrapper(fn: Callable[..., Any], default_ret: object, warning_msg: str = "") -> Callable[..., Any]:
    """Wrap ``fn`` so that a failure is logged once per message and gives ``default_ret``."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - that is what callers ask of this wrapper
            one_time_warning(f"{warning_msg or getattr(fn, '__name__', fn)}: {error!r}; going on with {default_ret!r}")
            return default_ret

    return wrapped


def add_note(error: BaseException, note: str) -> None:
    """``error.add_note(note)``, also in Python 3.10, which does not show notes."""
    vars(error).setdefault("__notes__", []).append(note)


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
            raise InvalidArgumentError(f"min_val must not be above max_val, got {min_val} and {max_val}")
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
        """Take one place if one is free; returns whether it did."""
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

    def update(self, x: npt.ArrayLike | torch.Tensor) -> None:
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

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance, each float64 ``shape``."""
        return self._mean, self._var

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

    @staticmethod
    def new_shape(obs_shape: Any, act_shape: Any, rew_shape: Any) -> tuple[Any, Any, Any]:
        """The shapes of observations, actions and rewards of an env that keeps such statistics: as they were."""
        return obs_shape, act_shape, rew_shape

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


def deep_merge_dicts(original: Mapping[str, Any] | None, new_dict: Mapping[str, Any] | None) -> Any:
    """A new dict: ``new_dict`` over ``original``, dict over dict merged recursively, anything else replaced.

    Both are left untouched; ``None`` counts as empty; the result has the type of ``original`` (``EasyDict`` stays one).
    """
    result: Any = copy.deepcopy(original) if original is not None else {}
    if new_dict:
        _update_deeply(result, new_dict)
    return result


def _update_deeply(target: MutableMapping[str, Any], source: Mapping[str, Any]) -> None:
    for key, value in source.items():
        old = target.get(key)
        if isinstance(old, MutableMapping) and isinstance(value, Mapping):
            _update_deeply(old, value)
        else:
            target[key] = copy.deepcopy(value)


def deep_update(
    original: dict[str, Any],
    new_dict: Mapping[str, Any],
    new_keys_allowed: bool = False,
    whitelist: Sequence[str] | None = None,
    override_all_if_type_changes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Update ``original`` in place, recursively, and return it.

    Args:
        new_keys_allowed: allow keys that ``original`` does not have, at every depth.
        whitelist: top-level keys below which new keys are allowed.
        override_all_if_type_changes: top-level keys whose dict is replaced whole when its ``type`` changes.

    Raises:
        UnknownKeyError: a key is new and not allowed.
    """
    whitelist = whitelist or []
    override_all_if_type_changes = override_all_if_type_changes or []
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise UnknownKeyError(f"unknown key {key!r}; known are {sorted(map(str, original))}")
        old: Any = original.get(key)
        merge = isinstance(old, dict) and isinstance(value, Mapping)
        if merge and key in override_all_if_type_changes:
            merge = "type" not in value or value["type"] == old.get("type")
        if merge:
            deep_update(old, value, new_keys_allowed or key in whitelist)
        else:
            original[key] = value
    return original


def lists_to_dicts(data: Sequence[Any], recursive: bool = False) -> Any:
    """``[{k: v0}, {k: v1}]`` -> ``{k: [v0, v1]}``, with the keys of the first element.

    A list of namedtuples becomes one namedtuple of tuples. ``recursive`` also turns values that are dicts themselves
    (one level down, except under ``prev_state``).

    Raises:
        ValueError: the list is empty.
        TypeError: the elements are neither dicts nor namedtuples.
    """
    if len(data) == 0:
        raise ValueError("lists_to_dicts needs at least one element")
    first = data[0]
    if isinstance(first, Mapping):
        result: dict[Any, Any] = {}
        for key in first:
            values = [item[key] for item in data]
            nested = recursive and isinstance(values[0], Mapping) and key != "prev_state"
            result[key] = lists_to_dicts(values) if nested else values
        return result
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*[tuple(values) for values in zip(*data)])
    raise TypeError(f"lists_to_dicts takes dicts or namedtuples, the first element is a {type(first).__name__}")


def dicts_to_lists(data: Mapping[Any, Sequence[Any]]) -> list[dict[Any, Any]]:
    """``{k: [v0, v1]}`` -> ``[{k: v0}, {k: v1}]``; as long as the shortest value."""
    return [dict(zip(data.keys(), values)) for values in zip(*data.values())]


def list_split(data: Sequence[Any], step: int) -> tuple[list[Any], Any]:
    """Cut into slices of ``step``: (the full slices, the shorter rest or None)."""
    if step < 1:
        raise ValueError(f"step must be at least 1, got {step}")
    full = len(data) // step * step
    slices = [data[i : i + step] for i in range(0, full, step)]
    return slices, (data[full:] if full < len(data) else None)


def squeeze(data: object) -> Any:
    """A tuple, list or dict of one element -> that element; longer lists and tuples -> tuple; else unchanged."""
    if isinstance(data, (tuple, list)):
        return data[0] if len(data) == 1 else tuple(data)
    if isinstance(data, dict) and len(data) == 1:
        return next(iter(data.values()))
    return data


def flatten_dict(data: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """``{'a': {'b': 1}}`` -> ``{'a/b': 1}``. An empty inner dict disappears."""
    result: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            for inner_key, inner_value in flatten_dict(value, delimiter).items():
                result[f"{key}{delimiter}{inner_key}"] = inner_value
        else:
            result[key] = value
    return result


def split_fn(data: Any, indices: Sequence[int], start: int, end: int) -> Any:
    """The rows ``indices[start:end]`` of columns: a tensor or array, a dict or list of such, or None (stays None)."""
    if data is None:
        return None
    if isinstance(data, Mapping):
        return {key: split_fn(value, indices, start, end) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [split_fn(value, indices, start, end) for value in data]
    return data[indices[start:end]]


def get_shape0(data: object) -> int:
    """The length of the first axis of the first leaf of a nested dict, list or tuple of arrays.

    Raises:
        TypeError: there is no array in it.
    """
    if isinstance(data, (torch.Tensor, np.ndarray)):
        return int(data.shape[0])
    if isinstance(data, Mapping) and data:
        return get_shape0(next(iter(data.values())))
    if isinstance(data, (list, tuple)) and len(data) > 0:
        return get_shape0(data[0])
    raise TypeError(f"cannot find the batch size of a {type(data).__name__}")


def split_data_generator(data: Mapping[str, Any], split_size: int, shuffle: bool = True) -> Iterator[dict[str, Any]]:
    """Yield dicts of ``split_size`` rows cut from a dict of columns.

    Values may be tensors or arrays ``[N, ...]``, dicts of such, lists or tuples of tensors that are each ``[N, ...]``,
    lists of N other objects, or None. A short last part starts earlier, so that it overlaps its predecessor and has
    ``split_size`` rows too; data shorter than ``split_size`` is one part.

    Args:
        split_size: rows per part.
        shuffle: draw the order with ``numpy.random.permutation``.

    Raises:
        InvalidArgumentError: ``data`` is no dict, nothing in it has a length, or ``split_size`` is below 1.
    """
    for index in _part_rows(data, split_size, shuffle):
        yield {key: _take(key, value, index) for key, value in data.items()}


def joined_data_parts(data: Mapping[str, Any], split_size: int) -> tuple[dict[str, Any], int]:
    """The shuffled parts of :func:`split_data_generator` one after the other in one dict, and their number."""
    parts = _part_rows(data, split_size, shuffle=True)
    rows = np.concatenate(parts)
    return {key: _take(key, value, rows) for key, value in data.items()}, len(parts)


def _part_rows(data: Mapping[str, Any], split_size: int, shuffle: bool) -> list[np.ndarray]:
    if split_size < 1:
        raise InvalidArgumentError(f"split_size must be at least 1, got {split_size}")
    if not isinstance(data, Mapping):
        raise InvalidArgumentError(f"split_data_generator takes a dict of columns, got a {type(data).__name__}")
    length = next((n for key, value in data.items() if (n := _rows_of(key, value)) is not None), None)
    if length is None:
        raise InvalidArgumentError(f"split_data_generator: none of the keys {sorted(data)} has a length")
    order = np.random.permutation(length) if shuffle else np.arange(length)
    begins = [max(0, min(start, length - split_size)) for start in range(0, length, split_size)]
    return [order[begin : begin + split_size] for begin in begins]


def _rows_of(key: str, value: object) -> int | None:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return int(value.shape[0]) if value.ndim > 0 else None
    if isinstance(value, Mapping):
        return next((n for k, v in value.items() if (n := _rows_of(k, v)) is not None), None)
    if isinstance(value, (list, tuple)) and len(value) > 0:
        return _rows_of(key, value[0]) if _is_columns(key, value) else len(value)
    return None


def _is_columns(key: str, value: Sequence[object]) -> bool:
    """Whether a list is a bundle of columns (each with N rows) and not a list of N rows."""
    return key not in STATE_KEYS and all(isinstance(v, (torch.Tensor, np.ndarray)) and v.ndim > 0 for v in value)


def _take(key: str, value: object, index: np.ndarray) -> Any:
    if isinstance(value, torch.Tensor):
        return value[torch.from_numpy(index).to(value.device)] if value.ndim > 0 else value
    if isinstance(value, np.ndarray):
        return value[index] if value.ndim > 0 else value
    if isinstance(value, Mapping):
        return {k: _take(k, v, index) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and len(value) > 0:
        if _is_columns(key, value):
            taken = [_take(key, v, index) for v in value]
        else:
            taken = [value[i] for i in index]
        if isinstance(value, tuple):
            # A namedtuple of columns stays one; one of rows would have the wrong number of fields.
            return rebuilt(value, taken) if len(taken) == len(value) else tuple(taken)
        return taken
    return value


def is_namedtuple(item: object) -> bool:
    """Whether ``item`` is a named tuple, which is built from its fields one by one."""
    return isinstance(item, tuple) and hasattr(item, "_fields")


def map_nested(fn: Callable[[Any], Any], data: object) -> Any:
    """``fn`` of every leaf of nested mappings, which become dicts, lists and tuples."""
    if isinstance(data, Mapping):
        return {key: map_nested(fn, value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return rebuilt(data, [map_nested(fn, value) for value in data])
    return fn(data)


def rebuilt(template: object, items: list[Any]) -> Any:
    """``items`` as what ``template`` is: a named tuple, a tuple, or a list for everything else."""
    if isinstance(template, tuple):
        return type(template)(*items) if is_namedtuple(template) else tuple(items)
    return items


def default_get(
    data: Mapping[str, Any],
    name: str,
    default_value: object = None,
    default_fn: Callable[[], Any] | None = None,
    judge_fn: Callable[[Any], bool] | None = None,
) -> Any:
    """``data[name]``, or ``default_fn()``, or ``default_value``.

    Raises:
        MissingKeyError: the name is missing and neither default is given.
        InvalidArgumentError: ``judge_fn`` rejects the default; what ``data`` holds is not judged.
    """
    if name in data:
        return data[name]
    if default_fn is None and default_value is None:
        raise MissingKeyError(f"{name!r} is missing and has no default")
    value = default_fn() if default_fn is not None else default_value
    if judge_fn is not None and not judge_fn(value):
        raise InvalidArgumentError(f"the default of {name!r} is not acceptable: {value!r}")
    return value
