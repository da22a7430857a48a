"""tianshou's collector over its DummyVectorEnv or ShmemVectorEnv."""

from __future__ import annotations

import argparse

from bench_side import Op, Side, serve
from bench_work import COLLECT_HIDDEN, ROLLOUT, collect_work


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--shmem", action="store_true")
    args = parser.parse_args()
    from tianshou.utils.torch_utils import policy_within_training_step
    from tianshou_parts import make_collector, make_policy

    policy = make_policy(COLLECT_HIDDEN)
    collector = make_collector(policy, args.envs, args.shmem)
    steps = [0]

    def collect() -> None:
        with policy_within_training_step(policy):
            steps[0] += collector.collect(n_step=ROLLOUT * args.envs).n_collected_steps

    work = {**collect_work(args.envs), "network": "mlp"}
    return Side({"collect": Op(collect, lambda: {"env_steps": steps[0]})}, work, collector.env.close)


if __name__ == "__main__":
    serve(build, "tianshou")
