"""The collector on Pong with the Nature network, beside what the envs and the forward pass alone allow.

Prints env steps (of four frames) per second of CPU time, medians over the rounds, in which the kinds of env managers
take turns: ``gym_vector`` (ale-py's vector env), ``env_pool`` (EnvPool) and ``base`` (one env after the other). Per
kind there are two figures: a bare loop over the vector env and the network, and the collector of DQN with its
exploration, its samples and their episodes.

    OMP_NUM_THREADS=1 python -m benchmarks.atari_collect --rounds 7
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import torch
from easydict import EasyDict

from ding.envs import create_env_manager
from ding.envs.zoo.atari_env import AtariEnv
from ding.policy import DQNPolicy
from ding.utils import deep_merge_dicts
from ding.worker import SampleSerialCollector

STEPS = 96
MODEL = {"obs_shape": [4, 84, 84], "action_shape": 6, "encoder_hidden_size_list": [32, 64, 64, 512]}


def policy() -> DQNPolicy:
    """DQN with the network of Mnih et al. 2015."""
    cfg = deep_merge_dicts(DQNPolicy.default_config(), {"cuda": False, "nstep": 1, "model": MODEL})
    return DQNPolicy(EasyDict(cfg), enable_field=["learn", "collect"])


def sides(kind: str, folder: str, num_envs: int) -> dict[str, Callable[[], float]]:
    """Functions that do ``STEPS`` vector steps and return their CPU seconds: the bare loop, and the collector."""
    manager_cfg = {"type": kind, **({"num_threads": 1} if kind == "env_pool" else {})}
    # One thread, as the other side has: all that ale-py's vector env does is in the CPU time anyway.
    fns = [partial(AtariEnv, {"env_id": "PongNoFrameskip-v4"})] * num_envs
    manager = create_env_manager(EasyDict(manager_cfg), fns)
    manager.seed(0)
    agent = policy()
    collector = SampleSerialCollector(
        EasyDict(SampleSerialCollector.default_config(), collect_print_freq=10**9),
        manager, agent.collect_mode, exp_name=folder,
    )  # fmt: skip

    def collect() -> float:
        start = time.process_time()
        collector.collect(n_sample=num_envs * STEPS, policy_kwargs={"eps": 0.1})
        return time.process_time() - start

    if kind == "base":
        return {"collector": collect}
    bare = create_env_manager(EasyDict(manager_cfg), fns)
    bare.launch()
    envs = bare._venv.env
    network = agent._model
    frames, _ = envs.reset()

    @torch.inference_mode()
    def loop() -> float:
        nonlocal frames
        start = time.process_time()
        for _ in range(STEPS):
            obs = torch.from_numpy(frames).float().div_(255)
            actions = network(obs)["logit"].argmax(dim=1).numpy()
            frames = envs.step(actions)[0]
        return time.process_time() - start

    return {"bare": loop, "collector": collect}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--kinds", nargs="+", default=["gym_vector", "env_pool", "base"])
    args = parser.parse_args()
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        runs = {(kind, name): run for kind in args.kinds for name, run in sides(kind, folder, args.envs).items()}
        seconds: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
        for round_ in range(args.rounds + 1):
            for key, run in runs.items():
                taken = run()
                if round_:
                    seconds[key].append(taken)
    for kind in args.kinds:
        rate = {
            name: args.envs * STEPS / statistics.median(values) for (of, name), values in seconds.items() if of == kind
        }
        line = ", ".join(f"{name} {value:,.0f}" for name, value in rate.items())
        if "bare" in rate:
            pairs = zip(seconds[kind, "bare"], seconds[kind, "collector"])
            line += f"; collector / bare: {statistics.median(bare / ours for bare, ours in pairs):.2f}"
        print(f"{kind}: {line}")


if __name__ == "__main__":
    main()
