"""Ids of public configs that gymnasium no longer builds."""

import logging
from copy import deepcopy
from functools import cache

import gymnasium
from gymnasium.envs.registration import EnvSpec, parse_env_id

logger = logging.getLogger(__name__)


# The version whose observations, rewards and ends are those of MuJoCo's versions 2 and 3, and the arguments for it.
_MUJOCO_VERSION = 4
_MUJOCO_ARGUMENTS = {"Ant": {"use_contact_forces": True}}


def spec_or_successor(env_id: str) -> EnvSpec:
    """The spec of an id, or of its successor where making it would only raise.

    That is version 4 for MuJoCo's old versions (``Hopper-v3``), with the 111 observations of ``Ant-v3``, and the newest
    version of others (``LunarLander-v2``).

    Raises:
        gymnasium.error.Error: no env of that name is registered.
    """
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.DeprecatedEnv:
        return _successor(env_id)
    # The entry point of MuJoCo's versions 2 and 3 is a function that raises.
    raises = getattr(spec.entry_point, "__name__", "").startswith("_raise")
    return _successor(env_id, _MUJOCO_VERSION) if raises else spec


@cache
def _successor(env_id: str, version: int | None = None) -> EnvSpec:
    """The spec of this version where there is one, else of the newest."""
    namespace, name, _ = parse_env_id(env_id)
    registered = gymnasium.registry.values()
    versions = {spec.version or 0: spec for spec in registered if (spec.namespace, spec.name) == (namespace, name)}
    spec = deepcopy(versions[version if version in versions else max(versions)])
    if spec.version == _MUJOCO_VERSION:
        spec.kwargs.update(_MUJOCO_ARGUMENTS.get(name, {}))
    logger.warning("env.env_id: gymnasium no longer has %s; %s is used", env_id, spec.id)
    return spec
