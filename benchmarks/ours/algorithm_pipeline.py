"""``serial_pipeline_onpolicy`` with PPO, or ``serial_pipeline`` with R2D2 or QMIX. For this project and for DI-engine.

Both take the numbers of DI-engine's configs ``cartpole_ppo_config`` and ``cartpole_r2d2_config``, for QMIX those of
``line_cover_qmix_config``. The stop value is out of reach, so that both do the same number of train iterations.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench_side import Op, Side, count_optimizer_steps, serve
from cooperative import ENV, QMIX, line_cover_entry
from ding_parts import buffer_entry, check_import, env_entry
from easydict import EasyDict
from pipeline import NEVER

PPO = {
    "cuda": False,
    "action_space": "discrete",
    "model": {
        "obs_shape": 4,
        "action_shape": 2,
        "action_space": "discrete",
        "encoder_hidden_size_list": [64, 64, 128],
        "critic_head_hidden_size": 128,
        "actor_head_hidden_size": 128,
    },
    "learn": {
        "epoch_per_collect": 2,
        "batch_size": 64,
        "learning_rate": 0.001,
        "value_weight": 0.5,
        "entropy_weight": 0.01,
        "clip_ratio": 0.2,
    },
    "collect": {"n_sample": 256, "unroll_len": 1, "discount_factor": 0.9, "gae_lambda": 0.95},
    "eval": {"evaluator": {"eval_freq": NEVER}},
}
R2D2 = {
    "cuda": False,
    "priority": False,
    "priority_IS_weight": False,
    "model": {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [128, 128, 64]},
    "discount_factor": 0.995,
    "nstep": 5,
    "burnin_step": 2,
    "learn_unroll_len": 40,
    "learn": {"update_per_collect": 5, "batch_size": 64, "learning_rate": 0.0005, "target_update_theta": 0.001},
    "collect": {"n_sample": 32, "unroll_len": 42, "traj_len_inf": True, "env_num": 8},
    "eval": {"env_num": 5, "evaluator": {"eval_freq": NEVER}},
    "other": {
        "eps": {"type": "exp", "start": 0.95, "end": 0.05, "decay": 10000},
        "replay_buffer": {"replay_buffer_size": 100000},
    },
}


def config(algorithm: str) -> tuple[EasyDict, EasyDict]:
    if algorithm == "qmix":
        return cooperative_config()
    main = {
        "exp_name": "bench_pipeline",
        "env": {
            "env_id": "CartPole-v1",
            "collector_env_num": 8,
            "evaluator_env_num": 5,
            "n_evaluator_episode": 5,
            "stop_value": NEVER,
        },
        "policy": PPO if algorithm == "ppo" else R2D2,
    }
    create: dict[str, Any] = {"env": env_entry(), "env_manager": {"type": "base"}, "policy": {"type": algorithm}}
    if algorithm == "r2d2":
        create["replay_buffer"] = buffer_entry("advanced")
    return EasyDict(main), EasyDict(create)


def cooperative_config() -> tuple[EasyDict, EasyDict]:
    env = {**ENV, "n_evaluator_episode": 8, "stop_value": NEVER}
    policy = {**QMIX, "eval": {**QMIX["eval"], "evaluator": {"eval_freq": NEVER}}}
    create = {"env": line_cover_entry(), "env_manager": {"type": "base"}, "policy": {"type": "qmix"}}
    return EasyDict(exp_name="bench_pipeline", env=env, policy=policy), EasyDict(create)


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=("ppo", "r2d2", "qmix"), required=True)
    parser.add_argument("--train-iter", type=int, required=True)
    args = parser.parse_args()
    check_import()
    from ding.entry import serial_pipeline, serial_pipeline_onpolicy

    updates = count_optimizer_steps()
    samples = count_kept_samples()
    pipeline = serial_pipeline_onpolicy if args.algorithm == "ppo" else serial_pipeline

    def run() -> None:
        pipeline(config(args.algorithm), seed=0, max_train_iter=args.train_iter)

    work = {"algorithm": args.algorithm, "train_iter": args.train_iter}
    return Side({"run": Op(run, lambda: {"samples": samples(), "updates": updates()}, single=True)}, work)


def count_kept_samples() -> Any:
    """Count what collections return, over all collectors of this process.

    DI-engine drops the segments that have begun when an on-policy collection ends: env steps that nobody learns from.
    """
    from ding.worker import SampleSerialCollector

    total = [0]
    collect = SampleSerialCollector.collect

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        samples = collect(self, *args, **kwargs)
        total[0] += len(samples)
        return samples

    SampleSerialCollector.collect = counted
    return lambda: total[0]


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
