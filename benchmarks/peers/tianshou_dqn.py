"""tianshou's DQN, C51 or QR-DQN on the common work: the training step of its off-policy trainer, turn by turn."""

from __future__ import annotations

import argparse

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import BATCH_SIZE, DISCOUNT, DQN_HIDDEN, LEARNING_RATE, TARGET_FREQ, dqn_work

STEPS = 80


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--algorithm", choices=("dqn", "c51", "qrdqn"), default="dqn")
    args = parser.parse_args()
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.utils.torch_utils import policy_within_training_step
    from tianshou_parts import make_algorithm, make_collector

    updates = count_optimizer_steps()
    algorithm = make_algorithm(
        args.algorithm,
        DQN_HIDDEN,
        optim=AdamOptimizerFactory(lr=LEARNING_RATE),
        gamma=DISCOUNT,
        target_update_freq=TARGET_FREQ,
    )
    collector = make_collector(algorithm, 8)
    steps = [0]

    def collect() -> None:
        with policy_within_training_step(algorithm.policy):
            steps[0] += collector.collect(n_step=STEPS).n_collected_steps

    def train() -> None:
        # What one training step of its off-policy trainer does.
        collect()
        with policy_within_training_step(algorithm.policy):
            for _ in range(args.updates):
                algorithm.update(buffer=collector.buffer, sample_size=BATCH_SIZE)

    for _ in range(10):
        collect()
    ops = {"train": Op(train, lambda: {"env_steps": steps[0], "updates": updates()})}
    return Side(ops, dqn_work(args.updates), collector.env.close, warm_calls=10)


if __name__ == "__main__":
    serve(build, "tianshou")
