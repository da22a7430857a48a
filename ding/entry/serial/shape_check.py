"""Checks of configured shapes against the env, before a network is used."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from ding.config import ConfigValueError
from ding.data.roles import EnvManager
from ding.envs.env.actions import ActionMapping, why_not
from ding.envs.env.spaces import tree_of
from ding.envs.env_manager import EnvDataError
from ding.policy import Policy
from ding.policy.action_kind import as_tuple, is_shape
from ding.utils import did_you_mean
from ding.utils.nested import iter_nested

logger = logging.getLogger("ding.entry")


class HasSpaces(Protocol):
    """An env, or an env manager."""

    @property
    def observation_space(self) -> object:
        """Return the Gymnasium space of the observations of one env."""

    @property
    def action_space(self) -> object:
        """Return the Gymnasium space of the actions of one env."""


def check_model_shapes(
    policy_cls: type[Policy], model_cfg: Mapping[str, Any], env: HasSpaces, num_players: int = 1, strict: bool = False
) -> None:
    """Compare ``policy.model`` with the spaces of the env.

    Only built-in networks are checked, because the keys may have other meanings in user-defined policies and models.

    Args:
        policy_cls: Policy class; its ``default_model`` shows whether the network is built in.
        model_cfg: ``cfg.policy.model``.
        env: Env or env manager.
        num_players: Number of players of a game; with several, the observation space may be that of all players
            combined, and actions are not compared.
        strict: Reject a network with fewer outputs than actions, but more than one. Otherwise it uses only the first
            actions, with a warning, as in DI-engine's Enduro config. More outputs are always rejected.

    Raises:
        ConfigValueError: ``obs_shape`` or ``action_shape`` does not match, or no network supports the action space.
    """
    check_obs_shape(policy_cls, model_cfg, env, num_players)
    if not is_our_network(policy_cls, model_cfg) or getattr(policy_cls, "has_latent_actions", False):
        return
    mapping = getattr(env, "action_mapping", None)
    if mapping is not None and mapping.kind is None:
        raise ConfigValueError(f"policy.model: {why_not(mapping.space)}")
    agents = _agent_num(model_cfg, env.action_space)
    wanted, found = model_cfg.get("action_shape"), env.action_space
    count = _action_shape(found, agents) if num_players == 1 else None
    if count is not None and is_shape(wanted) and as_tuple(wanted) != count:
        if isinstance(found, spaces.Box):
            raise ConfigValueError(f"policy.model.action_shape is {wanted}, but actions of the env are {count}")
        shown = count[0] if len(count) == 1 else list(count)
        if isinstance(found, spaces.Discrete) and len(as_tuple(wanted)) == 1 and 1 < as_tuple(wanted)[0] < count[0]:
            if strict:
                raise ConfigValueError(
                    f"policy.model.action_shape is {wanted}, but the env has {shown} actions, of which the policy "
                    "would take the first only (an error because of --strict)"
                )
            logger.warning("policy.model.action_shape is %s: of %d actions the policy takes the first", wanted, shown)
            return
        raise ConfigValueError(f"policy.model.action_shape is {wanted}, but the env has {shown} actions")


def check_obs_shape(
    policy_cls: type[Policy], model_cfg: Mapping[str, Any], env: HasSpaces, num_players: int = 1
) -> None:
    """Compare ``policy.model.obs_shape`` with the observation space; see check_model_shapes for the arguments.

    Raises:
        ConfigValueError: The shape does not match, or networks do not support such observations.
    """
    wanted = model_cfg.get("obs_shape")
    extended = getattr(policy_cls, "extends_obs", False)
    if wanted is None or extended or not is_our_network(policy_cls, model_cfg):
        return
    # Observation of one agent or player, if there are several.
    together = _agent_num(model_cfg, env.action_space) if num_players == 1 else num_players
    _check_shape("policy.model.obs_shape", wanted, env.observation_space, together)


def _check_shape(key: str, wanted: object, space: Any, together: int | None) -> None:
    if isinstance(space, spaces.Dict):
        _check_dict(key, wanted, space, together)
    elif isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        shape = tuple(int(size) for size in space.shape)
        seen = shape[1:] if together is not None and shape[:1] == (together,) else shape
        if isinstance(wanted, (str, float, Mapping)) or (is_shape(wanted) and as_tuple(wanted) != seen):
            raise ConfigValueError(f"{key} is {wanted!r}, but observations of the env are {shape}")
    elif type(space).__module__.startswith("gymnasium.spaces.") and is_shape(wanted):
        way = "let a wrapper of your own make an array of fixed shape of them"
        if space.is_np_flattenable:
            size = f", of {space.n} numbers" if isinstance(space, spaces.Discrete) else ""
            way = f"begin env.env_wrapper with {{'type': 'flatten_obs'}}, which makes vectors{size}"
        raise ConfigValueError(
            f"{key} is {wanted}, but observations of the env are {space}, and networks take arrays: {way}"
        )


def _check_dict(key: str, wanted: object, space: spaces.Dict, together: int | None) -> None:
    if isinstance(wanted, Mapping):
        for name, part in wanted.items():
            if name not in space.spaces:
                raise ConfigValueError(
                    f"{key}.{name} is {part}, but observations of the env have no {name!r}.{did_you_mean(name, space)}"
                )
            _check_shape(f"{key}.{name}", part, space[name], together)
    elif is_shape(wanted) and as_tuple(wanted) not in set(_shapes(space, together)):
        parts = {name: part.shape if part.shape is not None else part for name, part in space.items()}
        raise ConfigValueError(f"{key} is {wanted}, but observations of the env are a dict of {parts}")


def _shapes(space: spaces.Space[Any], together: int | None) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of the parts of a dict, and those of a single agent."""
    for part in iter_nested(tree_of(space, tuples=False)):
        if part.shape is not None:
            yield tuple(part.shape)
            if part.shape[:1] == (together,):
                yield tuple(part.shape[1:])


def check_observations(policy_cls: type[Policy], model_cfg: Mapping[str, Any], env: EnvManager) -> None:
    """Compare the first observations of the envs with their declared space.

    Only for built-in networks. Additional leading dimensions, e.g. for players, and other dtypes, which are converted,
    are allowed.

    Args:
        policy_cls, model_cfg: As in :func:`check_model_shapes`.
        env: Env manager; one that is not launched yet is not checked.

    Raises:
        EnvDataError: An observation does not have the shape of the space.
    """
    space = env.observation_space
    if env.closed or not is_our_network(policy_cls, model_cfg) or not isinstance(space, spaces.Box) or not space.shape:
        return
    manager = env
    ready = manager.ready_obs
    # Managers of the v2 interface return one array, with rows in the order of their ids.
    for env_id, obs in ready.items() if isinstance(ready, Mapping) else zip(manager.ready_obs_id, ready):
        if isinstance(obs, (np.ndarray, torch.Tensor)) and tuple(obs.shape[-len(space.shape) :]) != space.shape:
            found = f"shape {tuple(obs.shape)} dtype {str(obs.dtype).removeprefix('torch.')}"
            raise EnvDataError(
                f"Env {env_id} returned bad data: observation {found} at its reset, expected shape {space.shape} dtype "
                f"{space.dtype} as in its observation_space",
                env_id,
            )


def is_our_network(policy_cls: type[Policy], model_cfg: Mapping[str, Any]) -> bool:
    """Return whether the network is built in, so that its keys are known."""
    default_model = getattr(policy_cls, "default_model", None)
    return getattr(default_model, "__module__", "").startswith("ding.") and "type" not in model_cfg


def _agent_num(model_cfg: Mapping[str, Any], action_space: object) -> int | None:
    """Return the number of agents; ``None`` for a single agent."""
    if "agent_obs_shape" in model_cfg and isinstance(action_space, spaces.MultiDiscrete):
        # Networks shared by all agents need not know their number.
        return len(action_space.nvec)
    found: int | None = model_cfg.get("agent_num", model_cfg.get("n_agent"))
    return found


def _action_shape(space: object, agent_num: int | None) -> tuple[int, ...] | None:
    """Return the action shape of one agent, if there are several, else that of the env."""
    mapping = ActionMapping(space, maps=False) if isinstance(space, spaces.Space) else None
    if mapping is None or mapping.kind is None or mapping.kind == "hybrid":
        return None
    if isinstance(space, spaces.Box) and len(space.shape) > 1 and space.shape[0] == agent_num:
        return tuple(space.shape[1:])
    counts = as_tuple(mapping.network_shape)
    return counts[:1] if agent_num == len(counts) and len(set(counts)) == 1 else counts
