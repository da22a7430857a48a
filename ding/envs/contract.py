"""The contract of an env: which forms of an observation, a reward and an info are accepted, and what they become.

=============  ====================================================================================================
what           accepted forms
=============  ====================================================================================================
observation    what its space describes. A part that is an array may come as a list or tuple of numbers, a tensor, or
               of another dtype that converts within its kind; its shape is that of the space. A whole number of a
               ``Discrete`` may be any number or array of one. The keys of a ``Dict`` and the parts of a ``Tuple``
               (tuple or list) are those of the space.
reward         a number: of Python, of numpy, or a list, array or tensor that holds one. Only a ``BaseEnv`` may give
               several: in the shape of its ``reward_space``, or of a game a row of that shape for each player.
info           a dict, of a game one per player; ``None`` is an empty one.
=============  ====================================================================================================

It is the same for all env managers. Anything else raises a :class:`DataProblem`, to which managers add the env.
"""

import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias, TypeGuard, TypeVar

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from ding.utils.nested import is_ignored_key, map_nested

T = TypeVar("T")

AnySpace: TypeAlias = gymnasium.Space[Any]
Obs: TypeAlias = Any
"""An observation, in whatever form."""
ReadObs: TypeAlias = Callable[[Any], Any]
"""An observation as an env gave it -> as its space describes it."""

_NUMBERS = (int, float, np.number, np.bool_)
_FIXED = frozenset(
    [int, float, bool, str, type(None), np.bool_, np.float32, np.float64, np.int64, np.int32, np.uint8, np.int8]
)  # never change, so that a reference is as good as a copy


class DataProblem(ValueError):
    """An env returned what is outside of the contract.

    Attributes:
        env_id: which env of a manager, where the text was made by somebody who knows.
    """

    def __init__(self, text: "str | DataProblem", env_id: int | None = None) -> None:
        self.env_id: int | None = text.env_id if isinstance(text, DataProblem) else env_id
        super().__init__(str(text))


# Observations


def obs_reader(space: AnySpace | None, strict: bool = True) -> ReadObs:
    """Return what brings the observations of an env into the form of their space.

    Arrays are handed on without a copy where they have that form already.

    Args:
        space: of the observations.
        strict: whether an observation must be one of the space. If not, what does not fit stays as it is: the first
            observation of a :class:`~ding.envs.BaseEnv` says more about its form than its space does.
    """
    return _reader(space, "", strict)


def _reader(space: AnySpace | None, path: str, strict: bool) -> ReadObs:
    if is_array_space(space):
        return _array_reader(space, path, strict)
    if isinstance(space, spaces.Discrete):
        return lambda obs: _discrete(obs, path) if strict else _present(obs, "an int", path)
    if isinstance(space, spaces.Dict):
        return _dict_reader(space, path, strict)
    if isinstance(space, spaces.Tuple):
        return _tuple_reader(space, path, strict)
    if isinstance(space, spaces.Sequence) and not space.stack:
        part = _reader(space.feature_space, f"{path}[]", strict)
        return lambda obs: tuple(map(part, obs)) if isinstance(obs, (tuple, list)) else _present(obs)
    if isinstance(space, spaces.OneOf):
        parts = [_reader(part, f"{path}[1]", strict) for part in space.spaces]
        return lambda obs: (obs[0], parts[int(obs[0])](obs[1])) if isinstance(obs, (tuple, list)) else _present(obs)
    return _present


def is_array_space(space: AnySpace | None) -> TypeGuard[AnySpace]:
    """Whether the elements of a space are arrays with axes."""
    return isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary))


def _refuse(found: str, expected: str, path: str) -> NoReturn:
    raise DataProblem(f"observation{_at(path)} {found}, expected {expected}")


def _at(path: str) -> str:
    return f" at {path!r}" if path else ""


def _present(obs: Obs, expected: str = "an observation of its space", path: str = "") -> Obs:
    return _refuse("None", expected, path) if obs is None else obs


def _array_reader(space: AnySpace, path: str, strict: bool) -> ReadObs:
    assert space.shape is not None
    shape, dtype = space.shape, np.dtype(space.dtype)

    def read(obs: Obs) -> object:
        if type(obs) is np.ndarray and obs.dtype is dtype and obs.shape == shape:
            return obs
        if not strict and not isinstance(obs, (np.ndarray, list, tuple)):
            return _present(obs, f"an array of shape {shape}", path)
        array = as_array(obs)
        if array is None or array.dtype == object:
            return _refuse(_shown(obs), f"an array of shape {shape}", path) if strict else obs
        if array.shape != shape:
            return _refuse(f"of shape {array.shape}", str(shape), path) if strict else obs
        fitting = converted(array, dtype)
        if fitting is None:
            return _refuse(f"of dtype {array.dtype}", str(dtype), path) if strict else obs
        return fitting

    return read


def as_array(value: object) -> np.ndarray | None:
    """The array of a number, list, tensor or array; ``None`` for what has no array form."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, (np.ma.MaskedArray, np.matrix)):
        return None
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return None


def converted(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray | None:
    """The array in another dtype; ``None`` where numbers may not survive that.

    Floats take all real numbers, whole numbers only whole ones that they can hold.
    """
    kind = array.dtype.kind
    if array.dtype == dtype:
        return array
    if kind not in "fiub" or (dtype.kind != "f" and kind == "f") or (dtype.kind == "b" and kind != "b"):
        return None
    cast = array.astype(dtype)
    if dtype.kind == "f" or np.can_cast(array.dtype, dtype, "safe") or np.array_equal(cast, array):
        return cast
    return None


def _shown(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def _discrete(obs: Obs, path: str) -> np.ndarray:
    array = None if isinstance(obs, str) else as_array(obs)
    if array is None or array.dtype.kind not in "iub":
        _refuse(_shown(obs) if array is None or array.dtype == object else f"of dtype {array.dtype}", "an int", path)
    if array.size != 1:
        _refuse(f"of shape {array.shape}", "an int", path)
    return array.reshape(()).astype(np.int64, copy=False)


def _dict_reader(space: spaces.Dict, path: str, strict: bool) -> ReadObs:
    readers = {key: _reader(part, f"{path}.{key}" if path else str(key), strict) for key, part in space.spaces.items()}
    keys = readers.keys()
    arrays = [(key, np.dtype(part.dtype), part.shape) for key, part in space.spaces.items() if is_array_space(part)]
    count = len(arrays) if len(arrays) == len(keys) else -1

    def read(obs: Obs) -> object:
        if type(obs) is dict and len(obs) == count:
            # Dicts of arrays are compared here, and not part by part: this counts in each step of each env.
            for key, dtype, shape in arrays:
                value = obs.get(key)
                if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape:
                    break
            else:
                return obs
        if not isinstance(obs, Mapping):
            return _refuse(_shown(obs), "a dict", path) if strict else _present(obs, "a dict", path)
        if not strict:
            return {key: readers[key](value) if key in readers else value for key, value in obs.items()}
        if obs.keys() == keys:
            return {key: reader(obs[key]) for key, reader in readers.items()}
        given = [key for key in obs if key in readers or not is_ignored_key(key)]
        if set(given) != keys:
            _refuse(f"with the keys {sorted(map(str, obs))}", f"{sorted(map(str, readers))}", path)
        # What networks get as the env gave it is no part of the space.
        return {key: readers[key](value) if key in readers else value for key, value in obs.items()}

    return read


def _tuple_reader(space: spaces.Tuple[Any], path: str, strict: bool) -> ReadObs:
    readers = [_reader(part, f"{path}[{i}]", strict) for i, part in enumerate(space.spaces)]

    def read(obs: Obs) -> object:
        if isinstance(obs, (tuple, list)) and len(obs) == len(readers):
            return tuple([reader(value) for reader, value in zip(readers, obs)])
        if not strict:
            return _present(obs, f"a tuple of {len(readers)}", path)
        found = f"of {len(obs)} parts" if isinstance(obs, (tuple, list)) else _shown(obs)
        return _refuse(found, f"a tuple of {len(readers)}", path)

    return read


# Rewards


def scalar(reward: object) -> float:
    """A reward of one number as a float.

    Raises:
        DataProblem: it is something else.
    """
    if isinstance(reward, float):
        return reward
    array = reward_array(reward)
    if array.size != 1:
        raise DataProblem(reward_misfit(array.shape, (1,)))
    return float(array.item())


def reward_array(reward: object) -> np.ndarray:
    """A reward as an array.

    Raises:
        DataProblem: it does not consist of numbers.
    """
    array = as_array(reward)
    if array is None or array.dtype.kind not in "fiub":  # an int of more than 64 bits is an object for numpy
        raise DataProblem(f"reward {reprlib.repr(reward)}, expected a number")
    return array


def fits_reward_space(shape: tuple[int, ...], expected: tuple[int, ...] | None, is_own: bool) -> bool:
    """Whether an env may give a reward of several numbers of this shape: as declared, or a row per player.

    Args:
        shape: of the reward.
        expected: of ``env.reward_space``, ``None`` where that says nothing.
        is_own: whether the env is a ``BaseEnv`` of somebody, which may be a game.
    """
    return expected is None or shape == expected or (is_own and shape[1:] == expected)


def reward_misfit(shape: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """The sentence for a reward of another shape than ``env.reward_space`` has."""
    return f"reward of shape {shape}, expected {expected} as in env.reward_space"


# Ends


def check_end(terminated: object, truncated: object) -> None:
    """Refuse what ends an episode by being there, such as the dict of flags by agent of another API.

    Managers call this where one of the two is true.

    Raises:
        DataProblem: one is neither a bool nor a number, alone or in an array.
    """
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if flag is not None and not isinstance(flag, _NUMBERS):
            array = as_array(flag)
            if array is None or array.dtype.kind not in "biuf" or array.size != 1:
                raise DataProblem(f"{name} {reprlib.repr(flag)}, expected True or False")


# Infos, and what is kept


def own_info(info: object) -> Any:
    """A copy of an info that the env may fill again: a dict, ``{}`` for ``None``; of a game a list of them.

    Raises:
        DataProblem: it is something else.
    """
    if info is None:
        return {}
    if isinstance(info, Mapping):
        return {key: value if type(value) in _FIXED else copied(value) for key, value in info.items()}
    if isinstance(info, (list, tuple)):
        return [own_info(one) for one in info]
    raise DataProblem(f"info of type {type(info).__name__}, expected a dict")


def copied(value: T) -> T:
    """A copy of the arrays and tensors in a value, and of the dicts, lists and tuples that hold them.

    Envs fill them again; other objects are not copied.
    """
    copy: T = map_nested(_copied_leaf, value)
    return copy


def _copied_leaf(leaf: object) -> object:
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
