"""Wrappers by name, and the shapes after wrapping."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium

# These register the wrappers.
from ding.envs.env_wrappers import _action, _episode, _norm, _observation  # noqa: F401
from ding.envs.gymnasium_types import AnyWrapper
from ding.utils import ENV_WRAPPER_REGISTRY

Shape: TypeAlias = int | Sequence[int]

_UNREGISTERED = {
    cls.__name__: cls for cls in (_observation.TransposeWrapper, _episode.TimeLimitWrapper, _observation.FlatObsWrapper)
}


def create_env_wrapper(env: gymnasium.Env[Any, Any], env_wrapper_cfg: Mapping[str, Any]) -> AnyWrapper:
    """Wrap ``env`` according to a config.

    Args:
        env: Env to wrap.
        env_wrapper_cfg: ``type``, the registered name; ``kwargs`` (optional), arguments of the wrapper;
            ``import_names`` (optional).

    Raises:
        KeyError: The wrapper is unknown.
    """
    name = ENV_WRAPPER_REGISTRY.type_of(env_wrapper_cfg)
    wrapper: AnyWrapper = ENV_WRAPPER_REGISTRY.build(name, env, **env_wrapper_cfg.get("kwargs", {}))
    return wrapper


def update_shape(
    obs_shape: Shape, act_shape: Shape, rew_shape: Shape, wrapper_names: Iterable[str]
) -> tuple[Any, Any, Any]:
    """Return the shapes of observation, action and reward after these wrappers.

    Args:
        obs_shape: Shape before wrapping.
        act_shape: Shape before wrapping.
        rew_shape: Shape before wrapping.
        wrapper_names: Registered names or class names; empty ones are skipped.

    Raises:
        KeyError: A wrapper is unknown.
    """
    by_class_name = {cls.__name__: cls for cls in ENV_WRAPPER_REGISTRY.values()} | _UNREGISTERED
    for name in filter(None, wrapper_names):
        wrapper = by_class_name.get(name) or ENV_WRAPPER_REGISTRY.get(name)
        if hasattr(wrapper, "new_shape"):
            obs_shape, act_shape, rew_shape = wrapper.new_shape(obs_shape, act_shape, rew_shape)
    return obs_shape, act_shape, rew_shape
