"""Vector envs of the peers alone, with prepared actions and automatic resets."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_side import Op, Side, serve
from bench_work import ROLLOUT

GYMNASIUM = ("sync", "async", "vectorised")


def make_gymnasium(kind: str, envs: int) -> Any:
    import gymnasium

    if kind == "vectorised":
        return gymnasium.make_vec("CartPole-v1", num_envs=envs, vectorization_mode="vector_entry_point")
    cls = gymnasium.vector.SyncVectorEnv if kind == "sync" else gymnasium.vector.AsyncVectorEnv
    return cls([lambda: gymnasium.make("CartPole-v1")] * envs)


def make(library: str, kind: str, envs: int) -> tuple[Callable[[np.ndarray], Any], Callable[[], Any]]:
    """``(step, close)`` of a vector env that was reset."""
    if library == "sb3":
        from stable_baselines3.common.env_util import make_vec_env
        from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

        vector = make_vec_env("CartPole-v1", envs, vec_env_cls=SubprocVecEnv if kind == "process" else DummyVecEnv)
    elif library == "envpool":
        import envpool

        vector = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=envs, num_threads=1)
    elif library == "tianshou":
        return make_tianshou(kind, envs)
    else:
        vector = make_gymnasium(kind, envs)
    vector.reset()
    return vector.step, vector.close


def make_tianshou(kind: str, envs: int) -> tuple[Callable[[np.ndarray], Any], Callable[[], Any]]:
    """tianshou's vector envs leave the reset to the collector; here it is done at once."""
    import gymnasium
    from tianshou.env import DummyVectorEnv, ShmemVectorEnv

    cls = ShmemVectorEnv if kind == "process" else DummyVectorEnv
    vector = cls([lambda: gymnasium.make("CartPole-v1")] * envs)
    vector.reset()

    def step(actions: np.ndarray) -> None:
        _, _, terminated, truncated, _ = vector.step(actions)
        done = np.logical_or(terminated, truncated)
        if done.any():
            vector.reset(np.flatnonzero(done))

    return step, vector.close


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("gymnasium", "sb3", "tianshou", "envpool"))
    parser.add_argument("kind", choices=(*GYMNASIUM, "process", "serial"))
    parser.add_argument("--envs", type=int, default=8)
    args = parser.parse_args()
    step_once, close = make(args.library, args.kind, args.envs)
    actions = np.random.default_rng(0).integers(0, 2, (256, args.envs)).astype(np.int32)
    if args.library != "envpool":
        actions = actions.astype(np.int64)
    steps, turn = [0], [0]

    def step() -> None:
        for _ in range(ROLLOUT):
            turn[0] = (turn[0] + 1) % len(actions)
            step_once(actions[turn[0]])
        steps[0] += ROLLOUT * args.envs

    return Side({"step": Op(step, lambda: {"env_steps": steps[0]})}, {"envs": args.envs}, close)


if __name__ == "__main__":
    serve(build, "stable-baselines3", "tianshou", "envpool")
