"""The whole ``serial_pipeline`` on the default CartPole config, or on SAC's for Pendulum. Here and in DI-engine.

Both take the numbers of the configs that DI-engine calls ``cartpole_dqn_config`` and ``pendulum_sac_config``. The stop
value is out of reach and the env steps are limited, so that both do the same env steps and updates.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench_side import Op, Side, count_optimizer_steps, serve
from ding_parts import buffer_entry, check_import, env_entry, pendulum_entry
from easydict import EasyDict

NEVER = 10**9


def config(args: argparse.Namespace) -> tuple[EasyDict, EasyDict]:
    return pendulum_sac(args) if args.config == "pendulum_sac" else cartpole_dqn(args)


def cartpole_dqn(args: argparse.Namespace) -> tuple[EasyDict, EasyDict]:
    main = {
        "exp_name": "bench_pipeline",
        "env": {
            "env_id": "CartPole-v1",
            "collector_env_num": 8,
            "evaluator_env_num": 5,
            "n_evaluator_episode": 5,
            "stop_value": NEVER,
        },
        "policy": {
            "cuda": False,
            "model": {
                "obs_shape": 4,
                "action_shape": 2,
                "encoder_hidden_size_list": [128, 128, 64],
                "dueling": True,
            },
            "nstep": 1,
            "discount_factor": 0.97,
            "learn": {"update_per_collect": 5, "batch_size": 64, "learning_rate": 0.001},
            "collect": {"n_sample": 8},
            "eval": {"evaluator": {"eval_freq": args.eval_freq}},
            "other": {
                "eps": {"type": "exp", "start": 0.95, "end": 0.1, "decay": 10000},
                "replay_buffer": {"replay_buffer_size": 20000},
            },
        },
    }
    create: dict[str, Any] = {
        "env": env_entry(),
        "env_manager": {"type": "base"},
        "policy": {"type": "dqn"},
        "replay_buffer": buffer_entry(args.buffer),
    }
    return EasyDict(main), EasyDict(create)


def pendulum_sac(args: argparse.Namespace) -> tuple[EasyDict, EasyDict]:
    main = {
        "exp_name": "bench_pipeline",
        "env": {
            "env_id": "Pendulum-v1",
            "act_scale": True,
            "collector_env_num": 10,
            "evaluator_env_num": 5,
            "n_evaluator_episode": 5,
            "stop_value": NEVER,
        },
        "policy": {
            "cuda": False,
            "random_collect_size": 1000,
            "model": {
                "obs_shape": 3,
                "action_shape": 1,
                "twin_critic": True,
                "action_space": "reparameterization",
                "actor_head_hidden_size": 128,
                "critic_head_hidden_size": 128,
            },
            "learn": {
                "update_per_collect": 1,
                "batch_size": 128,
                "learning_rate_q": 0.001,
                "learning_rate_policy": 0.001,
                "learning_rate_alpha": 0.0003,
                "ignore_done": True,
                "target_theta": 0.005,
                "discount_factor": 0.99,
                "auto_alpha": True,
            },
            "collect": {"n_sample": 10},
            "eval": {"evaluator": {"eval_freq": args.eval_freq}},
            "other": {"replay_buffer": {"replay_buffer_size": 100000}},
        },
    }
    create: dict[str, Any] = {
        "env": pendulum_entry(),
        "env_manager": {"type": "base"},
        "policy": {"type": "sac"},
        "replay_buffer": buffer_entry(args.buffer),
    }
    return EasyDict(main), EasyDict(create)


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--env-steps", type=int, default=3000)
    parser.add_argument("--eval-freq", type=int, default=NEVER, help="in train iterations")
    parser.add_argument("--buffer", default="deque")
    parser.add_argument("--config", choices=("cartpole_dqn", "pendulum_sac"), default="cartpole_dqn")
    return parser


def build() -> Side:
    args = argument_parser(__doc__).parse_args()
    check_import()
    from ding.entry import serial_pipeline

    updates = count_optimizer_steps()
    steps = count_collected_steps()

    def run() -> None:
        serial_pipeline(config(args), seed=0, max_env_step=args.env_steps)

    work = {"config": args.config, "env_steps": args.env_steps, "eval_freq": args.eval_freq}
    op = Op(run, lambda: {"env_steps": steps(), "updates": updates()}, single=True)
    return Side({"run": op}, work)


def count_collected_steps() -> Any:
    """Count env steps over all collectors of this process, by what each collection adds to ``envstep``."""
    from ding.worker import SampleSerialCollector

    total = [0]
    collect = SampleSerialCollector.collect

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.envstep
        samples = collect(self, *args, **kwargs)
        total[0] += self.envstep - before
        return samples

    SampleSerialCollector.collect = counted
    return lambda: total[0]


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
