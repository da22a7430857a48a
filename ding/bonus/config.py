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
# Ids whose env is in a package that no extra installs.
_ELSEWHERE = {
    "di_sheep": "DI-sheep",
    "drone_fly": "gym_pybullet_drones",
    "evogym_carrier": "evogym",
    "mario": "gym_super_mario_bros",
    "metadrive": "metadrive",
    "procgen_bigfish": "procgen",
    "rocket_landing": "rocket_recycling (of PPOxFamily)",
}


# Mean return at which an old env is solved, if that of its successor cannot be reached.
_STOP_VALUES = {"CartPole-v0": 195.0}


def stop_value_of_old(env_id: str) -> dict[str, float]:
    """Return ``{'stop_value'}`` of an env that Gymnasium replaced, if it differs from the successor's."""
    return {"stop_value": _STOP_VALUES[env_id]} if env_id in _STOP_VALUES else {}


def is_same_task(one: str, other: str) -> bool:
    """Return whether two ids are the same env or registered versions of it, so that the same hyperparameters apply."""
    ids = [successor_of(env_id)[0] for env_id in (one, other)]
    if ids[0].lower() == ids[1].lower():
        return True
    names = {gymnasium.registry[env_id].name if env_id in gymnasium.registry else env_id for env_id in ids}
    return len(names) == 1


def check_made_here(env_id: str) -> None:
    """Reject a short name of DI-engine's PPOF for an env that only its own package creates.

    Raises:
        AgentConfigError: The message names the package.
    """
    package = _ELSEWHERE.get(env_id)
    if package is not None:
        text = f"the env {env_id!r} is one of {package}: make it, and pass it as env=DingEnvWrapper(made, cfg={{...}})"
        raise AgentConfigError(text)


def limit_of(env_id: str) -> dict[str, int]:
    """Return a step limit, as a constructor argument, for a Gymnasium env whose episodes may never end.

    An untrained policy may, for example, walk in circles forever in ``CliffWalking-v1``, and no evaluation would end.
    """
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.Error:  # reported when the env is created
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
    """Return a copy of an algorithm's settings for an env, which extend its defaults.

    Raises:
        KeyError: There is no config for this env; agents then use defaults derived from its spaces.
    """
    configs = example_configs(algorithm)
    found = next((config for name, config in configs.items() if is_same_task(name, env_id)), None)
    if found is None:
        raise KeyError(f"{algorithm} has no config for {env_id!r}.{did_you_mean(env_id, configs)}")
    return deepcopy(found)


def get_instance_env(env_id: str) -> DingEnvWrapper:
    """Return the env with this id, as an agent creates it.

    Raises:
        AgentConfigError: The id is not registered.
    """
    check_made_here(env_id)
    new_id, kwargs = successor_of(env_id)
    atari = "NoFrameskip" in new_id
    try:
        return env({"env_id": new_id, "env_wrapper": "atari_default" if atari else "default"}, **kwargs)
    except ValueError as error:
        raise AgentConfigError(str(error)) from error
