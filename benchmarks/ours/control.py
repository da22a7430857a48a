"""Continuous control end to end, by hand over the DI-engine API. For this project and for DI-engine."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    CONTROL_BATCH_SIZE,
    CONTROL_BUFFER_SIZE,
    CONTROL_ENVS,
    CONTROL_HIDDEN,
    DROQ_ACTOR_FREQ,
    DROQ_DROPOUT,
    control_work,
)
from ding_parts import OWN, Parts, Task, buffer_entry, joined_updates, pendulum_entry
from easydict import EasyDict

# Steps of all optimisers per update: critics, actor (every second time in TD3), temperature.
OPTIMIZER_STEPS = {"sac": 3.0, "td3": 1.5, "ddpg": 2.0}
# Of algorithms with an ensemble, as sbx has them by default: what the network and the updates are.
ENSEMBLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tqc": ({"ensemble_num": 2, "num_quantiles": 25, "critic_head_layer_num": 2}, {}),
    "crossq": ({"ensemble_num": 2}, {}),
    "droq": ({"ensemble_num": 2, "dropout": DROQ_DROPOUT}, {"actor_update_freq": DROQ_ACTOR_FREQ}),
}
ENV = {"env_id": "Pendulum-v1", "act_scale": True}


def task(args: argparse.Namespace) -> Task:
    """An algorithm on Pendulum."""
    model, learn = ENSEMBLES.get(args.algorithm, (None, {}))
    if model is None:
        space = "reparameterization" if args.algorithm == "sac" else "regression"
        model = {"twin_critic": args.algorithm != "ddpg", "action_space": space}
    compiled = {"compile": True} if args.compile else {}
    main = {
        "exp_name": "bench_control",
        "env": {**ENV, "collector_env_num": CONTROL_ENVS, "evaluator_env_num": 1, "n_evaluator_episode": 1},
        "policy": {
            "cuda": False,
            "model": {
                "obs_shape": 3,
                "action_shape": 1,
                **model,
                # Heads of actors, and of critics without an ensemble, have a hidden layer behind the first one.
                "actor_head_hidden_size": CONTROL_HIDDEN[0],
                "critic_head_hidden_size": CONTROL_HIDDEN[0],
            },
            "learn": {"update_per_collect": CONTROL_ENVS, "batch_size": CONTROL_BATCH_SIZE, **learn, **compiled},
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

    if algorithm in ENSEMBLES:
        return policy.get_policy_cls(EasyDict(type=algorithm))
    return {"sac": policy.SACPolicy, "td3": policy.TD3Policy, "ddpg": policy.DDPGPolicy}[algorithm]


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=(*OPTIMIZER_STEPS, *ENSEMBLES), default="sac")
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
        if args.compile or args.algorithm in ENSEMBLES:
            return OPTIMIZER_STEPS.get(args.algorithm, 1.0) * learner.train_iter
        return steps()

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
