"""Configs and envs by id."""

import importlib
from copy import deepcopy

import gymnasium
from easydict import EasyDict

from ding.bonus.common import AgentConfigError
from ding.bonus.core.fit import get_hybrid_shape
from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.envs.env.old_ids import successor_of
from ding.envs.gym_env import env
from ding.utils import did_you_mean

__all__ = ["get_hybrid_shape", "get_instance_config", "get_instance_env"]

MAX_EPISODE_STEPS = 1000
# Those whose env is in a package that nothing here installs.
_ELSEWHERE = {
    "di_sheep": "DI-sheep",
    "drone_fly": "gym_pybullet_drones",
    "evogym_carrier": "evogym",
    "mario": "gym_super_mario_bros",
    "metadrive": "metadrive",
    "procgen_bigfish": "procgen",
    "rocket_landing": "rocket_recycling (of PPOxFamily)",
}


# The mean return at which an old env is solved, where that of its successor cannot be reached.
_STOP_VALUES = {"CartPole-v0": 195.0}


def stop_value_of_old(env_id: str) -> dict[str, float]:
    """Return ``{'stop_value'}`` of an env that gymnasium replaced, where it is another one than the successor's."""
    return {"stop_value": _STOP_VALUES[env_id]} if env_id in _STOP_VALUES else {}


def is_same_task(one: str, other: str) -> bool:
    """Return whether two ids are one env, or registered versions of one: numbers that fit one fit the other."""
    ids = [successor_of(env_id)[0] for env_id in (one, other)]
    if ids[0].lower() == ids[1].lower():
        return True
    names = {gymnasium.registry[env_id].name if env_id in gymnasium.registry else env_id for env_id in ids}
    return len(names) == 1


def check_made_here(env_id: str) -> None:
    """Refuse a short name of DI-engine's PPOF for an env that only its own package makes.

    Raises:
        AgentConfigError: the message names the package.
    """
    package = _ELSEWHERE.get(env_id)
    if package is not None:
        text = f"the env {env_id!r} is one of {package}: make it, and pass it as env=DingEnvWrapper(made, cfg={{...}})"
        raise AgentConfigError(text)


def limit_of(env_id: str) -> dict[str, int]:
    """Return the limit for an env of gymnasium whose episodes may never end, as an argument of its construction.

    An untrained policy may walk in circles for ever in ``CliffWalking-v1``, for example, and no evaluation would end.
    """
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.Error:  # named where the env is made
        return {}
    is_limited = spec.max_episode_steps is not None or not str(spec.entry_point).startswith("gymnasium.envs.")
    return {} if is_limited else {"max_episode_steps": MAX_EPISODE_STEPS}


def example_configs(algorithm: str) -> dict[str, EasyDict]:
    """Return the configs of an algorithm by env id; none for an algorithm without examples."""
    try:
        entries: dict[str, EasyDict] = importlib.import_module(f"ding.config.example.{algorithm}").supported_env_cfg
        return entries
    except ModuleNotFoundError as error:
        if error.name != f"ding.config.example.{algorithm}":
            raise
        return {}


def get_instance_config(env_id: str, algorithm: str) -> EasyDict:
    """Return what an algorithm sets for an env over its defaults; a copy.

    Raises:
        KeyError: there is no config for this env; agents then use defaults that fit its spaces.
    """
    configs = example_configs(algorithm)
    found = next((config for name, config in configs.items() if is_same_task(name, env_id)), None)
    if found is None:
        raise KeyError(f"{algorithm} has no config for {env_id!r}.{did_you_mean(env_id, configs)}")
    return deepcopy(found)


def get_instance_env(env_id: str) -> DingEnvWrapper:
    """Return the env of this id, as an agent would make it.

    Raises:
        AgentConfigError: no such env is registered.
    """
    check_made_here(env_id)
    new_id, kwargs = successor_of(env_id)
    atari = "NoFrameskip" in new_id
    try:
        return env({"env_id": new_id, "env_wrapper": "atari_default" if atari else "default"}, **kwargs)
    except ValueError as error:
        raise AgentConfigError(str(error)) from error
