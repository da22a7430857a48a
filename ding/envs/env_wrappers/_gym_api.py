"""One API for envs of gymnasium and of the old gym."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np


class GymToGymnasiumWrapper(gymnasium.Env[Any, Any]):
    """A gymnasium env over an env of either API.

    Each result decides for itself: ``step`` may return 4 or 5 fields, ``reset`` an observation or ``(observation,
    info)``. A
    4-field ``done`` is a truncation when ``info['TimeLimit.truncated']`` says so, else a termination. A seed goes to
    ``reset(seed=...)`` where the env takes one, else to its ``seed`` method.

    Args:
        env: an env of gymnasium, of gym, or with the same methods.
    """

    def __init__(self, env: object) -> None:
        self.env: Any = env
        self.observation_space = convert_space(getattr(env, "observation_space", None))
        self.action_space = convert_space(getattr(env, "action_space", None))
        self.metadata = getattr(env, "metadata", None) or {}
        self.render_mode = getattr(env, "render_mode", None)
        if self.render_mode is None and not isinstance(env, gymnasium.Env) and "rgb_array" in _modes(self.metadata):
            # The old API takes the mode of rendering with each call; see ``render`` below.
            self.render_mode = "rgb_array"
        self._waiting_seed: int | None = None
        # A wrapper may take any keyword and hand it to an env that takes none.
        resets = [getattr(one, "reset", None) for one in (env, self.unwrapped)]
        self._takes_seed = all(accepts(reset, "seed") for reset in resets)

    @property
    def unwrapped(self) -> Any:
        """The innermost env."""
        return getattr(self.env, "unwrapped", self.env)

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """Spec of the env inside, ``None`` without one."""
        return getattr(self.env, "spec", None)

    @property
    def reward_range(self) -> Any:
        """Bounds of a reward, infinite when the env does not name them."""
        return getattr(self.env, "reward_range", (-float("inf"), float("inf")))

    def seed(self, seed: int) -> None:
        """Use ``seed`` once, at the next reset."""
        self._waiting_seed = seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset through the API that the env has."""
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
        return split_reset(self.env.reset(**kwargs))

    def step(self, action: object) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, always with 5 fields."""
        result = self.env.step(action)
        if len(result) == 5:
            return result
        obs, reward, done, info = result
        truncated = bool(done and isinstance(info, dict) and info.get("TimeLimit.truncated", False))
        return obs, reward, bool(done) and not truncated, truncated, info

    def render(self) -> Any:
        """Render through the API that the env has."""
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


def _modes(metadata: Mapping[str, Any]) -> Any:
    return metadata.get("render_modes") or metadata.get("render.modes") or ()


def accepts(function: Callable[..., Any] | None, keyword: str) -> bool:
    """Whether a function may be called with this keyword argument; of what has no signature nothing is known: no."""
    try:
        parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def resets_as_gymnasium(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether ``reset`` of an env has the signature of gymnasium; gym 0.22 to 0.25 knew the seed, too."""
    named = inspect.signature(env.reset).parameters
    return accepts(env.reset, "seed") and accepts(env.reset, "options") and "return_info" not in named


def split_reset(result: object) -> tuple[Any, dict[str, Any]]:
    """``(obs, info)`` from the result of a reset of either API."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        return result
    return result, {}


def convert_space(space: Any) -> Any:
    """The gymnasium space for a space of the old gym; gymnasium spaces and what is no known space pass unchanged."""
    if space is None or isinstance(space, gymnasium.Space):
        return space
    kind = type(space).__name__
    if kind == "Box":
        return gymnasium.spaces.Box(np.asarray(space.low), np.asarray(space.high), dtype=space.dtype)
    if kind == "Discrete":
        return gymnasium.spaces.Discrete(int(space.n))
    if kind == "MultiDiscrete":
        return gymnasium.spaces.MultiDiscrete(space.nvec)
    if kind == "MultiBinary":
        return gymnasium.spaces.MultiBinary(space.n)
    if kind == "Dict":
        return gymnasium.spaces.Dict({name: convert_space(value) for name, value in space.spaces.items()})
    if kind == "Tuple":
        return gymnasium.spaces.Tuple([convert_space(value) for value in space.spaces])
    return space
