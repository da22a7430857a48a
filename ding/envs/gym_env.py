"""Constructor of a registered Gymnasium env."""

from collections.abc import Mapping
from typing import Any

from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.envs.env.making import make_gym_env


def env(cfg: Mapping[str, Any], seed_api: bool = True, caller: str = "collector", **kwargs: Any) -> DingEnvWrapper:
    """Create a :class:`DingEnvWrapper` around the env of ``cfg.env_id``.

    Args:
        cfg: Config with ``env_id`` and the keys of :class:`DingEnvWrapper`.
        seed_api: Pass seeds to the env.
        caller: ``collector`` or ``evaluator``.
        kwargs: Constructor arguments of the env.
    """
    return DingEnvWrapper(make_gym_env(cfg["env_id"], **kwargs), cfg, seed_api, caller)
