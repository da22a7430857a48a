"""The whole ``serial_pipeline`` on the default CartPole config. For this project and for DI-engine.

Both take the numbers of the config that DI-engine calls ``cartpole_dqn_config``. The stop value is out of reach and
the env steps are limited, so that both do the same env steps and updates.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench_side import Op, Side, count_optimizer_steps, serve
from ding_parts import buffer_entry, check_import, env_entry
from easydict import EasyDict

NEVER = 10**9


def config(args: argparse.Namespace) -> tuple[EasyDict, EasyDict]:
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


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--env-steps", type=int, default=3000)
    parser.add_argument("--eval-freq", type=int, default=NEVER, help="in train iterations")
    parser.add_argument("--buffer", default="deque")
    return parser


def build() -> Side:
    args = argument_parser(__doc__).parse_args()
    check_import()
    from ding.entry import serial_pipeline

    updates = count_optimizer_steps()
    steps = count_collected_steps()

    def run() -> None:
        serial_pipeline(config(args), seed=0, max_env_step=args.env_steps)

    work = {"env_steps": args.env_steps, "updates_per_8_env_steps": 5, "eval_freq": args.eval_freq}
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
