"""Shapes in the config that contradict the env, reported before a network meets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard

from gymnasium import spaces

from ding.config import ConfigValueError
from ding.policy import Policy


class HasSpaces(Protocol):
    """An env, or an env manager."""

    @property
    def observation_space(self) -> Any:
        """The gymnasium space of the observations of one env."""

    @property
    def action_space(self) -> Any:
        """The gymnasium space of the actions of one env."""


def check_model_shapes(policy_cls: type[Policy], model_cfg: Mapping[str, Any], env: HasSpaces) -> None:
    """Compare ``policy.model`` with the spaces of the env.

    Only a network of ours is judged: what the keys mean to a policy or model of the user's is not known here.

    Args:
        policy_cls: The policy class; its ``default_model`` shows whose network it is.
        model_cfg: ``cfg.policy.model``.
        env: An env or env manager.

    Raises:
        ConfigValueError: ``obs_shape`` or ``action_shape`` does not fit.
    """
    if not is_our_network(policy_cls, model_cfg):
        return
    wanted, found = model_cfg.get("obs_shape"), env.observation_space
    if isinstance(found, spaces.Box) and is_shape(wanted) and as_tuple(wanted) != found.shape:
        raise ConfigValueError(f"policy.model.obs_shape is {wanted}, but observations of the env are {found.shape}")
    wanted, found = model_cfg.get("action_shape"), env.action_space
    count = _action_shape(found, model_cfg.get("agent_num"))
    if count is not None and is_shape(wanted) and as_tuple(wanted) != count:
        shown = count[0] if len(count) == 1 else list(count)
        raise ConfigValueError(f"policy.model.action_shape is {wanted}, but the env has {shown} actions")


def is_our_network(policy_cls: type[Policy], model_cfg: Mapping[str, Any]) -> bool:
    """Whether the network is one of ours, so that its keys are known here."""
    default_model = getattr(policy_cls, "default_model", None)
    return getattr(default_model, "__module__", "").startswith("ding.") and "type" not in model_cfg


def _action_shape(space: spaces.Space[Any], agent_num: int | None) -> tuple[int, ...] | None:
    """The actions of one agent, where there are several; of the env otherwise."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        counts = tuple(int(n) for n in space.nvec)
        return counts[:1] if agent_num == len(counts) and len(set(counts)) == 1 else counts
    return None


def is_shape(value: object) -> TypeGuard[int | Sequence[int]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(isinstance(one, int) for one in value)
    return isinstance(value, int)


def as_tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)
