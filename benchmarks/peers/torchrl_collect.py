"""torchrl's collector over SerialEnv."""

from __future__ import annotations

import argparse

from bench_side import Op, Side, serve
from bench_work import COLLECT_HIDDEN, ROLLOUT, collect_work


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8)
    args = parser.parse_args()
    from torchrl_parts import make_actors, make_buffer, make_collector, make_env

    env = make_env(args.envs, track=False)
    _, policy = make_actors(env, COLLECT_HIDDEN)
    buffer = make_buffer()
    collector = make_collector(env, policy, ROLLOUT * args.envs)
    batches = iter(collector)
    steps = [0]

    def collect() -> None:
        rows = next(batches).reshape(-1)
        buffer.extend(rows)
        steps[0] += len(rows)

    work = {**collect_work(args.envs), "network": "mlp"}
    return Side({"collect": Op(collect, lambda: {"env_steps": steps[0]})}, work, collector.shutdown)


if __name__ == "__main__":
    serve(build, "torchrl", "tensordict")
