"""``python -m benchmarks.update_hops``: through how many functions and files one update of an algorithm goes.

Counted is what a reader has to open to follow one ``learner.train`` on a batch, from the learner through the policy,
its networks and its optimiser to the log: the distinct functions of the project and their files. Functions of other
packages and comprehensions do not count, nor does a line of the log, which comes once in many updates. PPO's call has
its returns and all its minibatches in it.
"""

import argparse
import contextlib
import io
import tempfile
from typing import Any

import numpy as np
import torch

from benchmarks.hops import Calls, Tracer

BOUNDS = {"dqn": (28, 10), "sac": (40, 12), "ppo": (55, 18)}
"""The most functions and files. At commit 2ae24836 they were 52 in 18, 69 in 23 and 82 in 30."""


def make_learner(name: str, folder: str) -> tuple[Any, dict[str, Any]]:
    """Return a learner of the algorithm with its default network, and columns of a batch."""
    from ding.policy import DQNPolicy, PPOPolicy, SACPolicy
    from ding.worker import BaseLearner

    policy_cls = {"dqn": DQNPolicy, "sac": SACPolicy, "ppo": PPOPolicy}[name]
    cfg = policy_cls.default_config()
    cfg.model.obs_shape, cfg.model.action_shape = 4, 2
    learner_cfg = BaseLearner.default_config()
    learner_cfg.hook.log_show_after_iter = 10**6
    policy = policy_cls(cfg, enable_field=["learn"])
    learner = BaseLearner(learner_cfg, policy.learn_mode, exp_name=folder)
    size = cfg.learn.batch_size * (10 if name == "ppo" else 1)
    columns: dict[str, Any] = {
        "obs": torch.randn(size, 4),
        "next_obs": torch.randn(size, 4),
        "action": torch.rand(size, 2) if name == "sac" else torch.randint(2, (size, 1)),
        "reward": torch.randn(size, 1),
        "done": np.zeros(size, dtype=np.bool_),
    }
    if name == "ppo":
        further = {"logit": torch.randn(size, 2), "value": torch.randn(size, 1), "adv": torch.randn(size, 1)}
        columns |= {**further, "traj_flag": np.zeros(size, dtype=np.bool_)}
    return learner, columns


def calls_of_update(name: str) -> Calls:
    """Return the calls of the third ``learner.train``: what is made in the first ones is there then."""
    from ding.data import TransitionBatch

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        learner, columns = make_learner(name, folder)
        batches = [TransitionBatch(dict(columns)) for _ in range(3)]
        for batch in batches[:2]:
            learner.train(batch, 0)
        tracer = Tracer()
        tracer.start()
        try:
            learner.train(batches[2], 0)
        finally:
            calls = tracer.stop()
        learner.close()
    return calls


def main() -> None:
    """Print the counts of each algorithm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BOUNDS), help="dqn, sac, ppo")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the functions with their numbers of calls")
    arguments = parser.parse_args()
    for name in arguments.names:
        calls = calls_of_update(name)
        functions, files = BOUNDS[name]
        print(
            f"{name}: {len(calls)} functions in {len({file for file, _ in calls})} files, {sum(calls.values())} calls "
            f"(at most: {functions} in {files})"
        )
        if arguments.verbose:
            for (file, function), count in calls.items():
                print(f"  {count:5d}  {file}  {function}")


if __name__ == "__main__":
    main()
