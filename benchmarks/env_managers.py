"""Env steps per second of the env managers and of gymnasium's vector envs, on CartPole-v1.

All of them live in one process and are timed in turn, in short windows, so that a busy machine is unfair to none.

Usage: python benchmarks/env_managers.py [--envs 8] [--windows 5] [--seconds 0.7]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from ding.data import EnvBatch
from ding.envs.env import DingEnvWrapper
from ding.envs.env_manager import AsyncSubprocessEnvManager, BaseEnvManager, SyncSubprocessEnvManager

Step = Callable[[], int]


def make_gym() -> Any:
    return gymnasium.make("CartPole-v1")


def make_ding() -> Any:
    return DingEnvWrapper(make_gym())


def ding_step(cls: type, num_envs: int, **cfg: Any) -> tuple[Any, Step]:
    manager = cls([make_ding] * num_envs, cfg)
    manager.seed(0)
    manager.launch()
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, (256, num_envs, 1))
    count = 0

    def step() -> int:
        nonlocal count
        count = (count + 1) % 256
        obs = manager.ready_obs
        return len(manager.step(EnvBatch(obs.env_ids, actions[count, : len(obs)])))

    return manager, step


def gym_step(cls: type, num_envs: int) -> tuple[Any, Step]:
    envs = cls([make_gym] * num_envs)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 2, (256, num_envs))
    count = 0

    def step() -> int:
        nonlocal count
        count = (count + 1) % 256
        envs.step(actions[count])
        return num_envs

    return envs, step


def rate(step: Step, seconds: float) -> float:
    for _ in range(20):
        step()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        steps += step()
    return steps / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.7)
    args = parser.parse_args()
    num_envs = args.envs
    peers = {
        "gymnasium AsyncVectorEnv": gym_step(gymnasium.vector.AsyncVectorEnv, num_envs),
        "gymnasium SyncVectorEnv": gym_step(gymnasium.vector.SyncVectorEnv, num_envs),
        "base": ding_step(BaseEnvManager, num_envs),
        "subprocess": ding_step(SyncSubprocessEnvManager, num_envs),
        "subprocess, 4 envs per worker": ding_step(SyncSubprocessEnvManager, num_envs, envs_per_worker=4),
        "async_subprocess": ding_step(AsyncSubprocessEnvManager, num_envs, step_wait_timeout=0.0),
    }
    rates: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(args.windows):
        for name, (_, step) in peers.items():
            rates[name].append(rate(step, args.seconds))
    for name, found in rates.items():
        print(f"{name:32s} best {max(found):9,.0f}   median {float(np.median(found)):9,.0f} env steps/s")
    for envs, _ in peers.values():
        envs.close()


if __name__ == "__main__":
    main()
