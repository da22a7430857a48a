"""Checks of a new env against the contract of :class:`~ding.envs.BaseEnv`, for use in its tests."""

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces

from ding.data.env_batch import equal_rows
from ding.envs.env.base_env import BaseEnv
from ding.envs.env.spaces import tree_of
from ding.envs.env_wrappers._gym_api import accepts
from ding.utils.nested import iter_paths

logger = logging.getLogger(__name__)

PASSES = 3
STEPS = 10


def _require(condition: bool, message: str) -> None:
    # These checks promise AssertionError; raising it explicitly also works under ``python -O``.
    if not condition:
        raise AssertionError(message)


def check_space_dtype(env: BaseEnv) -> None:
    """Check that observation and reward spaces are float32 (or integer), and a continuous action space float32.

    Raises:
        AssertionError: A space has another dtype.
    """
    for name in ("observation_space", "reward_space", "action_space"):
        for keys, space in iter_paths(tree_of(getattr(env, name)), sequences=(tuple,)):
            if isinstance(space, spaces.Box) and space.dtype.kind == "f":
                path = name + "".join(f"[{key!r}]" for key in keys)
                _require(space.dtype == np.float32, f"{path} has dtype {space.dtype}, expected float32")


def check_array_space(data: object, space: Any, name: str) -> None:
    """Check type, dtype, shape and bounds of an array (or dict or sequence of arrays) against its space.

    Spaces may be those of Gymnasium or of the old gym.

    Raises:
        AssertionError: The data is not in the space.
        TypeError: The data is not an array, dict or sequence.
    """
    if isinstance(data, np.ndarray):
        if isinstance(space, (list, tuple)):
            space = space[0]
        _require(data.dtype == space.dtype, f"{name} has dtype {data.dtype}, its space {space.dtype}")
        shape = space.shape if space.shape else (1,)
        _require(data.shape in (tuple(space.shape), tuple(shape)), f"{name} has shape {data.shape}, its space {shape}")
        if type(space).__name__ == "Box":  # of Gymnasium or the old gym
            _require(bool((space.low <= data).all()), f"{name} is below the lower bound of its space: {data}")
            _require(bool((data <= space.high).all()), f"{name} is above the upper bound of its space: {data}")
        else:
            value = data.item() if data.size == 1 else data
            _require(space.contains(value), f"{name} {data} is not in its space {space}")
    elif isinstance(data, Mapping):
        for key, value in data.items():
            check_array_space(value, space[key], f"{name}[{key!r}]")
    elif isinstance(data, Sequence) and not isinstance(data, str):
        for i, value in enumerate(data):
            check_array_space(value, space[i], f"{name}[{i}]")
    else:
        raise TypeError(f"{name} must be an array, a dict or a sequence of them, not {type(data).__name__}")


def check_reset(env: BaseEnv) -> None:
    """Check that ``reset`` returns an element of the observation space.

    Raises:
        AssertionError: The check failed.
    """
    check_array_space(env.reset(), env.observation_space, "obs")


def check_step(env: BaseEnv) -> None:
    """Check that steps return elements of their spaces, and that episodes end with an evaluation return.

    Raises:
        AssertionError: The check failed.
    """
    for _ in range(PASSES):
        env.reset()
        while True:
            timestep = env.step(env.random_action())
            for data, space, name in zip(timestep[:2], (env.observation_space, env.reward_space), ("obs", "reward")):
                check_array_space(data, space, name)
            if timestep.done:
                found = "eval_episode_return" in timestep.info
                _require(found, "the info of the last step of an episode has no 'eval_episode_return'")
                break


def check_different_memory(array1: object, array2: Any, step_times: int) -> None:
    """Check that two observations do not share memory.

    Raises:
        AssertionError: They do, or they have different types.
    """
    _require(type(array1) is type(array2), f"step {step_times}: {type(array1)} and {type(array2)} differ")
    if isinstance(array1, np.ndarray):
        shared = np.may_share_memory(array1, array2)
        _require(not shared, f"the observations of steps {step_times - 1} and {step_times} share memory; return a copy")
    elif isinstance(array1, Mapping):
        _require(array1.keys() == array2.keys(), f"step {step_times}: observations with different keys")
        for key in array1:
            check_different_memory(array1[key], array2[key], step_times)
    elif isinstance(array1, Sequence) and not isinstance(array1, str):
        _require(len(array1) == len(array2), f"step {step_times}: observations with different lengths")
        for one, two in zip(array1, array2):
            check_different_memory(one, two, step_times)
    else:
        raise TypeError(f"an observation must consist of arrays, dicts and sequences, not {type(array1).__name__}")


def check_obs_deepcopy(env: BaseEnv) -> None:
    """Check that each step returns an observation in separate memory.

    Raises:
        AssertionError: Two consecutive steps share memory.
    """
    last = env.reset()
    for step_times in range(1, STEPS + 1):
        before = deepcopy(last)
        timestep = env.step(env.random_action())
        check_different_memory(last, timestep.obs, step_times)
        _require(equal_rows(before, last), f"step {step_times} changed the observation of the step before")
        last = timestep.obs if not timestep.done else env.reset()


def check_all(env: BaseEnv) -> None:
    """Run all checks of this module, after a reset so that lazily built envs know their spaces.

    Raises:
        AssertionError: A check failed.
    """
    env.seed(0)
    env.reset()
    check_space_dtype(env)
    check_reset(env)
    check_step(env)
    check_obs_deepcopy(env)


def demonstrate_correct_procedure(env_fn: Callable[[dict[str, Any]], BaseEnv]) -> None:
    """Run the life cycle of an env in the order of the managers, and check its static and dynamic seeds.

    For an env whose ``seed`` has no ``dynamic_seed``, a warning reports seeds that do not reproduce episodes.

    Args:
        env_fn: Creates an env from a config.

    Raises:
        AssertionError: Equal static seeds give different first observations, or dynamic seeds different episodes.
    """
    probe = env_fn({})
    knows_dynamic = accepts(probe.seed, "dynamic_seed")
    probe.close()
    if not knows_dynamic:
        if not equal_rows(_first_observations(env_fn), _first_observations(env_fn)):
            logger.warning("%s: seed(4) gives other episodes each time; no run with it can be repeated", probe)
        return
    static_a, static_b, dynamic_a, dynamic_b = (
        _first_observations(env_fn, dynamic_seed=dynamic) for dynamic in (False, False, True, True)
    )
    _require(equal_rows(static_a[0], static_a[1]), "a static seed must start every episode in the same state")
    _require(equal_rows(static_a[0], static_b[0]), "the same static seed must give the same episode")
    _require(equal_rows(dynamic_a, dynamic_b), "the same dynamic seed must give the same series of episodes")


def _first_observations(env_fn: Callable[[dict[str, Any]], BaseEnv], **seeding: bool) -> list[Any]:
    """Return the first observations of two episodes of a new env."""
    env = env_fn({})
    env.seed(4, **seeding)
    firsts = [env.reset(), env.reset()]
    env.step(env.random_action())
    env.close()
    logger.info("reset, seed, step and close of %s were called in this order", type(env).__name__)
    return firsts
