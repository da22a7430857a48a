"""Shared parts of the example configs. Envs are created on demand, because they are on a higher floor than configs."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from easydict import EasyDict

from ding.config.resolve import import_by_name

EnvFactory = Callable[..., Any]

# DI-engine's module name of an env, unless it is ``gym_`` and the lower-case id.
_MODULE_NAMES = {
    "LunarLander-v3": "gym_lunarlander_v2",
    "LunarLanderContinuous-v3": "gym_lunarlandercontinuous_v2",
    "HalfCheetah-v5": "gym_halfcheetah_v3",
    "Hopper-v5": "gym_hopper_v3",
    "Walker2d-v5": "gym_walker2d_v3",
    "SpaceInvadersNoFrameskip-v4": "gym_spaceInvadersnoframeskip_v4",
}


def gym_env(cfg: Mapping[str, Any], seed_api: bool = True, caller: str = "collector", **kwargs: Any) -> Any:
    """Return ``ding.envs.gym_env.env(cfg, ...)``, the Gymnasium env of ``cfg.env_id`` for the workers."""
    return import_by_name("ding.envs.gym_env", "env")(cfg, seed_api=seed_api, caller=caller, **kwargs)


def factories(algorithm: str, configs: Mapping[str, EasyDict]) -> dict[str, EnvFactory]:
    """Return the factory of each env, which is called with the section ``env`` of its config.

    Each env gets a submodule of the algorithm's module, as in DI-engine: ``gym_lunarlander_v2`` with ``cfg`` and
    ``env``, the config and the factory.

    Args:
        algorithm: ``__name__`` of the module with the configs.
        configs: Configs by env id.
    """
    makers = {env_id: partial(gym_env, **cfg.get("env", {}).get("env_kwargs", {})) for env_id, cfg in configs.items()}
    for env_id, cfg in configs.items():
        name = _MODULE_NAMES.get(env_id) or f"gym_{env_id.lower().replace('-', '_')}"
        module = ModuleType(f"{algorithm}.{name}", f"The example config of {env_id}.")
        vars(module).update(cfg=cfg, env=makers[env_id], __spec__=ModuleSpec(module.__name__, None))
        setattr(sys.modules[algorithm], name, module)
        sys.modules[module.__name__] = module
    return dict(makers)


def example(
    algorithm: str, env: Mapping[str, Any], model: Mapping[str, Any], learn: Mapping[str, Any], **policy: Any
) -> EasyDict:
    """Return a config with 8 collector and 8 evaluator envs, unless ``env`` overrides them."""
    nums = {"collector_env_num": 8, "evaluator_env_num": 8}
    section = {**nums, "n_evaluator_episode": env.get("evaluator_env_num", 8), **env}
    return EasyDict(
        exp_name=f"{env['env_id']}-{algorithm}", env=section, policy={"model": model, "learn": learn, **policy}
    )


def control(
    algorithm: str,
    action_space: str,
    env: Mapping[str, Any],
    sizes: tuple[int, int],
    hidden: int,
    learn: Mapping[str, Any],
    twin_critic: bool = True,
    **policy: Any,
) -> EasyDict:
    """Return a config for observations and actions (in [-1, 1]) of ``sizes``, with heads of width ``hidden``."""
    model = {
        "obs_shape": sizes[0],
        "action_shape": sizes[1],
        "actor_head_hidden_size": hidden,
        "critic_head_hidden_size": hidden,
        "action_space": action_space,
        "twin_critic": twin_critic,
    }
    return example(algorithm, {"act_scale": True, **env}, model, learn, **policy)


def replay(start: float, end: float, decay: int, size: int) -> dict[str, Any]:
    """Return the section ``policy.other``: exponential epsilon decay over env steps, and the size of the buffer."""
    eps = {"type": "exp", "start": start, "end": end, "decay": decay}
    return {"eps": eps, "replay_buffer": {"replay_buffer_size": size}}
