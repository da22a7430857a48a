"""stable-baselines3's collector: ``DQN.collect_rollouts`` over ``DummyVecEnv`` or ``SubprocVecEnv``."""

from __future__ import annotations

import argparse

from bench_side import Op, Side, serve
from bench_work import BUFFER_SIZE, COLLECT_HIDDEN, EPSILON, ROLLOUT, collect_work


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--subprocess", action="store_true")
    args = parser.parse_args()
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    env = make_vec_env("CartPole-v1", args.envs, vec_env_cls=SubprocVecEnv if args.subprocess else DummyVecEnv)
    agent = DQN(
        "MlpPolicy",
        env,
        buffer_size=BUFFER_SIZE,
        policy_kwargs={"net_arch": list(COLLECT_HIDDEN)},
        train_freq=ROLLOUT,
        gradient_steps=0,
        learning_starts=0,
        exploration_initial_eps=EPSILON,
        exploration_final_eps=EPSILON,
        device="cpu",
    )
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

    work = {**collect_work(args.envs), "network": "mlp"}
    return Side({"collect": Op(collect, lambda: {"env_steps": agent.num_timesteps})}, work, env.close)


if __name__ == "__main__":
    serve(build, "stable-baselines3")
