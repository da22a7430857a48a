"""Collector alone: forward, epsilon-greedy, env step, store. For this project and for DI-engine."""

from __future__ import annotations

from bench_side import Op, Side, serve
from bench_work import EPSILON, collect_work
from ding_parts import Parts, arguments, rollout_samples


def build() -> Side:
    args = arguments(__doc__).parse_args()
    parts = Parts(args, rollout_samples(args.envs))
    collector, buffer = parts.collector, parts.buffer
    exploration = {"eps": EPSILON}

    def collect() -> None:
        samples = collector.collect(train_iter=0, policy_kwargs=exploration)
        buffer.push(samples, cur_collector_envstep=collector.envstep)

    work = collect_work(args.envs)
    work.update(hidden=list(args.hidden), network=args.network)
    return Side({"collect": Op(collect, lambda: {"env_steps": collector.envstep})}, work, parts.close)


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
