"""An env manager around copies of one env."""

from functools import partial

from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.envs.env_manager.base_env_manager import BaseEnvManagerV2
from ding.envs.env_manager.subprocess_env_manager import SubprocessEnvManagerV2


def setup_ding_env_manager(
    env: DingEnvWrapper, env_num: int, context: str | None = None, debug: bool = False, caller: str = "collector"
) -> "BaseEnvManagerV2 | SubprocessEnvManagerV2":
    """A manager of ``env_num`` envs like ``env``.

    Args:
        env: the pattern; each env is a :meth:`DingEnvWrapper.clone` of it.
        env_num: number of envs.
        context: start method of the processes, ``None`` for the default one.
        debug: run the envs in the own process.
        caller: ``collector`` or ``evaluator``.

    Raises:
        ValueError: another caller.
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
