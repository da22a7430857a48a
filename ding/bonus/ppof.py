"""``PPOF``: the agent of compact PPO, with a flat config."""

from collections.abc import Mapping
from typing import Any

from easydict import EasyDict

from ding.bonus.common import AgentConfigError
from ding.bonus.core.agent import Agent
from ding.config.example.PPOF import supported_env_cfg
from ding.policy import PPOFCommandModePolicy
from ding.utils import did_you_mean

# Keys of a flat config that do not belong to the policy.
_TOP = ("exp_name", "wandb_logger")
_FLAT = ("env", "env_id", "seed", *_TOP)
# Sections of the policy for the workers of a run.
_WORKERS = ("collect", "other")


class PPOF(Agent):
    """Compact PPO (see :class:`ding.policy.PPOFPolicy`) on envs with discrete, continuous or hybrid actions.

    ``cfg`` is flat: fields of ``PPOFPolicy.default_config()``, and ``env_id``, ``exp_name``, ``env``.
    """

    algorithm = "PPOF"
    policy_type = "ppof"
    names_action_space = True
    policy_defaults = {"cuda": False}
    supported_env_list = (*supported_env_cfg, "acrobot", "hybrid_moving", "minigrid_fourroom")

    @classmethod
    def _sections(cls, cfg: Mapping[str, Any]) -> dict[str, Any]:
        if "policy" in cfg:
            return dict(cfg)
        sections: dict[str, Any] = {"policy": {key: value for key, value in cfg.items() if key not in _FLAT}}
        sections |= {key: cfg[key] for key in _TOP if key in cfg}
        env = dict(cfg.get("env", {}))
        if "env_id" in cfg:
            env["env_id"] = cfg["env_id"]
        return {**sections, "env": env}

    def _compile(self, main: dict[str, Any], policy_type: str) -> EasyDict:
        known = (*PPOFCommandModePolicy.default_config(), *_WORKERS)
        unknown = [key for key in main["policy"] if key not in known]
        if unknown:
            raise AgentConfigError(f"PPOF has no setting {unknown[0]!r}.{did_you_mean(unknown[0], known)}")
        return super()._compile(main, policy_type)
