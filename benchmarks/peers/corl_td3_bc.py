"""TD3+BC in one file, as CORL and CleanRL write algorithms: tensors in memory, two networks per critic, no layers.

Written for this comparison: batch 256, two hidden layers of 256 units, the settings of the paper (arXiv:2106.06860).
"""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def mlp(width: int, out: int, *last: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, out), *last)


class Buffer:
    """All transitions as tensors in memory."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.columns = [torch.from_numpy(columns[key]).float() for key in ("obs", "action", "reward", "next_obs")]
        self.done = torch.from_numpy(columns["done"]).float().reshape(-1, 1)

    def sample(self, size: int) -> list[torch.Tensor]:
        rows = np.random.randint(0, len(self.done), size=size)
        return [*(column[rows] for column in self.columns), self.done[rows]]


class TD3BC:
    """The algorithm; :meth:`train` is one update."""

    def __init__(self, obs_dim: int, action_dim: int) -> None:
        self.actor = mlp(obs_dim, action_dim, nn.Tanh())
        self.critics = [mlp(obs_dim + action_dim, 1) for _ in range(2)]
        self.actor_target, self.critic_targets = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_optimizers = [torch.optim.Adam(critic.parameters(), lr=3e-4) for critic in self.critics]
        self.updates = 0

    def train(self, batch: list[torch.Tensor]) -> dict[str, float]:
        obs, action, reward, next_obs, done = batch
        self.updates += 1
        with torch.no_grad():
            noise = (torch.randn_like(action) * 0.2).clamp(-0.5, 0.5)
            next_action = (self.actor_target(next_obs) + noise).clamp(-1, 1)
            inputs = torch.cat([next_obs, next_action], 1)
            target_q = torch.min(*(critic(inputs) for critic in self.critic_targets))
            target_q = reward + (1 - done) * 0.99 * target_q
        inputs = torch.cat([obs, action], 1)
        values = [critic(inputs) for critic in self.critics]
        critic_loss = sum(F.mse_loss(value, target_q) for value in values)
        log = {"critic_loss": critic_loss.item()}
        for optimizer in self.critic_optimizers:
            optimizer.zero_grad()
        critic_loss.backward()
        for optimizer in self.critic_optimizers:
            optimizer.step()
        if self.updates % 2 == 0:
            own = self.actor(obs)
            q = self.critics[0](torch.cat([obs, own], 1))
            actor_loss = -2.5 / q.abs().mean().detach() * q.mean() + F.mse_loss(own, action)
            log["actor_loss"] = actor_loss.item()
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
            pairs = zip([self.actor, *self.critics], [self.actor_target, *self.critic_targets])
            for network, target in pairs:
                for parameter, kept in zip(network.parameters(), target.parameters()):
                    kept.data.copy_(0.995 * kept.data + 0.005 * parameter.data)
        return log
