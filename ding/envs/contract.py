"""Contract of an env: the accepted forms of observations, rewards and infos, and their conversion.

=============  ====================================================================================================
value          accepted forms
=============  ====================================================================================================
observation    an element of the observation space. An array part may be a list or tuple of numbers, a tensor, or
               have another dtype that converts within its kind; its shape is that of the space. An element of a
               ``Discrete`` may be any integer or array of one. The keys of a ``Dict`` and the parts of a ``Tuple``
               (tuple or list) are those of the space.
reward         a Python or NumPy number, or a list, array or tensor with one number. Only a ``BaseEnv`` may return
               several: in the shape of its ``reward_space``, or for a game one row of that shape per player.
info           a dict, for a game one per player; ``None`` counts as an empty dict.
=============  ====================================================================================================

All env managers share this contract. Other values raise a :class:`DataProblem`, to which managers add the env.
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
"""Observation in any form."""
ReadObs: TypeAlias = Callable[[Any], Any]
"""Function from an observation of an env to the form that its space describes."""

_NUMBERS = (int, float, np.number, np.bool_)
_FIXED = frozenset(
    [int, float, bool, str, type(None), np.bool_, np.float32, np.float64, np.int64, np.int32, np.uint8, np.int8]
)  # immutable, so no copy is needed


class DataProblem(ValueError):
    """An env returned a value outside of the contract.

    Attributes:
        env_id: Id of the env within its manager, if the raiser knows it.
    """

    def __init__(self, text: "str | DataProblem", env_id: int | None = None) -> None:
        self.env_id: int | None = text.env_id if isinstance(text, DataProblem) else env_id
        super().__init__(str(text))


# Observations


def obs_reader(space: AnySpace | None, strict: bool = True) -> ReadObs:
    """Return a function that converts observations of an env to the form of their space.

    Arrays that already have that form are passed on without a copy.

    Args:
        space: Observation space.
        strict: Require elements of the space. Otherwise values that do not fit are left unchanged: the first
            observation of a :class:`~ding.envs.BaseEnv` describes its form better than its space.
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
    """Return whether the elements of a space are arrays with axes."""
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
    """Convert a number, list, tensor or array to an array; ``None`` if that is impossible."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, (np.ma.MaskedArray, np.matrix)):
        return None
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return None


def converted(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray | None:
    """Convert the array to another dtype; ``None`` if numbers might change.

    Floats accept all real numbers, integers only whole numbers in their range.
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
            # Compare dicts of arrays here instead of part by part: this runs in each step of each env.
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
        # Values that networks receive unchanged are not part of the space.
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
    """Convert a reward of one number to a float.

    Raises:
        DataProblem: The reward has another form.
    """
    if isinstance(reward, float):
        return reward
    array = reward_array(reward)
    if array.size != 1:
        raise DataProblem(reward_misfit(array.shape, (1,)))
    return float(array.item())


def reward_array(reward: object) -> np.ndarray:
    """Convert a reward to an array.

    Raises:
        DataProblem: The reward does not consist of numbers.
    """
    array = as_array(reward)
    if array is None or array.dtype.kind not in "fiub":  # NumPy treats an int of more than 64 bits as an object
        raise DataProblem(f"reward {reprlib.repr(reward)}, expected a number")
    return array


def fits_reward_space(shape: tuple[int, ...], expected: tuple[int, ...] | None, is_own: bool) -> bool:
    """Return whether a reward of several numbers may have this shape: as declared, or one row per player.

    Args:
        shape: Shape of the reward.
        expected: Shape of ``env.reward_space``; ``None`` if it is undefined.
        is_own: Whether the env is a ``BaseEnv``, which may be a game.
    """
    return expected is None or shape == expected or (is_own and shape[1:] == expected)


def reward_misfit(shape: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Return the message for a reward whose shape differs from ``env.reward_space``."""
    return f"reward of shape {shape}, expected {expected} as in env.reward_space"


# Ends


def check_end(terminated: object, truncated: object) -> None:
    """Reject truthy values that are not flags, such as the dict of flags by agent of another API.

    Managers call this if one of the two is true.

    Raises:
        DataProblem: A value is neither a bool nor a number, alone or in an array.
    """
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if flag is not None and not isinstance(flag, _NUMBERS):
            array = as_array(flag)
            if array is None or array.dtype.kind not in "biuf" or array.size != 1:
                raise DataProblem(f"{name} {reprlib.repr(flag)}, expected True or False")


# Infos and copies


def own_info(info: object) -> Any:
    """Copy an info that the env may modify: a dict, ``{}`` for ``None``; for a game a list of dicts.

    Raises:
        DataProblem: The info has another form.
    """
    if info is None:
        return {}
    if isinstance(info, Mapping):
        return {key: value if type(value) in _FIXED else copied(value) for key, value in info.items()}
    if isinstance(info, (list, tuple)):
        return [own_info(one) for one in info]
    raise DataProblem(f"info of type {type(info).__name__}, expected a dict")


def copied(value: T) -> T:
    """Copy the arrays and tensors in a value, and the dicts, lists and tuples that contain them.

    Envs may overwrite these; other objects are not copied.
    """
    copy: T = map_nested(_copied_leaf, value)
    return copy


def _copied_leaf(leaf: object) -> object:
    if isinstance(leaf, np.ndarray):
        return leaf.copy()
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
