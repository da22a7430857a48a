"""Adapters between the APIs of Gymnasium and of the old gym."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from ding.data.env_batch import mark_truncated
from ding.envs.contract import Obs, own_info
from ding.envs.gymnasium_types import Step


class GymToGymnasiumWrapper(gymnasium.Env[Any, Any]):
    """Gymnasium env over an env of either API.

    The form of each result is detected: ``step`` may return 4 or 5 values, ``reset`` an observation or ``(observation,
    info)``. With 4 values, ``done`` is a truncation if ``info['TimeLimit.truncated']`` is set, otherwise a termination.
    A seed is passed to ``reset(seed=...)`` if the env supports it, otherwise to its ``seed`` method.

    Args:
        env: Env of Gymnasium, of gym, or with the same methods.
    """

    def __init__(self, env: object) -> None:
        self.env: Any = env
        self.observation_space = convert_space(getattr(env, "observation_space", None))
        self.action_space = convert_space(getattr(env, "action_space", None))
        self.metadata = getattr(env, "metadata", None) or {}
        self.render_mode = getattr(env, "render_mode", None)
        if self.render_mode is None and not isinstance(env, gymnasium.Env) and "rgb_array" in _modes(self.metadata):
            # The old API takes the render mode with each call; see ``render`` below.
            self.render_mode = "rgb_array"
        self._waiting_seed: int | None = None
        # A wrapper may accept any keyword and pass it to an env that does not.
        resets = [getattr(one, "reset", None) for one in (env, self.unwrapped)]
        self._takes_seed = all(accepts(reset, "seed") for reset in resets)

    @property
    def unwrapped(self) -> Any:
        """Innermost env."""
        return getattr(self.env, "unwrapped", self.env)

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """Spec of the wrapped env; ``None`` if it has none."""
        return getattr(self.env, "spec", None)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Bounds of the reward; infinite if the env does not define them."""
        return getattr(self.env, "reward_range", (-float("inf"), float("inf")))

    def seed(self, seed: int) -> None:
        """Set the seed of the next reset."""
        self._waiting_seed = seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the env through its API."""
        if seed is None:
            seed, self._waiting_seed = self._waiting_seed, None
        super().reset(seed=seed)
        kwargs: dict[str, Any] = {"options": options} if options else {}
        if seed is not None and self._takes_seed:
            kwargs["seed"] = seed
        elif seed is not None and hasattr(self.env, "seed"):
            self.env.seed(seed)
        elif seed is not None and isinstance(self.unwrapped, gymnasium.Env):
            gymnasium.Env.reset(self.unwrapped, seed=seed)  # its ``np_random``
        return split_reset(self.env.reset(**kwargs), getattr(self.env, "observation_space", None))

    def step(self, action: object) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the env and return 5 values."""
        result: tuple[Any, Any, bool, bool, dict[str, Any]] = self.env.step(action)
        if len(result) == 5:
            return result
        obs, reward, done, info = result
        truncated = bool(done and isinstance(info, dict) and info.get("TimeLimit.truncated", False))
        return obs, reward, bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        """Render the env through its API."""
        if isinstance(self.env, gymnasium.Env):
            return self.env.render()
        return self.env.render(mode="rgb_array")

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def __repr__(self) -> str:
        return f"<GymToGymnasiumWrapper{self.env!r}>"


class OldGymView:
    """View of a Gymnasium env for wrappers of gym before 0.26: bare observations, and steps of 4 values.

    Its spaces are those of the package ``gym``, which the wrapper has imported.

    Args:
        env: Env of Gymnasium.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env
        gym = sys.modules.get("gym", gymnasium)
        self.observation_space = convert_space(env.observation_space, gym.spaces)
        self.action_space = convert_space(env.action_space, gym.spaces)
        self.reward_range = getattr(env, "reward_range", (-float("inf"), float("inf")))
        self._waiting_seed: int | None = None

    @property
    def unwrapped(self) -> Any:
        """Innermost env."""
        return self.env.unwrapped

    def seed(self, seed: int | None = None) -> list[Any]:
        """Set the seed of the next reset."""
        self._waiting_seed = seed
        return [seed]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Obs:
        """Reset the env and return the observation."""
        seed, self._waiting_seed = self._waiting_seed if seed is None else seed, None
        return self.env.reset(seed=seed, options=options)[0]

    def step(self, action: object) -> tuple[Any, Any, bool, dict[str, Any]]:
        """Step the env and return 4 values; the info reports whether a time limit ended the episode."""
        made: tuple[Any, Any, bool, dict[str, Any]] = in_old_form(self.env.step(action))
        return made

    def render(self, *args: Any, **kwargs: Any) -> object:
        """Return the current frame."""
        return self.env.render()

    def close(self) -> None:
        """Close the env."""
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)


def in_old_form(result: Step) -> tuple[Any, ...]:
    """Convert a step of 5 values to 4; the info reports whether a time limit ended the episode."""
    obs, reward, terminated, truncated, info = result
    info = own_info(info)
    mark_truncated(info, bool(truncated and not terminated))
    return obs, reward, bool(terminated or truncated), info


def _modes(metadata: Mapping[str, Any]) -> Sequence[str]:
    return metadata.get("render_modes") or metadata.get("render.modes") or ()


def accepts(function: Callable[..., Any] | None, keyword: str) -> bool:
    """Return whether a function accepts this keyword argument; False if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def resets_as_gymnasium(env: gymnasium.Env[Any, Any]) -> bool:
    """Return whether ``reset`` of an env has Gymnasium's signature; gym 0.22 to 0.25 also accept a seed."""
    named = inspect.signature(env.reset).parameters
    return accepts(env.reset, "seed") and accepts(env.reset, "options") and "return_info" not in named


def split_reset(result: object, space: Any = None) -> tuple[Any, dict[str, Any]]:
    """Return ``(obs, info)`` from the result of a reset of either API.

    Args:
        result: Return value of ``reset``.
        space: Observation space, which distinguishes an observation of two parts, the second being a dict, from a pair
            of observation and info.
    """
    if isinstance(result, tuple) and len(result) == 2 and result[1] is None:
        return result[0], {}  # no part of an observation is None
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        parts = getattr(space, "spaces", None)
        inner = getattr(parts[1], "spaces", None) if isinstance(parts, (tuple, list)) and len(parts) == 2 else None
        is_bare = isinstance(inner, Mapping) and inner.keys() == result[1].keys() and not _is_pair(result[0])
        return (result, {}) if is_bare else result
    return result, {}


def _is_pair(obs: object) -> bool:
    return isinstance(obs, (tuple, list)) and len(obs) == 2 and isinstance(obs[1], dict)


def convert_space(space: Any, to: Any = gymnasium.spaces) -> Any:
    """Convert a space between the old gym and Gymnasium; unknown spaces are returned unchanged.

    Args:
        space: Space of either package, or ``None``.
        to: Module of the target spaces, ``gymnasium.spaces`` or ``gym.spaces``.
    """
    if space is None or isinstance(space, to.Space):
        return space
    kind = type(space).__name__
    if kind == "Box":
        return to.Box(np.asarray(space.low), np.asarray(space.high), dtype=space.dtype.type)
    if kind == "Discrete":
        return to.Discrete(int(space.n), **_start(space))
    if kind == "MultiDiscrete":
        return to.MultiDiscrete(space.nvec, **_start(space))
    if kind == "MultiBinary":
        return to.MultiBinary(space.n)
    if kind == "Dict":
        return to.Dict({name: convert_space(value, to) for name, value in space.spaces.items()})
    if kind == "Tuple":
        return to.Tuple([convert_space(value, to) for value in space.spaces])
    return space


def _start(space: object) -> dict[str, Any]:
    """Return the start of a space if it is not 0; not all versions of gym support it."""
    start = getattr(space, "start", 0)
    return {"start": start} if np.any(start) else {}


def is_of_gym(kind: type) -> bool:
    """Return whether a class belongs to the package ``gym``, or is derived from one of its classes."""
    return any(base.__module__.partition(".")[0] == "gym" for base in kind.__mro__)
