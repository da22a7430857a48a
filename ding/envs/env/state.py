"""State of an env in the middle of an episode, as plain data.

If an env or a wrapper has its own ``get_state`` and ``set_state``, these are used. For envs and wrappers of Gymnasium
and of this project, the attributes are saved: numbers, strings, arrays, random generators, containers of them, and the
arrays of MuJoCo's data, because its observations depend on quantities of the previous step. Constant attributes are
skipped: spaces, action mappings, specs, configs, functions, models. Other envs, and those with other attributes (a
Box2D world, an emulator), have no state that can be saved.

A saved value is a number, a string, ``None``, an array, or a tuple that starts with a letter: ``l`` list, ``t`` tuple,
``q`` deque, ``d`` dict, ``g`` random generator, ``o`` object with attributes, ``m`` MuJoCo's data, ``s`` result of the
object's own ``get_state``.
"""

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from gymnasium.envs.registration import EnvSpec

from ding.envs.env.actions import ActionMapping

# Packages whose objects keep their whole state in attributes.
_KNOWN_PACKAGES = ("ding", "gymnasium")
_PLAIN = (bool, int, float, str, type(None))
_NEVER_CHANGE = (gymnasium.Space, ActionMapping, EnvSpec, EasyDict, torch.device)
# Constructor arguments, which may be anything, and the transition tables of toy text envs.
_CONSTANTS = ("_saved_kwargs", "P")
_MISSING = object()


class EnvStateError(RuntimeError):
    """The state of an env cannot be saved, or a saved state does not match; the message says where and why."""


class HasEnvStates(Protocol):
    """Env manager that can save the states of its envs in the middle of episodes, if the envs support it."""

    def get_state(self) -> list[Any]:
        """Return the state of each env, with the manager's data about it, in order of ids.

        Raises:
            EnvStateError: An env has no state that can be saved, or does not wait for an action.
            EnvManagerError: The same, for an env in another process.
        """

    def set_state(self, states: Sequence[Any]) -> None:
        """Continue all envs from the states returned by :meth:`get_state` of another manager.

        Raises:
            EnvStateError: The states belong to other envs; reset the manager then.
            EnvManagerError: The same, for an env in another process.
        """


def check_all_wait(env_num: int, ready: Sequence[int], states: Sequence[Any] | None = None) -> None:
    """Raise :class:`EnvStateError` unless all envs wait for an action, and each has one of ``states`` (if given)."""
    num_states = env_num if states is None else len(states)
    if not len(ready) == num_states == env_num:
        raise EnvStateError(f"{num_states} states for {env_num} envs, of which {len(ready)} wait for an action")


def env_state(env: object) -> object:
    """Return the state of ``env``, for :func:`set_env_state` of another env of the same kind.

    Raises:
        EnvStateError: The env has no state that can be saved.
    """
    return _saved(env, type(env).__name__, set())


def set_env_state(env: object, state: object) -> None:
    """Continue ``env``, which must have been reset, from a state returned by :func:`env_state`.

    Raises:
        EnvStateError: The state belongs to another kind of env; it may be partly applied.
    """
    try:
        _restored(env, state, type(env).__name__)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EnvStateError(f"{type(env).__name__}: the saved state does not fit this env ({error})") from error


def _is_known(value: object) -> bool:
    return type(value).__module__.partition(".")[0] in _KNOWN_PACKAGES


def _is_mujoco(value: object, name: str) -> bool:
    return type(value).__name__ == name and type(value).__module__.startswith("mujoco")


def _saved(value: Any, where: str, seen: set[int]) -> object:
    if isinstance(value, (*_PLAIN, np.generic)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return value.copy()
    if isinstance(value, (list, tuple, deque)):
        mark = "l" if isinstance(value, list) else "q" if isinstance(value, deque) else "t"
        return mark, [_saved(item, f"{where}[{number}]", seen) for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        return "d", [(_saved(key, where, seen), _saved(item, f"{where}[{key!r}]", seen)) for key, item in value.items()]
    if isinstance(value, np.random.Generator):
        return "g", value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return "g", value.get_state(legacy=False)
    if _is_mujoco(value, "MjData"):
        return "m", {name: np.copy(array) for name, array in _mujoco_arrays(value).items()}
    if all(callable(getattr(value, name, None)) for name in ("get_state", "set_state")):
        try:
            return "s", value.get_state()
        except Exception as error:
            raise EnvStateError(f"{where}.get_state raised {type(error).__name__}: {error}") from error
    if not _is_known(value):
        raise EnvStateError(f"{where} is a {type(value).__module__}.{type(value).__name__}, which cannot be saved")
    attributes = {}
    for name, item in vars(value).items():
        if not _stays(item, name) and id(item) not in seen:
            if _is_known(item):
                seen.add(id(item))
            attributes[name] = _saved(item, f"{where}.{name}", seen)
    return "o", type(value).__name__, attributes


def _stays(value: object, name: str) -> bool:
    """Return whether this attribute is constant during an episode."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "SU"
    fixed = isinstance(value, _NEVER_CHANGE) or _is_mujoco(value, "MjModel") or name in _CONSTANTS
    return fixed or callable(value)


def _restored(value: Any, saved: Any, where: str) -> object:
    """Return the saved value that replaces ``value``; objects are modified in place."""
    if not isinstance(saved, tuple):
        return copy.copy(saved) if isinstance(saved, np.ndarray) else saved
    mark = saved[0]
    if mark in ("l", "t", "q"):
        items = [_restored(None, item, where) for item in saved[1]]
        return deque(items, value.maxlen) if mark == "q" else items if mark == "l" else tuple(items)
    if mark == "d":
        return {_restored(None, key, where): _restored(None, item, where) for key, item in saved[1]}
    if mark == "g":
        return _restored_generator(value, saved[1])
    if mark == "m":
        return _restored_mujoco(value, saved[1])
    if mark == "s":
        value.set_state(saved[1])
        return value
    if type(value).__name__ != saved[1]:
        raise EnvStateError(f"{where} was a {saved[1]} and is a {type(value).__name__}")
    for name, item in saved[2].items():
        vars(value)[name] = _restored(vars(value).get(name, _MISSING), item, f"{where}.{name}")
    return value


def _restored_generator(value: Any, state: Any) -> object:
    if isinstance(value, np.random.RandomState):
        value.set_state(state)
        return value
    if not isinstance(value, np.random.Generator) or type(value.bit_generator).__name__ != state["bit_generator"]:
        value = np.random.default_rng()
    value.bit_generator.state = state
    return value


def _mujoco_arrays(data: Any) -> dict[str, np.ndarray]:
    found = {name: getattr(data, name) for name in dir(data) if not name.startswith("_") and name != "contact"}
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)} | {
        "time": np.array(data.time)
    }


def _restored_mujoco(data: Any, saved: Mapping[str, np.ndarray]) -> object:
    """Restore the arrays; those of another size belong to constraints of one step, which the next recomputes."""
    for name, array in _mujoco_arrays(data).items():
        if name != "time" and name in saved and saved[name].shape == array.shape and array.flags.writeable:
            array[...] = saved[name]
    data.time = float(saved["time"])
    return data
