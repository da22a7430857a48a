"""Configs generated from a policy and an env: an agent's config for the env, as a config of the serial pipelines."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from easydict import EasyDict

import ding
from ding.bonus.common import AgentConfigError
from ding.bonus.core.agent import Agent
from ding.bonus.support import supported_algo
from ding.config import compile_config
from ding.config.overrides import apply_values
from ding.utils import POLICY_REGISTRY, did_you_mean

# Types of this package whose config follows from the env; others need more information: data sets, demonstrations,
# several agents, sizes of a recurrent network, ...
GENERATED = (
    *("a2c", "c51", "crossq", "ddpg", "dqn", "dqn_stdim", "droq", "fqf", "iqn", "mdqn", "ppo", "ppo_offpolicy"),
    *("ppof", "pqn", "qrdqn", "rainbow", "redq", "sac", "sql", "td3", "tqc", "trpo"),
)
# Train iterations between two evaluations, if the env has no config.
_EVAL_FREQ = 200


def generated_config(policy: str, env_id: str, exp_name: str | None = None) -> tuple[EasyDict, EasyDict]:
    """Return ``(main_config, create_config)`` of a policy on an env, for the serial pipelines.

    Args:
        policy: Registered type of the policy, such as ``dqn``.
        env_id: Id of a registered Gymnasium env.
        exp_name: Experiment folder; by default ``<env>-<policy>``.

    Raises:
        AgentConfigError: The policy does not exist, its config does not follow from an env, or it does not fit the env.
    """
    type_ = policy.lower()
    # Types with a command mode, which the serial pipelines need.
    known = [name for name in POLICY_REGISTRY if f"{name}_command" in POLICY_REGISTRY]
    if type_ not in known:
        raise AgentConfigError(f"there is no policy {policy!r} to train with.{did_you_mean(type_, known)}")
    if type_ not in GENERATED and POLICY_REGISTRY.get(type_).__module__.startswith("ding."):
        raise AgentConfigError(f"no config for {policy!r} follows from an env alone; {_advice(type_)}")
    cls = {agent.policy_type: agent for agent in supported_algo.values()}.get(type_, Agent)
    name = exp_name or f"{env_id.replace('/', '-')}-{type_}"
    eval_freq = {"eval": {"evaluator": {"eval_freq": _EVAL_FREQ}}} if cls is Agent else {}
    main, _ = cls.written_config(env_id, exp_name=name, cfg={"policy": {"type": type_, **eval_freq}})
    env = main["env"]
    create = {
        "env": {"type": env.pop("type"), "import_names": env.pop("import_names", ["ding.envs"])},
        "env_manager": {"type": "base"},
        "policy": {"type": type_},
    }
    if not env.get("env_kwargs", True):
        del env["env_kwargs"]
    main["policy"].pop("type", None)
    return EasyDict(main), EasyDict(create)


def _advice(type_: str) -> str:
    """Return advice for a policy whose config cannot be generated."""
    folder = Path(ding.__file__).resolve().parents[1] / "configs"
    written = re.compile(rf"""policy=dict\(\s*type=["']{re.escape(type_)}["']""")
    ready = [path for path in sorted(folder.glob("*/*_config.py")) if written.search(path.read_text(encoding="utf-8"))]
    if not ready:
        return "write one: docs/user_guide.md"
    # The pipeline with its own name first: others generate data with it, or add rewards.
    path = min(ready, key=lambda path: (not path.stem.endswith(f"_{type_}_config"), len(path.stem)))
    shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else path
    return f"copy {shown}, change its env, and run that with python"


def compiled(main: Mapping[str, Any], create: Mapping[str, Any], strict: bool = False) -> EasyDict:
    """Return the compiled config without writing files."""
    return compile_config(main, auto=True, create_cfg=create, save_cfg=False, strict=strict)


def apply_short_overrides(overrides: Mapping[str, Any], main: EasyDict, create: EasyDict) -> None:
    """Set keys of the configs in place, by path or name; see ``ding.config.overrides.apply_values``."""
    apply_values(overrides.items(), {"main_config": main, "create_config": create})
