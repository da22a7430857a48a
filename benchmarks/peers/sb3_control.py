"""stable-baselines3's SAC, TD3 and DDPG on the common work."""

from __future__ import annotations

import argparse

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    CONTROL_ALGORITHMS,
    CONTROL_BATCH_SIZE,
    CONTROL_BUFFER_SIZE,
    CONTROL_ENVS,
    CONTROL_HIDDEN,
    control_work,
)


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=CONTROL_ALGORITHMS, default="sac")
    args = parser.parse_args()
    import numpy as np
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.noise import NormalActionNoise

    updates = count_optimizer_steps()
    noise = None if args.algorithm == "sac" else NormalActionNoise(np.zeros(1), np.full(1, 0.1))
    agent = getattr(stable_baselines3, args.algorithm.upper())(
        "MlpPolicy",
        make_vec_env("Pendulum-v1", CONTROL_ENVS),
        buffer_size=CONTROL_BUFFER_SIZE,
        batch_size=CONTROL_BATCH_SIZE,
        policy_kwargs={"net_arch": list(CONTROL_HIDDEN)},
        train_freq=1,
        gradient_steps=CONTROL_ENVS,
        learning_starts=0,
        action_noise=noise,
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
            action_noise=agent.action_noise,
            replay_buffer=agent.replay_buffer,
            learning_starts=0,
        )

    def train() -> None:
        collect()
        agent.train(batch_size=CONTROL_BATCH_SIZE, gradient_steps=CONTROL_ENVS)

    for _ in range(2 * CONTROL_BATCH_SIZE // CONTROL_ENVS):
        collect()
    ops = {"train": Op(train, lambda: {"env_steps": agent.num_timesteps, "updates": updates()})}
    return Side(ops, control_work(args.algorithm), agent.env.close, warm_calls=5)


if __name__ == "__main__":
    serve(build, "stable-baselines3")
