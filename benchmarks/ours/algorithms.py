"""Other algorithms on the peers' common work, by hand over the DI-engine API. For this project and for DI-engine."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    A2C_STEPS,
    ACTOR_CRITIC_HIDDEN,
    BATCH_SIZE,
    BUFFER_SIZE,
    DISCOUNT,
    DQN_HIDDEN,
    EPSILON,
    LEARNING_RATE,
    PPO_EPOCHS,
    PPO_MINIBATCH,
    PPO_STEPS,
    ROLLOUT,
    TARGET_FREQ,
    dqn_work,
    on_policy_work,
)
from ding_parts import OWN, Parts, Task, buffer_entry, check_import, env_class, env_entry
from easydict import EasyDict

ENVS = 8
ON_POLICY = ("ppo", "a2c", "pqn")
VALUE_BASED = ("c51", "qrdqn")
EXPLORING = (*VALUE_BASED, "pqn")


def config(args: argparse.Namespace) -> tuple[EasyDict, EasyDict]:
    """``(main_config, create_config)`` of an algorithm on CartPole."""
    policy = {"cuda": False, **SECTIONS[args.algorithm](args)}
    if args.compile:
        policy["learn"]["compile"] = True
    env = {"env_id": "CartPole-v1", "collector_env_num": ENVS, "evaluator_env_num": 1, "n_evaluator_episode": 1}
    main = {"exp_name": "bench", "env": {**env, "stop_value": 10**9}, "policy": policy}
    create = {"env": env_entry(), "env_manager": {"type": args.manager}, "policy": {"type": args.algorithm}}
    create["replay_buffer"] = buffer_entry(args.buffer)
    return EasyDict(main), EasyDict(create)


def actor_critic(**more: Any) -> dict[str, Any]:
    """A model with separate networks for actor and critic."""
    width = ACTOR_CRITIC_HIDDEN[-1]
    heads = {f"{part}_head_{key}": value for part in ("actor", "critic") for key, value in
             (("hidden_size", width), ("layer_num", 0))}  # fmt: skip
    sizes = {"encoder_hidden_size_list": list(ACTOR_CRITIC_HIDDEN), "share_encoder": False, **heads}
    return {"obs_shape": 4, "action_shape": 2, **sizes, **more}


def ppo(args: argparse.Namespace) -> dict[str, Any]:
    """Advantages once per collection, as the peers compute them."""
    learn = {"epoch_per_collect": PPO_EPOCHS, "batch_size": PPO_MINIBATCH, "value_norm": False, "learning_rate": 3e-4}
    return {
        "recompute_adv": False,
        "action_space": "discrete",
        "model": actor_critic(action_space="discrete"),
        "learn": learn,
        "collect": {"n_sample": PPO_STEPS * ENVS},
    }


def pqn(args: argparse.Namespace) -> dict[str, Any]:
    """The collections and updates of PPO."""
    sizes = {"encoder_hidden_size_list": list(ACTOR_CRITIC_HIDDEN), "head_layer_num": 0}
    return {
        "model": {"obs_shape": 4, "action_shape": 2, **sizes},
        "learn": {"epoch_per_collect": PPO_EPOCHS, "batch_size": PPO_MINIBATCH},
        "collect": {"n_sample": PPO_STEPS * ENVS},
    }


def a2c(args: argparse.Namespace) -> dict[str, Any]:
    """One update per collection."""
    rows = A2C_STEPS * ENVS
    return {
        "model": actor_critic(action_space="discrete"),
        "learn": {"batch_size": rows, "learning_rate": 7e-4},
        "collect": {"n_sample": rows, "unroll_len": 1},
    }


def impala(args: argparse.Namespace) -> dict[str, Any]:
    """Sequences of the length of A2C's collection, and one update of as many."""
    return {
        "unroll_len": A2C_STEPS,
        "model": actor_critic(action_space="discrete"),
        "learn": {"update_per_collect": 1, "batch_size": ENVS, "learning_rate": 7e-4},
        "collect": {"n_sample": ENVS},
        "other": {"replay_buffer": {"replay_buffer_size": 1000}},
    }


def value_based(args: argparse.Namespace) -> dict[str, Any]:
    """The work of DQN."""
    shape = {"n_atom": 51, "v_min": 0, "v_max": 100} if args.algorithm == "c51" else {"num_quantiles": 51}
    return {
        "model": {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": list(DQN_HIDDEN), **shape},
        "nstep": 1,
        "discount_factor": DISCOUNT,
        "learn": {
            "update_per_collect": args.updates,
            "batch_size": BATCH_SIZE,
            "learning_rate": LEARNING_RATE,
            "target_update_freq": TARGET_FREQ,
        },
        "collect": {"n_sample": ROLLOUT * ENVS, "unroll_len": 1},
        "other": {"replay_buffer": {"replay_buffer_size": BUFFER_SIZE}},
    }


SECTIONS: dict[str, Any] = {
    "ppo": ppo,
    "pqn": pqn,
    "a2c": a2c,
    "impala": impala,
    "c51": value_based,
    "qrdqn": value_based,
}


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=SECTIONS, required=True)
    parser.add_argument("--manager", default="base")
    parser.add_argument("--buffer", default="naive")
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="policy.learn.compile")
    args = parser.parse_args()
    args.envs = ENVS
    check_import()
    from ding.policy import create_policy

    env_cfg = EasyDict({"env_id": "CartPole-v1"} if OWN else {"replay_path": None})
    task = Task(config(args), functools.partial(env_class(), cfg=env_cfg), create_policy)
    parts = Parts(args, 0, learner=True, task=task)
    collector, buffer, learner = parts.collector, parts.buffer, parts.learner
    optimizer_steps = count_optimizer_steps()
    explore = {"eps": EPSILON} if args.algorithm in EXPLORING else None
    size = ENVS if args.algorithm == "impala" else BATCH_SIZE
    repeats = 1 if args.algorithm == "impala" else args.updates
    steps = [0]

    def collect() -> Any:
        before = collector.envstep
        samples = collector.collect(train_iter=learner.train_iter, policy_kwargs=explore)
        steps[0] += collector.envstep - before
        return samples

    def updates() -> int:
        # A compiled update counts its steps in a tensor that the optimiser got when it was recorded.
        return learner.train_iter if args.compile else optimizer_steps()

    def train() -> None:
        samples = collect()
        if args.algorithm in ON_POLICY:
            learner.train(samples, collector.envstep)
            return
        buffer.push(samples, cur_collector_envstep=collector.envstep)
        for _ in range(repeats):
            learner.train(buffer.sample(size, learner.train_iter), collector.envstep)

    if args.algorithm not in ON_POLICY:
        for _ in range(10):
            buffer.push(collect(), cur_collector_envstep=collector.envstep)
    work = dqn_work(args.updates) if args.algorithm in VALUE_BASED else on_policy_work(args.algorithm)
    return Side({"train": Op(train, lambda: {"env_steps": steps[0], "updates": updates()})}, work, parts.close)


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
