"""Env manager of copies of one env."""

from functools import partial

from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.envs.env_manager.base_env_manager import BaseEnvManagerV2
from ding.envs.env_manager.subprocess_env_manager import SubprocessEnvManagerV2


def setup_ding_env_manager(
    env: DingEnvWrapper, env_num: int, context: str | None = None, debug: bool = False, caller: str = "collector"
) -> "BaseEnvManagerV2 | SubprocessEnvManagerV2":
    """Create a manager of ``env_num`` envs like ``env``.

    Args:
        env: Template; each env is a :meth:`DingEnvWrapper.clone` of it.
        env_num: Number of envs.
        context: Start method of the processes; ``None``: the default method.
        debug: Run the envs in this process.
        caller: ``collector`` or ``evaluator``.

    Raises:
        ValueError: The caller is unknown.
    """
    if caller not in ("evaluator", "collector"):
        raise ValueError(f"caller must be 'collector' or 'evaluator', not {caller!r}")
    env_fn = [partial(env.clone, caller) for _ in range(env_num)]
    if debug:
        return BaseEnvManagerV2(env_fn, BaseEnvManagerV2.default_config())
    cfg = SubprocessEnvManagerV2.default_config()
    if context is not None:
        cfg.context = context
    return SubprocessEnvManagerV2(env_fn, cfg)
