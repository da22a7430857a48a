"""Ids of public configs that gymnasium no longer builds."""

import logging
from functools import cache

import gymnasium
from gymnasium.envs.registration import EnvSpec, parse_env_id

logger = logging.getLogger(__name__)


def spec_or_successor(env_id: str) -> EnvSpec:
    """The spec of an id; of its newest version where making it would only raise (``LunarLander-v2``, ``Hopper-v3``).

    Raises:
        gymnasium.error.Error: no env of that name is registered.
    """
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.DeprecatedEnv:
        return gymnasium.spec(_newest(env_id))
    # The entry point of MuJoCo's versions 2 and 3 is a function that raises.
    raises = getattr(spec.entry_point, "__name__", "").startswith("_raise")
    return gymnasium.spec(_newest(env_id)) if raises else spec


@cache
def _newest(env_id: str) -> str:
    namespace, name, _ = parse_env_id(env_id)
    versions = [spec for spec in gymnasium.registry.values() if (spec.namespace, spec.name) == (namespace, name)]
    newest = max(versions, key=lambda spec: spec.version or 0).id
    logger.warning("env.env_id: gymnasium no longer has %s; %s is used", env_id, newest)
    return newest
