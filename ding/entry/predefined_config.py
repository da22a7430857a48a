"""Configs by env and policy name, from ``configs/`` or an installed ``dizoo``."""

import importlib
import sys
from pathlib import Path

from easydict import EasyDict

import ding
from ding.config import read_config

env_dict = {
    "cartpole": "dizoo.classic_control.cartpole.config",
    "pendulum": "dizoo.classic_control.pendulum.config",
}
"""Name of an env -> package of DI-engine's zoo with its configs, used if ``configs/`` has no file."""

policy_dict = {
    name: f"ding.policy.{name}"
    for name in ("dqn", "rainbow", "c51", "qrdqn", "iqn", "a2c", "impala", "ppo", "sqn", "r2d2", "ddpg", "td3", "sac")
}
"""Name of a policy -> its module."""


def predefined_config_path(env: str, policy: str) -> Path | None:
    """Return ``configs/<env>/<env>_<policy>_config.py`` of the current folder or the repository, or None."""
    for root in (Path.cwd(), Path(ding.__file__).resolve().parents[1]):
        path = root / "configs" / env / f"{env}_{policy}_config.py"
        if path.is_file():
            return path
    return None


def get_predefined_config(env: str, policy: str) -> list[EasyDict]:
    """Return ``[main_config, create_config]`` of an env and a policy, e.g. ``cartpole`` and ``dqn``.

    Raises:
        KeyError: No config of this env is known.
        SystemExit: The env has no config of this policy; a message is printed.
    """
    path = predefined_config_path(env, policy)
    if path is not None:
        return list(read_config(str(path)))
    try:
        zoo = importlib.import_module(f"{env_dict[env]}.{env}_{policy}_config")
    except ModuleNotFoundError:
        sys.exit(f"there is no configs/{env}/{env}_{policy}_config.py; ding new config writes one")
    return [getattr(zoo, f"{env}_{policy}_{kind}") for kind in ("config", "create_config")]
