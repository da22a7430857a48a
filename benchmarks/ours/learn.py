"""A learner iteration: sample, collate, update, hooks. For this project and for DI-engine."""

from __future__ import annotations

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import BATCH_SIZE, EPSILON
from ding_parts import Parts, arguments, rollout_samples

FILL = 4000


def build() -> Side:
    args = arguments(__doc__).parse_args()
    parts = Parts(args, rollout_samples(args.envs), learner=True)
    collector, buffer, learner = parts.collector, parts.buffer, parts.learner
    while collector.envstep < FILL:
        samples = collector.collect(train_iter=0, policy_kwargs={"eps": EPSILON})
        buffer.push(samples, cur_collector_envstep=collector.envstep)
    updates = count_optimizer_steps()

    def iterate() -> None:
        batch = buffer.sample(BATCH_SIZE, learner.train_iter)
        if len(batch) != BATCH_SIZE:
            raise RuntimeError(f"the buffer gave {len(batch)} rows")
        learner.train(batch, collector.envstep)

    work = {"batch_size": BATCH_SIZE, "network": args.network, "hidden": list(args.hidden), "rows": FILL}
    counts = {"iterate": Op(iterate, lambda: {"updates": updates(), "train_iters": learner.train_iter})}
    return Side(counts, work, parts.close, warm_calls=20)


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
