"""Parts of a serial run through the DI-engine API. The same code drives this project and DI-engine itself.

Only two things differ: the class of the env, and that this project's runs are checked to import its own checkout.
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from bench_side import require_ding_below
from bench_work import BATCH_SIZE, BUFFER_SIZE, DISCOUNT, LEARNING_RATE, ROLLOUT, TARGET_FREQ
from easydict import EasyDict

OWN = "BENCH_DING_ROOT" in os.environ
NETWORKS = ("mlp", "dueling")


def check_import() -> None:
    """Make sure that ``ding`` is what shall be measured."""
    require_ding_below(os.environ.get("BENCH_DING_ROOT"))


def arguments(description: str) -> argparse.ArgumentParser:
    """Options that several sides share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--manager", default="base")
    parser.add_argument("--buffer", default="advanced")
    parser.add_argument("--network", choices=NETWORKS, default="mlp")
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 128])
    parser.add_argument("--custom-policy", action="store_true", help="override two methods the classic way")
    return parser


def env_class() -> Any:
    """CartPole-v1 as each library offers it."""
    if OWN:
        from ding.envs import DingEnvWrapper

        return DingEnvWrapper
    from dizoo.classic_control.cartpole.envs.cartpole_env import CartPoleEnv

    return CartPoleEnv


def configs(args: argparse.Namespace, n_sample: int, updates: int = 1) -> tuple[EasyDict, EasyDict]:
    """``(main_config, create_config)`` of DQN on CartPole."""
    compiled = {"compile": True} if getattr(args, "compile", False) else {}
    main = {
        "exp_name": "bench",
        "env": {
            "env_id": "CartPole-v1",
            "collector_env_num": args.envs,
            "evaluator_env_num": 1,
            "n_evaluator_episode": 1,
            "stop_value": 10**9,
        },
        "policy": {
            "cuda": False,
            "model": {
                "obs_shape": 4,
                "action_shape": 2,
                "encoder_hidden_size_list": args.hidden,
                "dueling": args.network == "dueling",
                # Without a hidden layer in the head, the DQN network is the peers' plain MLP.
                "head_layer_num": 1 if args.network == "dueling" else 0,
            },
            "nstep": 1,
            "discount_factor": DISCOUNT,
            "learn": {
                "update_per_collect": updates,
                "batch_size": BATCH_SIZE,
                "learning_rate": LEARNING_RATE,
                "target_update_freq": TARGET_FREQ,
                **compiled,
            },
            "collect": {"n_sample": n_sample},
            "other": {"replay_buffer": {"replay_buffer_size": BUFFER_SIZE}},
        },
    }
    create = {
        "env": env_entry(),
        "env_manager": {"type": args.manager},
        "policy": {"type": "dqn"},
        "replay_buffer": buffer_entry(args.buffer),
    }
    return EasyDict(main), EasyDict(create)


def env_entry() -> dict[str, Any]:
    """The ``env`` entry of a create config."""
    if OWN:
        return {"type": "gymnasium", "import_names": ["ding.envs"]}
    return {"type": "cartpole", "import_names": ["dizoo.classic_control.cartpole.envs.cartpole_env"]}


def pendulum_entry() -> dict[str, Any]:
    """The same of Pendulum."""
    if OWN:
        return {"type": "gymnasium", "import_names": ["ding.envs"]}
    return {"type": "pendulum", "import_names": ["dizoo.classic_control.pendulum.envs.pendulum_env"]}


def buffer_entry(kind: str) -> dict[str, Any]:
    """The ``replay_buffer`` entry of a create config."""
    if kind == "deque":
        return {"type": "deque", "import_names": ["ding.data.buffer.deque_buffer_wrapper"]}
    return {"type": kind}


class Task(NamedTuple):
    """What differs from one algorithm to the next."""

    configs: tuple[EasyDict, EasyDict]
    env_fn: Callable[[], Any]
    policy_class: Any


def dqn_task(args: argparse.Namespace, n_sample: int) -> Task:
    """DQN on CartPole."""
    env_cfg = EasyDict({"env_id": "CartPole-v1"} if OWN else {"replay_path": None})
    env_fn = functools.partial(env_class(), cfg=env_cfg)
    return Task(configs(args, n_sample), env_fn, policy_class(args.custom_policy))


class Parts:
    """Envs, policy, collector, buffer and learner, compiled from the config as a user would do it by hand."""

    def __init__(
        self, args: argparse.Namespace, n_sample: int, learner: bool = False, task: Task | None = None
    ) -> None:
        check_import()
        task = task or dqn_task(args, n_sample)
        from tensorboardX import SummaryWriter

        from ding.config import compile_config
        from ding.envs import create_env_manager
        from ding.utils import set_pkg_seed
        from ding.worker import create_buffer, create_serial_collector

        main, create = task.configs
        create.policy.type += "_command"
        cfg = compile_config(main, seed=0, auto=True, create_cfg=create, save_cfg=True)
        writer = SummaryWriter(os.path.join(cfg.exp_name, "log", "serial"))
        env = create_env_manager(cfg.env.manager, [task.env_fn] * args.envs)
        env.seed(0)
        set_pkg_seed(0, use_cuda=False)
        fields = ["learn", "collect"] if learner else ["collect"]
        self.policy = task.policy_class(cfg.policy, enable_field=fields)
        named = {"tb_logger": writer, "exp_name": cfg.exp_name}
        self.collector = create_serial_collector(
            cfg.policy.collect.collector, env=env, policy=self.policy.collect_mode, **named
        )
        self.buffer = create_buffer(cfg.policy.other.replay_buffer, **named)
        if learner:
            from ding.worker import BaseLearner

            self.learner = BaseLearner(cfg.policy.learn.learner, self.policy.learn_mode, **named)
            self.learner.call_hook("before_run")

    def close(self) -> None:
        """Close the envs."""
        self.collector.close()


def joined_updates(learner: Any, updates: int) -> int:
    """How many updates of a pass this project's policy takes in one call: a divisor of ``updates``."""
    from ding.policy.compiled_updates import joined_updates as in_calls_of

    return in_calls_of(updates, learner.policy.get_attribute("updates_per_call"))


def rollout_samples(envs: int) -> int:
    """Samples of one collection: ten vector steps."""
    return ROLLOUT * envs


def policy_class(custom: bool) -> Any:
    """DQN, or a user's subclass that overrides collection in the classic per-env, per-dict form."""
    from ding.policy import DQNPolicy

    if not custom:
        return DQNPolicy
    import torch

    from ding.utils.data import default_collate, default_decollate

    class ClassicPolicy(DQNPolicy):
        def _forward_collect(self, data: dict[int, Any], eps: float) -> dict[int, Any]:
            env_ids = list(data.keys())
            obs = default_collate(list(data.values()))
            self._collect_model.eval()
            with torch.no_grad():
                output = self._collect_model.forward(obs, eps=eps)
            return dict(zip(env_ids, default_decollate(output)))

        def _process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> dict[str, Any]:
            return {
                "obs": obs,
                "next_obs": timestep.obs,
                "action": policy_output["action"],
                "reward": timestep.reward,
                "done": timestep.done,
            }

    return ClassicPolicy
