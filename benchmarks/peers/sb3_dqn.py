"""stable-baselines3's DQN, or sb3-contrib's QR-DQN, on the common work."""

from __future__ import annotations

import argparse

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    BATCH_SIZE,
    BUFFER_SIZE,
    DISCOUNT,
    DQN_HIDDEN,
    EPSILON,
    LEARNING_RATE,
    ROLLOUT,
    TARGET_FREQ,
    dqn_work,
    observed_batch_sizes,
)


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--algorithm", choices=("dqn", "qrdqn"), default="dqn")
    args = parser.parse_args()
    if args.algorithm == "dqn":
        from stable_baselines3 import DQN
    else:
        from sb3_contrib import QRDQN as DQN
    from stable_baselines3.common.env_util import make_vec_env

    updates = count_optimizer_steps()
    env = make_vec_env("CartPole-v1", 8)
    agent = DQN(
        "MlpPolicy",
        env,
        buffer_size=BUFFER_SIZE,
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        gamma=DISCOUNT,
        policy_kwargs={"net_arch": list(DQN_HIDDEN), **({"n_quantiles": 51} if args.algorithm == "qrdqn" else {})},
        train_freq=ROLLOUT,
        gradient_steps=args.updates,
        learning_starts=0,
        # Counted in env steps, spread over the envs.
        target_update_interval=80 * TARGET_FREQ // args.updates,
        exploration_initial_eps=EPSILON,
        exploration_final_eps=EPSILON,
        device="cpu",
    )
    # ``learn`` is one loop of collect_rollouts and train; taking it apart lets the runner have turns.
    _, callback = agent._setup_learn(10**9)
    callback.on_training_start({}, {})

    def collect() -> None:
        agent.collect_rollouts(
            agent.env,
            callback=callback,
            train_freq=agent.train_freq,
            replay_buffer=agent.replay_buffer,
            learning_starts=0,
        )

    def train() -> None:
        collect()
        agent.train(batch_size=BATCH_SIZE, gradient_steps=args.updates)

    for _ in range(10):
        collect()
    sizes, remove = observed_batch_sizes(agent.q_net if args.algorithm == "dqn" else agent.quantile_net)
    agent.train(batch_size=BATCH_SIZE, gradient_steps=1)
    remove()
    if sizes != {BATCH_SIZE}:
        raise RuntimeError(f"batches of {sizes}")
    ops = {"train": Op(train, lambda: {"env_steps": agent.num_timesteps, "updates": updates()})}
    return Side(ops, dqn_work(args.updates), env.close, warm_calls=10)


if __name__ == "__main__":
    serve(build, "stable-baselines3")
