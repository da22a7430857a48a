"""Continuous control end to end, by hand over the DI-engine API. For this project and for DI-engine."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    CONTROL_ALGORITHMS,
    CONTROL_BATCH_SIZE,
    CONTROL_BUFFER_SIZE,
    CONTROL_ENVS,
    CONTROL_HIDDEN,
    control_work,
)
from ding_parts import OWN, Parts, Task, buffer_entry, joined_updates, pendulum_entry
from easydict import EasyDict

# Steps of all optimisers per update: critics, actor (every second time in TD3), temperature.
OPTIMIZER_STEPS = {"sac": 3.0, "td3": 1.5, "ddpg": 2.0}
ENV = {"env_id": "Pendulum-v1", "act_scale": True}


def task(args: argparse.Namespace) -> Task:
    """SAC, TD3 or DDPG on Pendulum."""
    soft = args.algorithm == "sac"
    compiled = {"compile": True} if args.compile else {}
    main = {
        "exp_name": "bench_control",
        "env": {**ENV, "collector_env_num": CONTROL_ENVS, "evaluator_env_num": 1, "n_evaluator_episode": 1},
        "policy": {
            "cuda": False,
            "model": {
                "obs_shape": 3,
                "action_shape": 1,
                "twin_critic": args.algorithm != "ddpg",
                "action_space": "reparameterization" if soft else "regression",
                # Their heads have a hidden layer behind the first one.
                "actor_head_hidden_size": CONTROL_HIDDEN[0],
                "critic_head_hidden_size": CONTROL_HIDDEN[0],
            },
            "learn": {"update_per_collect": CONTROL_ENVS, "batch_size": CONTROL_BATCH_SIZE, **compiled},
            "collect": {"n_sample": CONTROL_ENVS},
            "other": {"replay_buffer": {"replay_buffer_size": CONTROL_BUFFER_SIZE}},
        },
    }
    main["env"]["stop_value"] = 10**9
    create = {
        "env": pendulum_entry(),
        "env_manager": {"type": args.manager},
        "policy": {"type": args.algorithm},
        "replay_buffer": buffer_entry(args.buffer),
    }
    configs = (EasyDict(main), EasyDict(create))
    return Task(configs, functools.partial(_env, EasyDict(ENV)), _policy_class(args.algorithm))


def _env(cfg: EasyDict) -> Any:
    if OWN:
        from ding.envs import DingEnvWrapper

        return DingEnvWrapper(cfg=cfg)
    from dizoo.classic_control.pendulum.envs.pendulum_env import PendulumEnv

    return PendulumEnv(cfg)


def _policy_class(algorithm: str) -> Any:
    from ding import policy

    return {"sac": policy.SACPolicy, "td3": policy.TD3Policy, "ddpg": policy.DDPGPolicy}[algorithm]


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=CONTROL_ALGORITHMS, default="sac")
    parser.add_argument("--manager", default="base")
    parser.add_argument("--buffer", default="naive")
    parser.add_argument("--compile", action="store_true", help="policy.learn.compile")
    args = parser.parse_args()
    args.envs = CONTROL_ENVS
    parts = Parts(args, CONTROL_ENVS, learner=True, task=task(args))
    collector, buffer, learner = parts.collector, parts.buffer, parts.learner
    steps = count_optimizer_steps()
    joined = joined_updates(learner, CONTROL_ENVS) if args.compile else 1
    kwargs = {"num_updates": joined} if joined > 1 else None

    def updates() -> float:
        return OPTIMIZER_STEPS[args.algorithm] * learner.train_iter if args.compile else steps()

    kept = [0]

    def collect() -> None:
        samples = collector.collect(train_iter=learner.train_iter)
        buffer.push(samples, cur_collector_envstep=collector.envstep)
        kept[0] += len(samples)

    def train() -> None:
        collect()
        for _ in range(CONTROL_ENVS // joined):
            learner.train(buffer.sample(CONTROL_BATCH_SIZE * joined, learner.train_iter), collector.envstep, kwargs)

    for _ in range(max(2, joined) * CONTROL_BATCH_SIZE // CONTROL_ENVS):
        collect()
    ops = {"train": Op(train, lambda: {"env_steps": kept[0], "updates": updates()})}
    return Side(ops, control_work(args.algorithm), parts.close, warm_calls=5)


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
