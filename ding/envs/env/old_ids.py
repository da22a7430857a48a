"""Successors of env ids in public configs that Gymnasium no longer supports, for envs and agents."""

import logging
from copy import deepcopy
from functools import cache
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, parse_env_id

logger = logging.getLogger(__name__)


# Version with the observations, rewards and ends of MuJoCo's versions 2 and 3, and its arguments.
_MUJOCO_VERSION = 4
_MUJOCO_ARGUMENTS = {"Ant": {"use_contact_forces": True}}

# Ids that agents of DI-engine accept, with the Gymnasium id and constructor arguments.
_OF_AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "CartPole-v0": ("CartPole-v1", {"max_episode_steps": 200}),
    # Short names of PPOF.
    "acrobot": ("Acrobot-v1", {}),
    "hybrid_moving": ("Moving-v0", {}),
    "minigrid_fourroom": ("MiniGrid-FourRooms-v0", {}),
}


def spec_or_successor(env_id: str) -> EnvSpec:
    """Return the spec of an id, or of its successor if the id can no longer be built.

    The successor is version 4 for old MuJoCo versions (``Hopper-v3``), with the 111 observations of ``Ant-v3``, and the
    newest version for others (``LunarLander-v2``). A successor is logged as a warning.

    Raises:
        gymnasium.error.Error: The name is not registered.
    """
    successor = _successor(env_id)
    if successor is None:
        return gymnasium.spec(env_id)
    _warn(env_id, successor.id)
    return successor


def successor_of(env_id: str) -> tuple[str, dict[str, Any]]:
    """Return the Gymnasium id of an agent's env, and its constructor arguments.

    The successor is that of :func:`spec_or_successor`; agents additionally accept the short names of DI-engine's PPOF.
    An unknown id is returned unchanged.
    """
    if env_id in _OF_AGENTS:
        return _OF_AGENTS[env_id]
    try:
        successor = _successor(env_id)
    except gymnasium.error.Error:
        return env_id, {}
    return (env_id, {}) if successor is None else (successor.id, _arguments(successor))


def _successor(env_id: str) -> EnvSpec | None:
    """Return the spec of the version that replaces an id; None if Gymnasium still supports the id."""
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.DeprecatedEnv:
        return _version_of(env_id)
    # The entry point of MuJoCo's versions 2 and 3 is a function that raises.
    raises = getattr(spec.entry_point, "__name__", "").startswith("_raise")
    return _version_of(env_id, _MUJOCO_VERSION) if raises else None


def _version_of(env_id: str, version: int | None = None) -> EnvSpec:
    """Return the spec of this version, or of the newest if it does not exist."""
    namespace, name, _ = parse_env_id(env_id)
    registered = gymnasium.registry.values()
    versions = {spec.version or 0: spec for spec in registered if (spec.namespace, spec.name) == (namespace, name)}
    spec = deepcopy(versions[version if version in versions else max(versions)])
    spec.kwargs.update(_arguments(spec))
    return spec


def _arguments(spec: EnvSpec) -> dict[str, Any]:
    return _MUJOCO_ARGUMENTS.get(spec.name, {}) if spec.version == _MUJOCO_VERSION else {}


@cache
def _warn(env_id: str, successor: str) -> None:
    logger.warning("env.env_id: gymnasium no longer has %s; %s is used", env_id, successor)
