"""A MuJoCo config's run with stable-baselines3: its algorithm, networks and numbers, and evaluations as often.

    benchmarks/.peers/sb3/bin/python benchmarks/peers/sb3_mujoco.py halfcheetah_sac --seed 0 --out FILE

Needs `mujoco` in that environment (`benchmarks/requirements/sb3.txt` has it). A line of FILE is an evaluation:
``{"env_step", "return", "cpu_s"}``, the mean return of 8 episodes with the most likely actions.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

ENVS = {"halfcheetah": "HalfCheetah-v5", "hopper": "Hopper-v5"}
# What the configs of the three have in common: one update of 256 samples per env step, two layers of 256 units.
OFF_POLICY = {"learning_rate": 1e-3, "batch_size": 256, "buffer_size": 1_000_000, "tau": 0.005, "gamma": 0.99}
LAYERS = [256, 256]
SAC = {"learning_starts": 10_000, "ent_coef": 0.2}
NOISY = {"learning_starts": 25_000}
PPO = {"n_steps": 400, "batch_size": 320, "n_epochs": 10, "learning_rate": 3e-4, "ent_coef": 0.001}
PPO_ENVS, EVALUATION_EPISODES = 8, 8


def agent_of(algorithm: str, env_id: str, seed: int) -> Any:
    """The agent with the numbers of the config."""
    import numpy as np
    import stable_baselines3 as sb3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.noise import NormalActionNoise

    cls = getattr(sb3, algorithm.upper())
    if algorithm == "ppo":
        return cls("MlpPolicy", make_vec_env(env_id, PPO_ENVS, seed=seed), seed=seed, device="cpu", **PPO)
    env = make_vec_env(env_id, 1, seed=seed)
    size = env.action_space.shape[0]
    special: dict[str, Any] = SAC if algorithm == "sac" else NOISY
    if algorithm != "sac":
        special = {**special, "action_noise": NormalActionNoise(np.zeros(size), np.full(size, 0.1))}
    settings = {**OFF_POLICY, **special, "policy_kwargs": {"net_arch": LAYERS}}
    return cls("MlpPolicy", env, seed=seed, device="cpu", train_freq=1, gradient_steps=1, **settings)


def main() -> None:
    """Train, and write a line for each evaluation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="such as hopper_td3")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--env-steps", type=int, default=200_000)
    parser.add_argument("--every", type=int, default=5_000, help="env steps from one evaluation to the next")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(1)
    env, _, algorithm = args.config.partition("_")
    agent = agent_of(algorithm, ENVS[env], args.seed)
    evaluation_env = make_vec_env(ENVS[env], EVALUATION_EPISODES, seed=args.seed + 1000)
    with args.out.open("w") as file:
        while agent.num_timesteps < args.env_steps:
            agent.learn(args.every, reset_num_timesteps=False)
            value, _ = evaluate_policy(agent, evaluation_env, n_eval_episodes=EVALUATION_EPISODES)
            row = {"env_step": agent.num_timesteps, "return": float(value), "cpu_s": round(time.process_time(), 1)}
            file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
