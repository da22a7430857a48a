"""stable-baselines3's PPO and A2C on the common work."""

from __future__ import annotations

import argparse

from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import A2C_STEPS, ACTOR_CRITIC_HIDDEN, PPO_EPOCHS, PPO_MINIBATCH, PPO_STEPS, on_policy_work


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=("ppo", "a2c"), default="ppo")
    args = parser.parse_args()
    from stable_baselines3 import A2C, PPO
    from stable_baselines3.common.env_util import make_vec_env
    from torch import nn

    updates = count_optimizer_steps()
    env = make_vec_env("CartPole-v1", 8)
    network = {"net_arch": list(ACTOR_CRITIC_HIDDEN), "activation_fn": nn.ReLU}
    if args.algorithm == "ppo":
        agent = PPO(
            "MlpPolicy", env, n_steps=PPO_STEPS, batch_size=PPO_MINIBATCH, n_epochs=PPO_EPOCHS, policy_kwargs=network,
            device="cpu",
        )  # fmt: skip
    else:
        agent = A2C("MlpPolicy", env, n_steps=A2C_STEPS, use_rms_prop=False, policy_kwargs=network, device="cpu")
    # ``learn`` is one loop of collect_rollouts and train; taking it apart lets the runner have turns.
    _, callback = agent._setup_learn(10**9)
    callback.on_training_start({}, {})

    def train() -> None:
        agent.collect_rollouts(agent.env, callback, agent.rollout_buffer, n_rollout_steps=agent.n_steps)
        agent.train()

    ops = {"train": Op(train, lambda: {"env_steps": agent.num_timesteps, "updates": updates()})}
    return Side(ops, on_policy_work(args.algorithm), env.close)


if __name__ == "__main__":
    serve(build, "stable-baselines3")
