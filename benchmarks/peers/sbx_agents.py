"""stable-baselines3 in JAX (sbx): DQN, SAC, TD3, TQC, CrossQ, DroQ and PPO on the common work."""

from __future__ import annotations

import argparse
import os
from typing import Any

from bench_side import Op, Side, serve
from bench_work import (
    ACTOR_CRITIC_HIDDEN,
    BATCH_SIZE,
    BUFFER_SIZE,
    CONTROL_BATCH_SIZE,
    CONTROL_BUFFER_SIZE,
    CONTROL_ENVS,
    CONTROL_HIDDEN,
    DISCOUNT,
    DQN_HIDDEN,
    DROQ_ACTOR_FREQ,
    DROQ_DROPOUT,
    ENSEMBLE_ALGORITHMS,
    EPSILON,
    LEARNING_RATE,
    PPO_EPOCHS,
    PPO_MINIBATCH,
    PPO_STEPS,
    ROLLOUT,
    TARGET_FREQ,
    control_work,
    dqn_work,
    on_policy_work,
)

ENVS = 8
# Steps of all optimisers per update, as the torch sides count them; of those with an ensemble the updates.
OPTIMIZER_STEPS = {"dqn": 1.0, "sac": 3.0, "td3": 1.5, **dict.fromkeys(ENSEMBLE_ALGORITHMS, 1.0)}
CLASSES = {"crossq": "CrossQ", "droq": "SAC"}
ALGORITHMS = (*OPTIMIZER_STEPS, "ppo")


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="dqn")
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") == "1":
        # Newer JAX keeps a pool of threads all the same: compare CPU time.
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return ppo() if args.algorithm == "ppo" else off_policy(args.algorithm, args.updates)


def ppo() -> Side:
    """One collection and all of its updates in turn."""
    import jax
    import sbx
    from stable_baselines3.common.env_util import make_vec_env

    env = make_vec_env("CartPole-v1", ENVS)
    agent = sbx.PPO(
        "MlpPolicy", env, n_steps=PPO_STEPS, batch_size=PPO_MINIBATCH, n_epochs=PPO_EPOCHS,
        policy_kwargs={"net_arch": list(ACTOR_CRITIC_HIDDEN), "activation_fn": jax.nn.relu},
    )  # fmt: skip
    _, callback = agent._setup_learn(10**9)
    callback.on_training_start({}, {})

    def train() -> None:
        agent.collect_rollouts(agent.env, callback, agent.rollout_buffer, n_rollout_steps=agent.n_steps)
        agent.train()

    minibatches = PPO_STEPS * ENVS // PPO_MINIBATCH
    ops = {"train": Op(train, lambda: {"env_steps": agent.num_timesteps, "updates": minibatches * agent._n_updates})}
    return Side(ops, on_policy_work("ppo"), env.close)


def off_policy(algorithm: str, dqn_updates: int) -> Side:
    """Ten vector steps and ``dqn_updates`` of DQN, or a vector step and as many updates of the others."""
    import sbx
    from stable_baselines3.common.env_util import make_vec_env

    discrete = algorithm == "dqn"
    updates = dqn_updates if discrete else CONTROL_ENVS
    batch_size = BATCH_SIZE if discrete else CONTROL_BATCH_SIZE
    env = make_vec_env("CartPole-v1" if discrete else "Pendulum-v1", ENVS)
    settings: dict[str, Any] = {"train_freq": 1, "buffer_size": CONTROL_BUFFER_SIZE}
    if discrete:
        settings = {
            "train_freq": ROLLOUT,
            "buffer_size": BUFFER_SIZE,
            "learning_rate": LEARNING_RATE,
            "gamma": DISCOUNT,
            "target_update_interval": 80 * TARGET_FREQ // updates,
            "exploration_initial_eps": EPSILON,
            "exploration_final_eps": EPSILON,
        }
    network: dict[str, Any] = {"net_arch": list(DQN_HIDDEN if discrete else CONTROL_HIDDEN)}
    if algorithm == "droq":
        network |= {"dropout_rate": DROQ_DROPOUT, "layer_norm": True}
        settings["policy_delay"] = DROQ_ACTOR_FREQ
    agent = getattr(sbx, CLASSES.get(algorithm, algorithm.upper()))(
        "MlpPolicy",
        env,
        batch_size=batch_size,
        policy_kwargs=network,
        gradient_steps=updates,
        learning_starts=0,
        **settings,
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

    def train() -> None:
        collect()
        agent.train(batch_size=batch_size, gradient_steps=updates)

    for _ in range(10 if discrete else 2 * CONTROL_BATCH_SIZE // CONTROL_ENVS):
        collect()
    share = OPTIMIZER_STEPS[algorithm]
    ops = {"train": Op(train, lambda: {"env_steps": agent.num_timesteps, "updates": share * agent._n_updates})}
    work = dqn_work(updates) if discrete else control_work(algorithm)
    return Side(ops, work, env.close, warm_calls=10)


if __name__ == "__main__":
    serve(build, "sbx-rl")
