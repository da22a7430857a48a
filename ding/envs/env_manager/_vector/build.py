"""Construction of a ``gymnasium.vector`` env from the env functions of a config."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from ding.data.env_batch import is_abnormal
from ding.envs.contract import AnySpace, DataProblem, check_end, copied, is_array_space, obs_reader, own_info, scalar
from ding.envs.env.action_parts import from_sample
from ding.envs.env.base_env import BaseEnv
from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.envs.env.making import find_spec
from ding.envs.env.spaces import seed_spaces
from ding.envs.env_manager._columns import of_abnormal
from ding.envs.env_manager._vector.ale import with_games
from ding.envs.env_wrappers import GymToGymnasiumWrapper
from ding.envs.env_wrappers._gym_api import accepts
from ding.envs.gymnasium_types import AnyEnv, AnyWrapper, Reset, Step
from ding.utils import did_you_mean
from ding.utils.seed import seed_env_process


@runtime_checkable
class HasVectorForm(Protocol):
    """Env class with its own vector env."""

    def make_vector_env(self, num_envs: int) -> VectorEnv:
        """Return a vector env that steps ``num_envs`` envs of this kind together."""


class _OwnGenerators(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Single env in its process, whose seed also seeds the global generators of the process.

    Args:
        env_fn: Creates the env.
        seed: Seed of the env, if known.
        parent_pid: Process id of the manager, in which a vector env also creates an env.
    """

    def __init__(self, env_fn: Callable[[], Any], seed: int | None, parent_pid: int) -> None:
        self._is_alone = os.getpid() != parent_pid
        if self._is_alone:
            seed_env_process(seed, "build")
        super().__init__(env_fn())
        self.step = self.env.step  # type: ignore[method-assign]  # no further call in each step

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Seed the process if there is a seed, and reset the env."""
        if seed is not None and self._is_alone:
            seed_env_process(seed, "reset")
        return self.env.reset(seed=seed, options=options)


class AsGymnasium(GymToGymnasiumWrapper):
    """A :class:`BaseEnv` as an env of Gymnasium.

    Discrete actions are passed as int64 ``(1,)``, like those of a policy. ``options`` of a reset are ignored.

    Args:
        env: Env to adapt.
    """

    def __init__(self, env: BaseEnv) -> None:
        if getattr(env, "observation_space", None) is None:
            env.reset()  # a lazily built env knows its spaces only afterwards
        super().__init__(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the env, after seeding it by its method if there is a seed."""
        if seed is not None:
            self.env.seed(seed)
        return self.env.reset(), {}

    def step(self, action: object) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Make one step."""
        return super().step(from_sample(action))

    def render(self) -> Any:
        """Return the current frame."""
        return self.env.render()


class InContract(AnyWrapper):
    """Converts values of an env to the form of its spaces, which a vector env requires.

    Rewards of several numbers are not supported by vector envs.

    Args:
        env: Env to wrap.
        env_id: Position of the env.
    """

    def __init__(self, env: AnyEnv, env_id: int) -> None:
        super().__init__(env)
        self.observation_space = env.observation_space
        self._env_id = env_id
        read = obs_reader(env.observation_space)
        # A vector env copies arrays only.
        self._read = read if _is_of_arrays(env.observation_space) else lambda obs: copied(read(obs))
        self._obs: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env.

        Raises:
            DataProblem: The observation is outside of the contract.
        """
        if seed is not None and not isinstance(self.env, AsGymnasium):  # a BaseEnv seeds its own spaces
            seed_spaces(self.env, seed)
        obs, info = self.env.reset(seed=seed, options=options)
        try:
            self._obs = obs = self._read(obs)
            return obs, own_info(info)
        except DataProblem as problem:
            raise DataProblem(str(problem), self._env_id) from problem

    def step(self, action: object) -> Step:
        """Make one step.

        Raises:
            DataProblem: The observation, the reward or the info is outside of the contract.
        """
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
            if info:
                info = own_info(info)
                if is_abnormal(info):
                    obs, reward = of_abnormal(obs, reward, self._obs)
            elif info is None:
                info = {}
            if terminated or truncated:
                check_end(terminated, truncated)
            paid = reward if type(reward) is float else scalar(reward)
            self._obs = obs = self._read(obs)
            return obs, paid, terminated, truncated, info
        except DataProblem as problem:
            raise DataProblem(str(problem), self._env_id) from problem


def _is_of_arrays(space: AnySpace) -> bool:
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return all(map(_is_of_arrays, space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces))
    return is_array_space(space) or isinstance(space, spaces.Discrete)


MODES = ("vector_entry_point", "sync", "async")


def build_vector_env(
    env_fn: Sequence[Callable[[], Any]],
    ref: object,
    mode: str | None,
    shared_memory: bool,
    seeds: Sequence[int | None] = (),
) -> VectorEnv:
    """Create a vector env with one env per function; observations of vector envs built here must be copied.

    Args:
        env_fn: Env functions: :class:`DingEnvWrapper`, another :class:`BaseEnv`, Gymnasium envs, or one that creates a
            whole ``VectorEnv``.
        ref: Env created by the first function.
        mode: ``vector_entry_point`` (the vector env of the env class, or that registered for ``env_id``), ``sync``,
            ``async``, or ``None``: ``vector_entry_point`` if available and usable, else ``sync``.
        shared_memory: Whether ``async`` transfers observations through shared memory.
        seeds: Seeds of the envs, if known; the processes of ``async`` create their env with them.

    Raises:
        ValueError: The mode is unknown, or does not support the envs.
        TypeError: The envs have another type.
    """
    if mode is not None and mode not in MODES:
        raise ValueError(f"env.manager.vectorization_mode {mode!r} is unknown.{did_you_mean(mode, MODES)}")
    if isinstance(ref, VectorEnv):
        return _given(env_fn, ref, mode)
    if isinstance(ref, DingEnvWrapper):
        if mode in (None, "vector_entry_point") and isinstance(ref, HasVectorForm):
            return ref.make_vector_env(len(env_fn))
        obstacle = _entry_point_obstacle(ref)
        if mode == "vector_entry_point" and obstacle:
            raise ValueError(f"env.manager.vectorization_mode 'vector_entry_point' cannot be used: {obstacle}")
        if mode == "vector_entry_point" or (mode is None and not obstacle):
            return _by_entry_point(ref, len(env_fn))
        make: Callable[[Any], Any] = _inner_env
    elif mode == "vector_entry_point":
        raise ValueError("env.manager.vectorization_mode 'vector_entry_point' needs envs that are made from env.env_id")
    elif isinstance(ref, BaseEnv):
        make = AsGymnasium
    elif isinstance(ref, gymnasium.Env):
        make = _as_it_is
    else:
        raise TypeError(f"env manager 'gym_vector' needs gymnasium envs or a BaseEnv, not {type(ref).__name__}")
    # A partial over module functions can be sent to the processes of an async vector env.
    env_fn = [partial(_in_contract, make, fn, env_id) for env_id, fn in enumerate(env_fn)]
    if mode == "async":
        known = [*seeds, *[None] * (len(env_fn) - len(seeds))]
        env_fn = [partial(_OwnGenerators, fn, seed, os.getpid()) for fn, seed in zip(env_fn, known)]
        return AsyncVectorEnv(env_fn, shared_memory, copy=False, autoreset_mode=AutoresetMode.DISABLED)
    return SyncVectorEnv(env_fn, copy=False, autoreset_mode=AutoresetMode.DISABLED)


def _given(env_fn: Sequence[Callable[[], Any]], ref: VectorEnv, mode: str | None) -> VectorEnv:
    if mode is not None:
        raise ValueError(
            f"env.manager.vectorization_mode {mode!r} is for single envs; the env function makes a VectorEnv"
        )
    if len(env_fn) not in (1, ref.num_envs):
        raise ValueError(f"{len(env_fn)} env functions, but the first made a VectorEnv of {ref.num_envs} envs")
    return with_games(ref)


def _inner_env(env: DingEnvWrapper) -> object:
    return env.gym_env


def _as_it_is(env: AnyEnv) -> gymnasium.Env[Any, Any]:
    return env


def _in_contract(make: Callable[[Any], Any], fn: Callable[[], Any], env_id: int) -> InContract:
    return InContract(make(fn()), env_id)


def _entry_point_obstacle(ref: DingEnvWrapper) -> str:
    env_id = ref.env_id
    if env_id is None:
        return "the envs are not made from env.env_id"
    if find_spec(env_id).vector_entry_point is None:
        return f"{env_id} has no vectorised form"
    if not ref.wraps_plainly:
        return "env.env_wrapper asks for wrappers around single envs"
    return ""


def _by_entry_point(ref: DingEnvWrapper, num_envs: int) -> VectorEnv:
    spec = find_spec(str(ref.env_id))
    return with_games(gymnasium.make_vec(spec, num_envs, vectorization_mode="vector_entry_point", **ref.env_kwargs))


RowReset: TypeAlias = Callable[[np.ndarray, Sequence[int | None] | None], Any]
"""Resets the rows of a mask, with the given seeds (one per env) if any; returns all observations."""


def row_resetter(venv: VectorEnv) -> RowReset | None:
    """Return a function that resets the rows of a mask and returns all observations, if the env supports it.

    An env supports it by a method ``reset_rows(mask)`` or ``reset_rows(mask, seeds)``. Gymnasium's vectorised CartPole
    has none, but its rows are independent columns of one state array.
    """
    if hasattr(venv, "reset_rows"):
        reset_rows = venv.reset_rows
        return reset_rows if accepts(reset_rows, "seeds") else lambda mask, seeds: reset_rows(mask)
    if type(venv) is CartPoleVectorEnv:
        return partial(_reset_cartpole_rows, venv)
    return None


def rows_take_seeds(venv: VectorEnv) -> bool:
    """Return whether the function of :func:`row_resetter` accepts seeds."""
    if hasattr(venv, "reset_rows"):
        return accepts(venv.reset_rows, "seeds")
    return type(venv) is CartPoleVectorEnv


def _reset_cartpole_rows(venv: CartPoleVectorEnv, mask: np.ndarray, seeds: Sequence[int | None] | None) -> np.ndarray:
    rows = np.flatnonzero(mask)
    state: np.ndarray = venv.state  # type: ignore[assignment]
    if seeds is None:
        state[:, rows] = venv.np_random.uniform(venv.low, venv.high, size=(4, len(rows)))
    else:
        for row in rows.tolist():
            state[:, row] = np_random(seeds[row])[0].uniform(venv.low, venv.high, size=4)
    venv.steps[rows] = 0
    venv.prev_done[rows] = False
    return state.T.astype(np.float32)
