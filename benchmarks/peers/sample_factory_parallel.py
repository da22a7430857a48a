"""sample-factory's APPO on CartPole: a learner, an inference worker, and some rollout workers, all processes."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from typing import Any

from bench_counting import count_updates, make_cartpole
from bench_events import FOLDER_VARIABLE, EventLog
from bench_runs import run_side
from bench_side import Side, serve
from bench_work import DQN_HIDDEN

ENV_NAME = "CartPole-v1"
ROLLOUT = 32
NEVER = 10**9


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collectors", type=int, default=2)
    parser.add_argument("--envs", type=int, default=8, help="per collector")
    parser.add_argument("--warm-up", type=float, default=10.0, help="seconds from the first update to the window")
    parser.add_argument("--window", type=float, default=20.0, help="seconds")
    parser.add_argument("--run", action="store_true", help="be the parallel run, do not serve")
    return parser.parse_args()


def options(args: argparse.Namespace) -> list[str]:
    """Those of its CartPole example that fit; a batch is what all envs give in one rollout."""
    chosen = {
        "algo": "APPO",
        "env": ENV_NAME,
        "experiment": "bench",
        "train_dir": "train",
        "device": "cpu",
        "use_rnn": False,
        "recurrence": 1,
        "rollout": ROLLOUT,
        "batch_size": args.collectors * args.envs * ROLLOUT,
        "num_workers": args.collectors,
        "num_envs_per_worker": args.envs,
        "with_vtrace": False,
        "reward_scale": 0.1,
        "decorrelate_envs_on_one_worker": False,
        "save_every_sec": NEVER,
        "train_for_env_steps": NEVER,
        "train_for_seconds": NEVER,
    }
    words = [f"--{name}={value}" for name, value in chosen.items()]
    return [*words, "--encoder_mlp_layers", *map(str, DQN_HIDDEN)]


def count() -> None:
    """Count in every process: each of them imports this script again."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        return
    from sample_factory.algo.learning.learner import Learner
    from sample_factory.algo.sampling.inference_worker import InferenceWorker

    log = EventLog(folder)
    count_updates()
    _after(Learner, "train", lambda learner: log.add("push", learner.cfg.batch_size))
    # The network runs there, not in the rollout workers: its CPU time belongs to collecting.
    _after(InferenceWorker, "_handle_policy_steps", lambda worker: log.add("env_step", 0))


def _after(owner: type, name: str, note: Any) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        note(self)
        return result

    setattr(owner, name, noted)


def run(args: argparse.Namespace) -> None:
    """Train until killed."""
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import run_rl

    register_env(ENV_NAME, make_cartpole)
    words = options(args)
    parser, _ = parse_sf_args(argv=words)
    run_rl(parse_full_cfg(parser, words))


def build() -> Side:
    args = arguments()
    command = [sys.executable, __file__, "--run", "--collectors", str(args.collectors), "--envs", str(args.envs)]
    work = {"task": "CartPole-v1", "network": list(DQN_HIDDEN), "envs_per_collector": args.envs}
    return run_side(command, work, args.warm_up, args.window)


# Processes that are not forked import this script, so that they count, too.
count()

if __name__ == "__main__":
    given = arguments()
    if given.run:
        run(given)
    else:
        serve(build, "sample-factory")
