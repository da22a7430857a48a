"""Comparison of an env manager's results with a plain loop over the same envs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from ding.data import BaseEnvTimestep, TimestepBatch
from ding.data.roles import EnvManager
from ding.envs.testing.generated import Action, AnySpace, Emitted, GeneratedEnv, GeneratedEnvSpec, Obs, make_env


class ReferenceLoop:
    """Runs the env of a spec in a plain loop, with a reset at the end of each episode.

    Args:
        spec: Spec of the env.
        seed: Seed of the first reset.

    Attributes:
        obs: Observation that waits for an action.
        env: The env.
    """

    def __init__(self, spec: GeneratedEnvSpec, seed: int | None = None) -> None:
        self.env = GeneratedEnv(spec)
        self._spec = spec
        self._return = 0.0
        self._counts = [0, 0]
        self.obs = deepcopy(self.env.reset(seed=seed)[0])

    @property
    def where(self) -> str:
        """Return the number of the episode and of its steps, for messages."""
        return f"episode {self._counts[0]}, step {self._counts[1]}"

    def reset(self) -> None:
        """Start the next episode."""
        self._return = 0.0
        self._counts = [self._counts[0] + 1, 0]
        self.obs = deepcopy(self.env.reset()[0])

    def step(self, action: object) -> Emitted:
        """Make one step; its info has the additions of a manager, and is never ``None``."""
        self.env.step(action)
        emitted = self.env.emitted[-1]
        self._counts[1] += 1
        self._return += float(np.asarray(emitted.reward).item())
        info = dict(emitted.info or {})
        done = emitted.terminated or emitted.truncated
        if done:
            info["eval_episode_return"] = self._return
        if emitted.truncated and not emitted.terminated:
            info["TimeLimit.truncated"] = True
        if done:
            self.reset()
        else:
            self.obs = deepcopy(emitted.obs)
        return emitted._replace(info=info)


def reference_rollout(spec: GeneratedEnvSpec, actions: Iterable[Any], seed: int | None = None) -> list[Emitted]:
    """Return the results of the env of a spec for these actions in a plain loop.

    Args:
        spec: Spec of the env.
        actions: Elements of its action space.
        seed: Seed of the first reset.
    """
    loop = ReferenceLoop(spec, seed)
    return [loop.step(action) for action in actions]


def check_manager(
    make_manager: Callable[[Sequence[Callable[[], Any]]], EnvManager],
    spec: GeneratedEnvSpec,
    num_envs: int = 2,
    num_steps: int = 8,
    seed: int = 0,
) -> None:
    """Run envs of a spec in an env manager, and compare all results with plain loops.

    Observations, rewards, ends, infos and seeds must equal those of the envs, and returned data must not change until
    the end. An env with an abnormal step is reset, as by collectors.

    Args:
        make_manager: Creates the manager from env functions; it is launched and closed here.
        spec: Spec of the envs.
        num_envs: Number of envs; env *i* gets the seed ``seed + i``.
        num_steps: Number of vector steps.
        seed: Seed of envs and actions.

    Raises:
        AssertionError: There is a difference; the message gives its kind, env and step.
    """
    manager = make_manager([partial(make_env, spec)] * num_envs)
    try:
        manager.seed(seed)
        manager.launch()
        _Comparison(manager, spec, num_envs, seed).run(num_steps)
    finally:
        manager.close()


class _Comparison:
    def __init__(self, manager: EnvManager, spec: GeneratedEnvSpec, num_envs: int, seed: int) -> None:
        self._manager = manager
        self._spec = spec
        self._loops = [ReferenceLoop(spec, seed + env_id) for env_id in range(num_envs)]
        self._space = deepcopy(manager.action_space)
        self._space.seed(seed)
        self._sent: dict[int, Any] = {}
        # Returned data, with its expected value at the end.
        self._kept: list[tuple[str, Any, Any]] = []
        # A vector env has infos only at the ends of episodes.
        self._all_infos = not getattr(manager, "steps_together", False)

    def run(self, num_steps: int) -> None:
        for _ in range(num_steps):
            ready = self._manager.ready_obs
            for env_id, obs in ready.items():
                self._compare_obs(f"env {env_id}, {self._loops[env_id].where}, ready_obs", obs, self._loops[env_id].obs)
            actions = {env_id: self._space.sample() for env_id in ready}
            self._sent.update(actions)
            timesteps = self._manager.step(deepcopy(actions))
            self._compare_steps(timesteps)
        for name, found, emitted in self._kept:
            problem = differs(found, emitted, self._spec.observation_space)
            if problem:
                raise AssertionError(f"{name} changed after it was handed out: {problem}")

    def _compare_obs(self, name: str, found: Obs, emitted: Obs) -> None:
        problem = differs(found, emitted, self._spec.observation_space)
        if problem:
            raise AssertionError(f"{name}: {problem}")
        self._kept.append((name, found, deepcopy(emitted)))

    def _compare_steps(self, timesteps: Mapping[int, BaseEnvTimestep]) -> None:
        for position, (env_id, timestep) in enumerate(list(timesteps.items())):
            loop = self._loops[env_id]
            name = f"env {env_id}, {loop.where} and one"
            emitted = loop.step(env_action(self._sent.pop(env_id), self._spec))
            info: dict[str, Any] = timestep.info
            cut = emitted.truncated and not emitted.terminated
            self._compare_obs(f"{name}, obs", timestep.obs, emitted.obs)
            paid = float(np.asarray(emitted.reward).item())
            expected: list[tuple[str, Any, Any]] = [
                ("reward", float(np.asarray(timestep.reward).item()), paid),
                ("done", bool(timestep.done), emitted.terminated or emitted.truncated),
                ("truncated", bool(info.get("TimeLimit.truncated", False)), cut),
            ]
            if isinstance(timesteps, TimestepBatch):
                column = np.asarray(timesteps.reward)
                expected += [
                    ("reward column", (column.dtype, column.shape[1:]), (np.dtype(np.float32), (1,))),
                    ("reward in the column", float(column[position, 0]), paid),
                    ("truncated column", bool(timesteps.truncated[position]), cut),
                ]
            if self._all_infos or timestep.done:
                expected.append(("info", plain_info(info), plain_info(emitted.info or {})))
            for what, found, right in expected:
                if found != right:
                    raise AssertionError(f"{name}: {what} is {found!r}, the env gave {right!r}")
            if (emitted.info or {}).get("abnormal"):
                self._manager.reset({env_id: None})
                if not timestep.done:
                    loop.reset()


def env_action(action: Action, spec: GeneratedEnvSpec) -> object:
    """Convert an action of the manager's action space, in which ints count from 0, to the env's (not for a BaseEnv)."""
    return action if spec.api == "ding" else _counted(action, spec.action_space)


def _counted(action: Action, space: AnySpace) -> object:
    if isinstance(space, spaces.Dict):
        return {key: _counted(action[key], part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_counted(value, part) for value, part in zip(action, space.spaces))
    return action + space.start if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) else action


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an info to numbers; falsy values count as missing."""
    values = {key: np.asarray(value).item() for key, value in info.items()}
    return {key: value for key, value in values.items() if value or key not in ("TimeLimit.truncated", "abnormal")}


def differs(found: Obs, emitted: Obs, space: AnySpace, path: str = "") -> str:
    """Describe the difference between a manager's observation and the env's; empty if there is none.

    A Box has the dtype of its space, with float64 and float16 as float32; numbers and strings have the env's values.

    Args:
        found: Observation of the manager.
        emitted: Observation of the env, in any form of the contract.
        space: Observation space of the env.
        path: Keys that lead to the observation.
    """
    where = f" at {path!r}" if path else ""
    if isinstance(space, spaces.Dict):
        if not isinstance(found, Mapping) or set(found) != set(space.spaces):
            return f"found {found!r}{where}, expected the keys {list(space.spaces)}"
        parts: Iterable[tuple[Any, Any, AnySpace, str]] = [
            (found[key], emitted[key], part, f"{path}.{key}" if path else str(key))
            for key, part in space.spaces.items()
        ]
        return next(filter(None, (differs(*part) for part in parts)), "")
    if isinstance(space, (spaces.Tuple, spaces.Sequence)) and isinstance(emitted, (tuple, list)):
        if not isinstance(found, (tuple, list)) or len(found) != len(emitted):
            return f"found {found!r}{where}, the env gave {emitted!r}"
        inner = space.spaces if isinstance(space, spaces.Tuple) else [space.feature_space] * len(emitted)
        parts = [(one, other, part, f"{path}[{i}]") for i, (one, other, part) in enumerate(zip(found, emitted, inner))]
        return _first_difference(parts)
    if isinstance(space, spaces.Graph):
        return _graph_differs(found, emitted, where)
    if isinstance(space, spaces.OneOf):
        same = int(found[0]) == int(emitted[0])
        return (
            differs(found[1], emitted[1], space.spaces[int(emitted[0])], f"{path}[1]") if same else f"found {found!r}"
        )
    if isinstance(space, spaces.Text):
        return "" if found == emitted else f"found {found!r}{where}, the env gave {emitted!r}"
    return _array_differs(found, emitted, space, where)


def _first_difference(parts: Iterable[tuple[Any, Any, AnySpace, str]]) -> str:
    return next(filter(None, (differs(*part) for part in parts)), "")


def _graph_differs(found: Obs, emitted: Obs, where: str) -> str:
    same = all(
        (one is None) == (other is None) and (one is None or np.array_equal(one, other))
        for one, other in zip(found, emitted)
    )
    return "" if same else f"found {found!r}{where}, the env gave {emitted!r}"


def _array_differs(found: Obs, emitted: Obs, space: AnySpace, where: str) -> str:
    array, is_float = np.asarray(found), space.dtype is not None and space.dtype.kind == "f"
    if is_float and not space.shape:
        array = array.astype(np.float32)  # a row of a column is a Python number
    # Envs with the API of Gymnasium or gym use float32 instead of other floats.
    dtype = array.dtype if is_float and array.dtype == np.float32 else space.dtype
    if isinstance(space, spaces.Box) and space.shape and array.dtype != dtype:
        return f"found dtype {array.dtype}{where}, expected {dtype}"
    if array.shape != space.shape or not np.array_equal(array, np.asarray(emitted).astype(dtype)):
        return f"found {found!r}{where}, the env gave {emitted!r}"
    return ""
