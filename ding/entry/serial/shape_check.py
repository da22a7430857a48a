"""Shapes in the config that contradict the env, reported before a network meets them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np
import torch
from gymnasium import spaces

from ding.config import ConfigValueError
from ding.data.roles import EnvManager
from ding.envs.env_manager import EnvDataError
from ding.model import PDQN, DiscreteQAC
from ding.model.template.q_model import QModel
from ding.policy import Policy

logger = logging.getLogger("ding.entry")


class HasSpaces(Protocol):
    """An env, or an env manager."""

    @property
    def observation_space(self) -> Any:
        """The gymnasium space of the observations of one env."""

    @property
    def action_space(self) -> Any:
        """The gymnasium space of the actions of one env."""


def check_model_shapes(
    policy_cls: type[Policy], model_cfg: Mapping[str, Any], env: HasSpaces, num_players: int = 1
) -> None:
    """Compare ``policy.model`` with the spaces of the env.

    Only a network of ours is judged: what the keys mean to a policy or model of the user's is not known here.

    Args:
        policy_cls: the policy class; its ``default_model`` shows whose network it is.
        model_cfg: ``cfg.policy.model``.
        env: an env or env manager.
        num_players: of a game; with several, the observation space may be that of all together, one after the other,
            and actions are not compared.

    A network with fewer outputs than there are actions is warned about: it takes the first ones.

    Raises:
        ConfigValueError: ``obs_shape`` or ``action_shape`` does not fit.
    """
    if not is_our_network(policy_cls, model_cfg):
        return
    wanted, found = model_cfg.get("obs_shape"), env.observation_space
    agents = _agent_num(model_cfg, env.action_space)
    if isinstance(found, spaces.Box) and is_shape(wanted):
        # What one agent, or player, sees, where there are several.
        together = agents if num_players == 1 else num_players
        seen = found.shape[1:] if together is not None and found.shape[:1] == (together,) else found.shape
        if as_tuple(wanted) != seen:
            raise ConfigValueError(f"policy.model.obs_shape is {wanted}, but observations of the env are {found.shape}")
    wanted, found = model_cfg.get("action_shape"), env.action_space
    count = _action_shape(found, agents) if num_players == 1 else None
    if count is not None and is_shape(wanted) and as_tuple(wanted) != count:
        if isinstance(found, spaces.Box):
            raise ConfigValueError(f"policy.model.action_shape is {wanted}, but actions of the env are {count}")
        shown = count[0] if len(count) == 1 else list(count)
        if isinstance(found, spaces.Discrete) and as_tuple(wanted) < count:
            logger.warning("policy.model.action_shape is %s: of %d actions the policy takes the first", wanted, shown)
            return
        raise ConfigValueError(f"policy.model.action_shape is {wanted}, but the env has {shown} actions")


def check_observations(policy_cls: type[Policy], model_cfg: Mapping[str, Any], env: EnvManager) -> None:
    """Compare the first observations of the envs with the space that they declare.

    Only where a network of ours reads them. Dimensions in front, as for the players of a game, and other dtypes, which
    are converted, are the env's affair.

    Args:
        policy_cls, model_cfg: as in :func:`check_model_shapes`.
        env: an env manager; one that is not launched yet is left alone.

    Raises:
        EnvDataError: an observation does not have the shape of the space.
    """
    space = env.observation_space
    if env.closed or not is_our_network(policy_cls, model_cfg) or not isinstance(space, spaces.Box) or not space.shape:
        return
    manager: Any = env
    ready = manager.ready_obs
    # Managers of the v2 interface have one array, whose rows are in the order of their ids.
    for env_id, obs in ready.items() if isinstance(ready, Mapping) else zip(manager.ready_obs_id, ready):
        if isinstance(obs, (np.ndarray, torch.Tensor)) and tuple(obs.shape[-len(space.shape) :]) != space.shape:
            found = f"shape {tuple(obs.shape)} dtype {str(obs.dtype).removeprefix('torch.')}"
            raise EnvDataError(
                f"Env {env_id} returned bad data: observation {found} at its reset, expected shape {space.shape} dtype "
                f"{space.dtype} as in its observation_space",
                env_id,
            )


def check_action_kind(policy_type: str, model: object, env: HasSpaces) -> None:
    """Compare the kind of the actions of a network with those of the env: discrete, continuous, or a hybrid of both.

    Args:
        policy_type: ``policy.type``, for the message.
        model: the network; only one of ours says which actions it has.
        env: an env or env manager.

    Raises:
        ConfigValueError: the kinds differ, or the sizes of a hybrid action do.
    """
    wanted, space = _action_kind_of(model), env.action_space
    found = _space_kind(space)
    if wanted is None or found is None:
        return
    if wanted != found:
        raise ConfigValueError(
            f"policy.type {policy_type!r} has {wanted} actions here (network {type(model).__name__}), but the env has "
            f"{found} ones: {space}; choose a policy for {found} actions, or another env"
        )
    shape = getattr(model, "action_shape", None)
    if wanted == "hybrid" and isinstance(space, spaces.Dict) and isinstance(shape, Mapping):
        for name, part in zip(("action_type", "action_args"), ("action_type_shape", "action_args_shape")):
            size = _action_shape(space.spaces[name], None) if name in space.spaces else None
            if size is not None and is_shape(shape[part]) and as_tuple(shape[part]) != size:
                raise ConfigValueError(
                    f"policy.model.action_shape.{part} is {shape[part]}, but {name} of the env is {space.spaces[name]}"
                )


_KINDS = {
    "regression": "continuous",
    "reparameterization": "continuous",
    "continuous": "continuous",
    "hybrid": "hybrid",
    "discrete": "discrete",
}


def _action_kind_of(model: object) -> str | None:
    if not type(model).__module__.startswith("ding."):
        return None
    if isinstance(model, (QModel, DiscreteQAC)):
        return "discrete"
    return "hybrid" if isinstance(model, PDQN) else _KINDS.get(str(getattr(model, "action_space", None)))


def _space_kind(space: object) -> str | None:
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return "discrete"
    if isinstance(space, spaces.Box):
        return "continuous"
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        kinds = {_space_kind(part) for part in parts}
        return "hybrid" if kinds == {"discrete", "continuous"} else None
    return None


def is_our_network(policy_cls: type[Policy], model_cfg: Mapping[str, Any]) -> bool:
    """Whether the network is one of ours, so that its keys are known here."""
    default_model = getattr(policy_cls, "default_model", None)
    return getattr(default_model, "__module__", "").startswith("ding.") and "type" not in model_cfg


def _agent_num(model_cfg: Mapping[str, Any], action_space: object) -> int | None:
    """How many agents there are; ``None`` where there is one."""
    if "agent_obs_shape" in model_cfg and isinstance(action_space, spaces.MultiDiscrete):
        # Networks that all agents share, which need not know.
        return len(action_space.nvec)
    return model_cfg.get("agent_num", model_cfg.get("n_agent"))


def _action_shape(space: spaces.Space[Any], agent_num: int | None) -> tuple[int, ...] | None:
    """The actions of one agent, where there are several; of the env otherwise."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        counts = tuple(int(n) for n in space.nvec)
        return counts[:1] if agent_num == len(counts) and len(set(counts)) == 1 else counts
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return tuple(space.shape)
    return None


def is_shape(value: object) -> TypeGuard[int | Sequence[int]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(isinstance(one, int) for one in value)
    return isinstance(value, int)


def as_tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)
