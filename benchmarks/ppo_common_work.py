"""PPO on the common work: CartPole, 8 envs, 128 steps each, 4 epochs, minibatches of 256, two layers of 64 units.

Prints env steps per second of CPU time, medians over the rounds, in which this library and stable-baselines3 take turns
(`--with-sb3`, where that can be imported). Networks, optimiser and number of updates are equal; both normalise
advantages in each minibatch and clip the norm of the gradient to 0.5.

    OMP_NUM_THREADS=1 python -m benchmarks.ppo_common_work --rounds 7 --with-sb3
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

ENVS, STEPS, EPOCHS, MINIBATCH, WIDTH = 8, 128, 4, 256, 64
PASSES = 10


def ours(folder: str) -> Callable[[], float]:
    """A function that trains for ``PASSES`` passes and returns CPU seconds, those of building everything aside."""
    from easydict import EasyDict

    from ding.entry import serial_pipeline_onpolicy
    from ding.entry.view.views import make_view

    width = {
        "encoder_hidden_size_list": [WIDTH, WIDTH],
        "actor_head_hidden_size": WIDTH,
        "critic_head_hidden_size": WIDTH,
        "actor_head_layer_num": 0,
        "critic_head_layer_num": 0,
    }
    main = {
        "exp_name": str(Path(folder) / "ding"),
        "env": {
            "env_id": "CartPole-v1",
            "collector_env_num": ENVS,
            "evaluator_env_num": 1,
            "n_evaluator_episode": 1,
            "stop_value": 1e9,
        },
        "policy": {
            "recompute_adv": False,
            "model": {"obs_shape": 4, "action_shape": 2, "share_encoder": False, **width},
            "learn": {"epoch_per_collect": EPOCHS, "batch_size": MINIBATCH, "value_norm": False},
            "collect": {"n_sample": ENVS * STEPS},
            "eval": {"evaluator": {"eval_freq": 10**9}},
        },
    }
    create = {"env": {"type": "gymnasium", "import_names": ["ding.envs"]}, "env_manager": {"type": "base"},
              "policy": {"type": "ppo"}}  # fmt: skip

    def run(passes: int) -> float:
        start = time.process_time()
        config = EasyDict(deepcopy(main)), EasyDict(deepcopy(create))
        serial_pipeline_onpolicy(config, max_env_step=passes * ENVS * STEPS, view=make_view(quiet=True))
        return time.process_time() - start

    return lambda: run(PASSES + 1) - run(1)


def sb3(folder: str) -> Callable[[], float]:
    """The same of stable-baselines3."""
    from stable_baselines3 import PPO  # type: ignore[import-not-found]
    from stable_baselines3.common.env_util import make_vec_env  # type: ignore[import-not-found]
    from torch import nn

    def run(passes: int) -> float:
        start = time.process_time()
        agent = PPO(
            "MlpPolicy", make_vec_env("CartPole-v1", ENVS), n_steps=STEPS, batch_size=MINIBATCH, n_epochs=EPOCHS,
            policy_kwargs={"net_arch": [WIDTH, WIDTH], "activation_fn": nn.ReLU}, device="cpu",
        )  # fmt: skip
        agent.learn(passes * ENVS * STEPS)
        return time.process_time() - start

    return lambda: run(PASSES + 1) - run(1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--with-sb3", action="store_true")
    args = parser.parse_args()
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        sides = {"ding": ours(folder)}
        if args.with_sb3:
            sides["stable-baselines3"] = sb3(folder)
        for run in sides.values():
            run()
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(args.rounds):
            for name, run in sides.items():
                rates[name].append(PASSES * ENVS * STEPS / run())
    for name, values in rates.items():
        ratio = statistics.median(mine / its for mine, its in zip(rates["ding"], values))
        print(f"{name}: {statistics.median(values):,.0f} env steps per CPU second; ding / {name}: {ratio:.2f}")


if __name__ == "__main__":
    main()
