"""DQN in one file in the manner of CleanRL: SyncVectorEnv, stable-baselines3's ReplayBuffer, a plain torch loop.

With ``--compile`` the loss, and so its gradient, is compiled by ``torch.compile``; the optimiser stays eager.
"""

from __future__ import annotations

import argparse
import random

import gymnasium
import numpy as np
import torch
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
    make_mlp,
)
from torch.nn import functional

ENVS = 8


class Agent:
    """Everything that CleanRL's script keeps in local variables."""

    def __init__(self, compiled: bool) -> None:
        from stable_baselines3.common.buffers import ReplayBuffer

        self.envs = gymnasium.vector.SyncVectorEnv(
            [lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))] * ENVS,
            autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
        )
        self.q_network = make_mlp(DQN_HIDDEN)
        self.target_network = make_mlp(DQN_HIDDEN)
        self.target_network.load_state_dict(self.q_network.state_dict())
        self.optimizer = torch.optim.Adam(self.q_network.parameters(), lr=LEARNING_RATE)
        self.buffer = ReplayBuffer(
            BUFFER_SIZE,
            self.envs.single_observation_space,
            self.envs.single_action_space,
            "cpu",
            n_envs=ENVS,
            handle_timeout_termination=False,
        )
        self.obs, _ = self.envs.reset(seed=0)
        self.env_steps = 0
        self.trained = 0
        self.loss = torch.compile(self._loss) if compiled else self._loss

    def vector_step(self) -> None:
        if random.random() < EPSILON:
            actions = np.array([self.envs.single_action_space.sample() for _ in range(ENVS)])
        else:
            q_values = self.q_network(torch.Tensor(self.obs))
            actions = torch.argmax(q_values, dim=1).cpu().numpy()
        next_obs, rewards, terminations, truncations, infos = self.envs.step(actions)
        real_next_obs = next_obs.copy()
        done = np.logical_or(terminations, truncations)
        if done.any():
            for idx in np.flatnonzero(done):
                real_next_obs[idx] = infos["final_obs"][idx]
        self.buffer.add(self.obs, real_next_obs, actions, rewards, terminations, [{}] * ENVS)
        self.obs = next_obs
        self.env_steps += ENVS

    def update(self) -> None:
        data = self.buffer.sample(BATCH_SIZE)
        loss = self.loss(data.observations, data.actions, data.next_observations, data.rewards, data.dones)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.trained += 1
        if self.trained % TARGET_FREQ == 0:
            for target_param, param in zip(self.target_network.parameters(), self.q_network.parameters()):
                target_param.data.copy_(param.data)

    def _loss(
        self,
        obs: torch.Tensor,
        actions: torch.Tensor,
        next_obs: torch.Tensor,
        rewards: torch.Tensor,
        dones: torch.Tensor,
    ) -> torch.Tensor:
        with torch.no_grad():
            target_max, _ = self.target_network(next_obs).max(dim=1)
            target = rewards.flatten() + DISCOUNT * target_max * (1 - dones.flatten())
        old = self.q_network(obs).gather(1, actions).squeeze()
        return functional.mse_loss(target, old)


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="torch.compile of the loss")
    args = parser.parse_args()
    updates = count_optimizer_steps()
    agent = Agent(args.compile)
    for _ in range(10 * ROLLOUT):
        agent.vector_step()

    def train() -> None:
        for _ in range(ROLLOUT):
            agent.vector_step()
        for _ in range(args.updates):
            agent.update()

    ops = {"train": Op(train, lambda: {"env_steps": agent.env_steps, "updates": updates()})}
    return Side(ops, dqn_work(args.updates), agent.envs.close, warm_calls=10)


if __name__ == "__main__":
    serve(build, "stable-baselines3")
