"""``PPOF``: the agent of compact PPO, whose config is flat."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from easydict import EasyDict

from ding.bonus.common import AgentConfigError
from ding.bonus.core.agent import Agent
from ding.config.example.PPOF import supported_env_cfg
from ding.data.roles import CollectMode, EnvManager, EvalMode
from ding.envs import DingEnvWrapper
from ding.framework.middleware import PPOFStepCollector, multistep_trainer, ppof_adv_estimator
from ding.framework.middleware.trees import TreeMode
from ding.policy import PPOFPolicy
from ding.utils import deep_merge_dicts, did_you_mean

# Sections of other policies, which a config of this one has for those who read any config.
_SECTIONS = ("learn", "collect", "eval", "other")
# Keys of a flat config that are not the policy's.
_TOP = ("exp_name", "wandb_logger")
_FLAT = ("env", "env_id", "seed", *_TOP)


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
            return {**cfg, "policy": {key: value for key, value in cfg["policy"].items() if key not in _SECTIONS}}
        sections: dict[str, Any] = {"policy": {key: value for key, value in cfg.items() if key not in _FLAT}}
        sections |= {key: cfg[key] for key in _TOP if key in cfg}
        env = dict(cfg.get("env", {}))
        if "env_id" in cfg:
            env["env_id"] = cfg["env_id"]
        return {**sections, "env": env}

    def _compile(self, main: Mapping[str, Any], policy_type: str) -> EasyDict:
        defaults = PPOFPolicy.default_config()
        unknown = [key for key in main["policy"] if key not in defaults]
        if unknown:
            raise AgentConfigError(f"PPOF has no setting {unknown[0]!r}.{did_you_mean(unknown[0], defaults)}")
        flat = deep_merge_dicts(defaults, main["policy"])
        # A flat policy has no sections; these are what a task looks for in any config.
        policy = {
            **flat,
            "type": policy_type,
            "collect": {"n_sample": flat["n_sample"]},
            "eval": {"evaluator": {"eval_freq": 200}},
            "other": {"replay_buffer": {"replay_buffer_size": 1}},
        }
        env = deep_merge_dicts({**DingEnvWrapper.default_config(), "stop_value": 1e10}, main["env"])
        top = {key: main[key] for key in _TOP if key in main}
        return EasyDict(env=env, policy=policy, seed=self.seed, **top)

    def _make_policy(self, model: torch.nn.Module | None) -> Any:
        cfg = self.cfg.policy
        if model is None:
            model = PPOFPolicy.default_model()(popart_head=cfg.value_norm == "popart", **cfg.model)
        return PPOFPolicy(cfg, model)

    @property
    def eval_mode(self) -> EvalMode:
        policy: Any = self.policy
        mode: Any = TreeMode(policy, "eval")
        return mode

    @property
    def collect_mode(self) -> CollectMode:
        policy: Any = self.policy
        mode: Any = TreeMode(policy, "collect")
        return mode

    def collector(self, cfg: EasyDict, env: EnvManager) -> Any:
        policy: Any = self.policy
        return PPOFStepCollector(self.seed, policy, env, cfg.policy.collect.n_sample)

    def learning_steps(self, env: EnvManager) -> Iterator[Any]:
        policy: Any = self.policy
        yield self.collector(self.cfg, env)
        yield ppof_adv_estimator(policy)
        yield multistep_trainer(policy)
