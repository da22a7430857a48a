"""DQN end to end on the peers' common work, by hand over the DI-engine API. For this project and for DI-engine."""

from __future__ import annotations

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import BATCH_SIZE, DQN_HIDDEN, EPSILON, dqn_work
from ding_parts import Parts, arguments, joined_updates, rollout_samples


def build() -> Side:
    parser = arguments(__doc__)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="policy.learn.compile")
    args = parser.parse_args()
    args.hidden = list(DQN_HIDDEN)
    parts = Parts(args, rollout_samples(args.envs), learner=True)
    collector, buffer, learner = parts.collector, parts.buffer, parts.learner
    steps = count_optimizer_steps()
    joined = joined_updates(learner, args.updates) if args.compile else 1
    kwargs = {"num_updates": joined} if joined > 1 else None

    def updates() -> int:
        return learner.train_iter if args.compile else steps()

    # DI-engine steps its envs a little further and drops what is beyond n_sample: steps that were kept count.
    kept = [0]

    def collect() -> None:
        samples = collector.collect(train_iter=learner.train_iter, policy_kwargs={"eps": EPSILON})
        buffer.push(samples, cur_collector_envstep=collector.envstep)
        kept[0] += len(samples)

    def train() -> None:
        collect()
        for _ in range(args.updates // joined):
            learner.train(buffer.sample(BATCH_SIZE * joined, learner.train_iter), collector.envstep, kwargs)

    for _ in range(10):
        collect()
    ops = {"train": Op(train, lambda: {"env_steps": kept[0], "updates": updates()})}
    return Side(ops, dqn_work(args.updates), parts.close, warm_calls=10)


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
