"""Wrappers that support the API of Gymnasium and that of gym before 0.26.

These wrappers are written for Gymnasium. Around a gym env, whose ``reset`` returns only an observation and whose
``step`` returns 4 values, they return these forms too, like a gym wrapper.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from ding.envs.env_wrappers._gym_api import GymToGymnasiumWrapper, convert_space, in_old_form, resets_as_gymnasium
from ding.envs.gymnasium_types import AnyEnv, AnyWrapper, Reset, Step


def _in_api_of_env(method: Callable[..., Any], is_step: bool) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: "EitherApi", *args: Any, **kwargs: Any) -> object:
        result = method(self, *args, **kwargs)
        if not self.old_api:
            return result
        return in_old_form(result) if is_step else result[0]

    return call


class EitherApi(AnyWrapper):
    """Wrapper around an env of either API. Subclasses of this project use the Gymnasium API internally.

    Args:
        env: Env of Gymnasium or of gym.

    Attributes:
        old_api: Whether ``reset`` and ``step`` return the gym forms.
    """

    def __init__(self, env: AnyEnv) -> None:
        self.old_api = not isinstance(env, gymnasium.Env) or not resets_as_gymnasium(env)
        if isinstance(env, EitherApi):
            self.old_api = env.old_api
        super().__init__(GymToGymnasiumWrapper(env) if self.old_api else env)

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Observation space; around a gym env a gym space, if gym is imported."""
        return self._space_of_api(super().observation_space)

    @observation_space.setter
    def observation_space(self, space: gymnasium.Space[Any]) -> None:
        gymnasium.Wrapper.observation_space.fset(self, space)  # type: ignore[attr-defined]

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Action space; around a gym env a gym space, if gym is imported."""
        return self._space_of_api(super().action_space)

    @action_space.setter
    def action_space(self, space: gymnasium.Space[Any]) -> None:
        gymnasium.Wrapper.action_space.fset(self, space)  # type: ignore[attr-defined]

    def _space_of_api(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        gym = sys.modules.get("gym") if self.old_api else None
        return space if gym is None else convert_space(space, gym.spaces)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.partition(".")[0] == "ding":
            for name in {"reset", "step"} & vars(cls).keys():
                setattr(cls, name, _in_api_of_env(vars(cls)[name], name == "step"))


class PlainWrapper(EitherApi):
    """Wrapper without effect, for subclasses that override a part."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env."""
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Step:
        """Step the env."""
        return self.env.step(action)


class ObsWrapper(EitherApi, gymnasium.ObservationWrapper[Any, Any, Any]):
    """Applies the method ``observation`` of a subclass to observations."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self.observation(obs), info

    def step(self, action: object) -> Step:
        """Step the env."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self.observation(obs), reward, terminated, truncated, info


class ActWrapper(EitherApi, gymnasium.ActionWrapper[Any, Any, Any]):
    """Applies the method ``action`` of a subclass to actions."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env."""
        return self.env.reset(seed=seed, options=options)

    def step(self, action: object) -> Step:
        """Step the env."""
        return self.env.step(self.action(action))
