"""RLlib's IMPALA and APPO on CartPole: one learner and some env runners in processes of their own."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from bench_counting import count_updates, make_cartpole
from bench_events import FOLDER_VARIABLE, EventLog
from bench_runs import run_side
from bench_side import Side, serve
from bench_work import DQN_HIDDEN

ENV_NAME = "CountingCartPole"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("algorithm", choices=("impala", "appo"))
    parser.add_argument("--collectors", type=int, default=2)
    parser.add_argument("--envs", type=int, default=8, help="per collector")
    parser.add_argument("--warm-up", type=float, default=10.0, help="seconds from the first update to the window")
    parser.add_argument("--window", type=float, default=20.0, help="seconds")
    parser.add_argument("--run", action="store_true", help="be the parallel run, do not serve")
    return parser.parse_args()


def make_config(args: argparse.Namespace) -> Any:
    """RLlib's config: what is not named here is its default."""
    from ray.rllib.algorithms.appo import APPOConfig
    from ray.rllib.algorithms.impala import IMPALAConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    config = IMPALAConfig() if args.algorithm == "impala" else APPOConfig()
    return (
        config.environment(ENV_NAME)
        .env_runners(num_env_runners=args.collectors, num_envs_per_env_runner=args.envs)
        .learners(num_learners=1, num_gpus_per_learner=0)
        .reporting(min_time_s_per_iteration=1)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=list(DQN_HIDDEN), fcnet_activation="relu"))
    )


def run(args: argparse.Namespace) -> None:
    """Train until killed; each reported iteration says how many env steps the algorithm has received."""
    import ray
    from ray.tune.registry import register_env

    log = EventLog(os.environ[FOLDER_VARIABLE])
    # As many logical CPUs as it wants actors: on a machine with fewer, the system shares them out.
    ray.init(
        # Not any cluster that happens to run on this machine.
        address="local",
        num_cpus=args.collectors + 2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"worker_process_setup_hook": count_updates},
    )
    register_env(ENV_NAME, make_cartpole)
    algorithm = make_config(args).build_algo()
    received = 0.0
    while True:
        result = algorithm.train()
        now = result["env_runners"].get("num_env_steps_sampled_lifetime", received)
        log.add("push", int(now - received))
        received = now


def build() -> Side:
    args = arguments()
    counts = ["--collectors", str(args.collectors), "--envs", str(args.envs)]
    command = [sys.executable, __file__, args.algorithm, "--run", *counts]
    work = {"task": "CartPole-v1", "network": list(DQN_HIDDEN), "envs_per_collector": args.envs}
    return run_side(command, work, args.warm_up, args.window)


if __name__ == "__main__":
    given = arguments()
    if given.run:
        run(given)
    else:
        serve(build, "ray")
