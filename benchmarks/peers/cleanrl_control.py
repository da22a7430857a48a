"""SAC, TD3 and DDPG in the manner of CleanRL: SyncVectorEnv, stable-baselines3's ReplayBuffer, a plain torch loop.

With ``--compile`` the losses, and so their gradients, are compiled by ``torch.compile``; optimisers stay eager.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
import torch
from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    CONTROL_ALGORITHMS,
    CONTROL_BATCH_SIZE,
    CONTROL_BUFFER_SIZE,
    CONTROL_ENVS,
    CONTROL_HIDDEN,
    control_work,
)
from torch import nn, optim
from torch.nn import functional

SCALE, DISCOUNT, TAU, NOISE = 2.0, 0.99, 0.005, 0.1


class Critic(nn.Module):
    """Three layers, as every critic of CleanRL."""

    def __init__(self) -> None:
        super().__init__()
        wide, deep = CONTROL_HIDDEN
        self.fc1, self.fc2, self.fc3 = nn.Linear(4, wide), nn.Linear(wide, deep), nn.Linear(deep, 1)

    def forward(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.fc1(torch.cat([obs, action], 1)))
        return self.fc3(functional.relu(self.fc2(x)))


class Actor(nn.Module):
    """A deterministic one, or mean and log deviation of a squashed normal."""

    def __init__(self, stochastic: bool) -> None:
        super().__init__()
        wide, deep = CONTROL_HIDDEN
        self.fc1, self.fc2, self.fc_mean = nn.Linear(3, wide), nn.Linear(wide, deep), nn.Linear(deep, 1)
        self.fc_logstd = nn.Linear(deep, 1) if stochastic else None

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = functional.relu(self.fc2(functional.relu(self.fc1(obs))))
        mean = self.fc_mean(x)
        if self.fc_logstd is None:
            return torch.tanh(mean) * SCALE, mean
        log_std = -5 + 0.5 * 7 * (torch.tanh(self.fc_logstd(x)) + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        raw = normal.rsample()
        squashed = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(SCALE * (1 - squashed.pow(2)) + 1e-6)
        return squashed * SCALE, log_prob.sum(1, keepdim=True)


class Agent:
    """Everything that CleanRL's scripts keep in local variables."""

    def __init__(self, algorithm: str, compiled: bool) -> None:
        from stable_baselines3.common.buffers import ReplayBuffer

        self.algorithm, self.trained, self.env_steps = algorithm, 0, 0
        self.envs = gymnasium.vector.SyncVectorEnv(
            [lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("Pendulum-v1"))] * CONTROL_ENVS,
            autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
        )
        count = 1 if algorithm == "ddpg" else 2
        self.actor, self.target_actor = Actor(algorithm == "sac"), Actor(algorithm == "sac")
        self.critics, self.targets = [Critic() for _ in range(count)], [Critic() for _ in range(count)]
        self.actor_optimizer = optim.Adam(list(self.actor.parameters()), lr=3e-4)
        self.q_optimizer = optim.Adam([p for critic in self.critics for p in critic.parameters()], lr=3e-4)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.alpha, self.a_optimizer = torch.ones(1), optim.Adam([self.log_alpha], lr=3e-4)
        spaces = (self.envs.single_observation_space, self.envs.single_action_space)
        self.buffer = ReplayBuffer(
            CONTROL_BUFFER_SIZE, *spaces, "cpu", n_envs=CONTROL_ENVS, handle_timeout_termination=False
        )
        self.obs, _ = self.envs.reset(seed=0)
        compile_loss = torch.compile if compiled else lambda loss: loss
        self.critic_loss, self.actor_loss = compile_loss(self._critic_loss), compile_loss(self._actor_loss)

    def vector_step(self) -> None:
        with torch.no_grad():
            actions = self.actor(torch.Tensor(self.obs))[0]
            if self.algorithm != "sac":
                actions = (actions + torch.normal(0, SCALE * NOISE, actions.shape)).clamp(-SCALE, SCALE)
        actions = actions.numpy()
        next_obs, rewards, terminations, truncations, infos = self.envs.step(actions)
        real_next_obs = next_obs.copy()
        for idx in np.flatnonzero(np.logical_or(terminations, truncations)):
            real_next_obs[idx] = infos["final_obs"][idx]
        self.buffer.add(self.obs, real_next_obs, actions, rewards, terminations, [{}] * CONTROL_ENVS)
        self.obs = next_obs
        self.env_steps += CONTROL_ENVS

    def update(self) -> None:
        data = self.buffer.sample(CONTROL_BATCH_SIZE)
        loss = self.critic_loss(
            data.observations, data.actions, data.next_observations, data.rewards, data.dones, self.alpha
        )
        self._step(self.q_optimizer, loss)
        self.trained += 1
        if self.algorithm == "ddpg":
            self._update_actor(data)
        elif self.trained % 2 == 0:
            # SAC makes up for the delay by two updates.
            for _ in range(2 if self.algorithm == "sac" else 1):
                self._update_actor(data)
        pairs = [*zip(self.critics, self.targets), (self.actor, self.target_actor)]
        if self.algorithm == "sac" or self.algorithm == "ddpg" or self.trained % 2 == 0:
            for network, target in pairs[: len(self.critics)] if self.algorithm == "sac" else pairs:
                for param, target_param in zip(network.parameters(), target.parameters()):
                    target_param.data.copy_(TAU * param.data + (1 - TAU) * target_param.data)

    def _critic_loss(
        self, obs: torch.Tensor, actions: torch.Tensor, next_obs: torch.Tensor, rewards: Any, dones: Any, alpha: Any
    ) -> torch.Tensor:
        with torch.no_grad():
            next_actions, log_prob = self._next(next_obs)
            values = [target(next_obs, next_actions) for target in self.targets]
            value = torch.min(*values) if len(values) == 2 else values[0]
            if self.algorithm == "sac":
                value = value - alpha * log_prob
            goal = rewards.flatten() + (1 - dones.flatten()) * DISCOUNT * value.view(-1)
        return sum(functional.mse_loss(q(obs, actions).view(-1), goal) for q in self.critics)

    def _next(self, next_obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.algorithm == "sac":
            return self.actor(next_obs)
        actions, raw = self.target_actor(next_obs)
        if self.algorithm == "td3":
            noise = (torch.randn_like(actions) * 0.2).clamp(-0.5, 0.5) * SCALE
            actions = (actions + noise).clamp(-SCALE, SCALE)
        return actions, raw

    def _update_actor(self, data: Any) -> None:
        self._step(self.actor_optimizer, self.actor_loss(data.observations, self.alpha))
        if self.algorithm != "sac":
            return
        with torch.no_grad():
            _, log_prob = self.actor(data.observations)
        self._step(self.a_optimizer, (-self.log_alpha.exp() * (log_prob - 1)).mean())
        self.alpha = self.log_alpha.detach().exp()

    def _actor_loss(self, obs: torch.Tensor, alpha: Any) -> torch.Tensor:
        actions, log_prob = self.actor(obs)
        if self.algorithm != "sac":
            return -self.critics[0](obs, actions).mean()
        value = torch.min(*(critic(obs, actions) for critic in self.critics))
        return (alpha * log_prob - value).mean()

    @staticmethod
    def _step(optimizer: optim.Optimizer, loss: torch.Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=CONTROL_ALGORITHMS, default="sac")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the losses")
    args = parser.parse_args()
    updates = count_optimizer_steps()
    agent = Agent(args.algorithm, args.compile)
    for _ in range(2 * CONTROL_BATCH_SIZE // CONTROL_ENVS):
        agent.vector_step()

    def train() -> None:
        agent.vector_step()
        for _ in range(CONTROL_ENVS):
            agent.update()

    ops = {"train": Op(train, lambda: {"env_steps": agent.env_steps, "updates": updates()})}
    return Side(ops, control_work(args.algorithm), agent.envs.close, warm_calls=5)


if __name__ == "__main__":
    serve(build, "stable-baselines3")
