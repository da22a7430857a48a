"""torchrl's DQN on the common work, eager."""

from __future__ import annotations

import argparse

import torch
from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import BATCH_SIZE, DISCOUNT, DQN_HIDDEN, LEARNING_RATE, TARGET_FREQ, dqn_work


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    from torchrl.objectives import DQNLoss, HardUpdate
    from torchrl_parts import make_actors, make_buffer, make_collector, make_env

    updates = count_optimizer_steps()
    env = make_env(8, track=True)
    greedy, policy = make_actors(env, DQN_HIDDEN)
    buffer = make_buffer()
    loss_module = DQNLoss(value_network=greedy, loss_function="l2", delay_value=True)
    loss_module.make_value_estimator(gamma=DISCOUNT)
    target = HardUpdate(loss_module, value_network_update_interval=TARGET_FREQ)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=LEARNING_RATE)
    collector = make_collector(env, policy, 80)
    batches = iter(collector)
    steps = [0]

    def collect() -> None:
        rows = next(batches).reshape(-1)
        buffer.extend(rows)
        steps[0] += len(rows)

    def update() -> None:
        loss = loss_module(buffer.sample(BATCH_SIZE))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        target.step()

    def train() -> None:
        collect()
        for _ in range(args.updates):
            update()
        collector.update_policy_weights_()

    for _ in range(10):
        collect()
    ops = {"train": Op(train, lambda: {"env_steps": steps[0], "updates": updates()})}
    return Side(ops, dqn_work(args.updates), collector.shutdown, warm_calls=10)


if __name__ == "__main__":
    serve(build, "torchrl", "tensordict")
