"""Observations, actions and their spaces in the forms of workers and envs."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

AnySpace: TypeAlias = spaces.Space[Any]


def float32_space(space: AnySpace) -> AnySpace:
    """The space with its float64 (and float16) boxes as float32."""
    if isinstance(space, spaces.Box) and space.dtype.kind == "f" and space.dtype != np.float32:
        return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: float32_space(part) for name, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([float32_space(part) for part in space.spaces])
    return space


def cast_obs(obs: object, space: AnySpace | None) -> Any:
    """The observation as arrays, float32 where its space says so; dicts and tuples keep their form."""
    if isinstance(space, spaces.Box):
        array = np.asarray(obs)
        # What is no real number stays as it is, for the manager to complain about.
        return (
            array.astype(np.float32, copy=False) if space.dtype == np.float32 and array.dtype.kind in "fiub" else array
        )
    if isinstance(space, spaces.Dict) and isinstance(obs, dict):
        return {name: cast_obs(value, space.spaces.get(name)) for name, value in obs.items()}
    if isinstance(space, spaces.Tuple) and isinstance(obs, (tuple, list)):
        return tuple(cast_obs(value, part) for value, part in zip(obs, space.spaces))
    if isinstance(obs, (int, float, bool, np.number, np.bool_)):
        return np.asarray(obs)
    return obs


def to_env_action(action: object, space: AnySpace | None) -> Any:
    """``action`` in the form that an env with this action space takes.

    Python ints pass; 0-d arrays, and int64 arrays ``(1,)`` for a space that is not an array space, become ints; tensors
    become arrays; dicts and tuples are converted by entry. Of a hybrid action, ``{'action_type', 'action_args'}``, a
    tuple space gets the tuple.

    Raises:
        TypeError: the action is none of these.
    """
    if isinstance(action, (int, np.integer)):
        return int(action)
    if isinstance(action, Mapping) and isinstance(space, spaces.Tuple) and "action_type" in action:
        action = (action["action_type"], action["action_args"])
    if isinstance(action, Mapping):
        inner = space.spaces if isinstance(space, spaces.Dict) else {}
        return {key: to_env_action(value, inner.get(key)) for key, value in action.items()}
    array_space = isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary))
    if isinstance(action, (tuple, list)) and not array_space:
        parts = space.spaces if isinstance(space, spaces.Tuple) else [None] * len(action)
        return tuple(to_env_action(value, part) for value, part in zip(action, parts))
    if hasattr(action, "detach"):
        action = action.detach().cpu().numpy()
    if isinstance(action, (float, tuple, list)):
        action = np.asarray(action)
    if not isinstance(action, (np.ndarray, np.generic)):
        raise TypeError(f"an action must be an int, an array, a tensor, a dict or a tuple, not {type(action).__name__}")
    return _from_array(np.asarray(action), space)


def _from_array(action: np.ndarray, space: AnySpace | None) -> Any:
    if isinstance(space, spaces.Discrete):
        if action.size != 1:
            raise TypeError(f"a discrete action must be a single int, found an array of shape {action.shape}")
        return int(action.item())
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)) and action.size == np.prod(space.shape):
        # A network with one head per entry gives a list of (1,).
        return action.reshape(space.shape)
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        return action
    if action.ndim == 0 or (action.shape == (1,) and action.dtype == np.int64):
        return action.item()
    return action


def scale_action(action: Any, space: AnySpace) -> Any:
    """Clip to [-1, 1] and map affinely to the bounds of each Box of the space; other parts pass unchanged."""
    if isinstance(space, spaces.Dict):
        return {key: scale_action(value, space.spaces[key]) for key, value in action.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(scale_action(value, part) for value, part in zip(action, space.spaces))
    if not isinstance(space, spaces.Box):
        return action
    # Not numpy's clip, which takes several times as long for one action.
    clipped = np.minimum(np.maximum(np.asarray(action, dtype=np.float32), -1.0), 1.0)
    scaled = space.low + (clipped + 1.0) * 0.5 * (space.high - space.low)
    return scaled.astype(space.dtype, copy=False)


def unit_space(space: AnySpace) -> AnySpace:
    """The space of the actions that :func:`scale_action` takes: each Box of ``space`` as float32 in [-1, 1].

    Raises:
        ValueError: a Box without bounds, to which nothing can be scaled.
    """
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: unit_space(part) for key, part in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([unit_space(part) for part in space.spaces])
    if not isinstance(space, spaces.Box):
        return space
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ValueError(f"act_scale=True scales actions to the bounds of the env, but its action space is {space}")
    return spaces.Box(-1.0, 1.0, space.shape, np.float32)


def from_sample(sample: object) -> Any:
    """A sample of an action space in the form that policies use: ints become int64 ``(1,)``, dict values arrays."""
    if isinstance(sample, (int, np.integer)):
        return np.array([sample], dtype=np.int64)
    if isinstance(sample, Mapping):
        return {key: from_sample(value) for key, value in sample.items()}
    if isinstance(sample, tuple):
        return tuple(from_sample(value) for value in sample)
    return sample
