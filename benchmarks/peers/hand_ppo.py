"""PPO by hand on the common work: gymnasium's SyncVectorEnv, plain torch networks, fused Adam, rows into tensors.

With ``--compile`` the loss, and so its gradient, is compiled by ``torch.compile``; clipping and optimiser stay eager.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
import torch
from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    ACTIONS,
    ACTOR_CRITIC_HIDDEN,
    OBS_DIM,
    PPO_EPOCHS,
    PPO_MINIBATCH,
    PPO_STEPS,
    on_policy_work,
)
from torch import nn
from torch.nn import functional

ENVS = 8
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


def mlp(outputs: int) -> nn.Sequential:
    """A network of two layers."""
    first, second = ACTOR_CRITIC_HIDDEN
    return nn.Sequential(
        nn.Linear(OBS_DIM, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, outputs)
    )


class Loop:
    """The loop, and the tensors that it writes: ``[steps, envs]``."""

    def __init__(self, compiled: bool) -> None:
        self.loss = torch.compile(self._loss) if compiled else self._loss
        self.vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * ENVS)
        self.actor, self.critic = mlp(ACTIONS), mlp(1)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=3e-4, fused=True)
        self.obs = torch.empty(PPO_STEPS + 1, ENVS, OBS_DIM)
        self.action = torch.empty(PPO_STEPS, ENVS, dtype=torch.int64)
        self.logp, self.reward = torch.empty(PPO_STEPS, ENVS), torch.empty(PPO_STEPS, ENVS)
        self.done = torch.empty(PPO_STEPS, ENVS)
        self.env_steps = 0
        self.current, _ = self.vector.reset(seed=0)

    def train(self) -> None:
        with torch.no_grad():
            self.collect()
            advantage, target = self.advantages()
        rows = [self.obs[:-1].reshape(-1, OBS_DIM)]
        rows += [tensor.reshape(-1) for tensor in (self.action, self.logp, advantage, target)]
        for _ in range(PPO_EPOCHS):
            for index in torch.randperm(PPO_STEPS * ENVS).split(PPO_MINIBATCH):
                self.update(*(column[index] for column in rows))

    def collect(self) -> None:
        for step in range(PPO_STEPS):
            obs = torch.from_numpy(np.asarray(self.current, dtype=np.float32))
            logp = self.actor(obs).log_softmax(-1)
            action = torch.multinomial(logp.exp(), 1)
            self.obs[step], self.action[step] = obs, action[:, 0]
            self.logp[step] = logp.gather(1, action)[:, 0]
            self.current, reward, terminated, truncated, _ = self.vector.step(action[:, 0].numpy())
            self.reward[step] = torch.from_numpy(reward)
            self.done[step] = torch.from_numpy(terminated | truncated)
            self.env_steps += ENVS
        self.obs[PPO_STEPS] = torch.from_numpy(np.asarray(self.current, dtype=np.float32))

    def advantages(self) -> tuple[torch.Tensor, torch.Tensor]:
        value = self.critic(self.obs).squeeze(-1)
        goes_on = 1 - self.done
        delta = (self.reward + GAMMA * value[1:] * goes_on - value[:-1]).numpy()
        factor = (GAMMA * LAMBDA * goes_on).numpy()
        advantage, last = np.empty_like(delta), np.zeros(ENVS, np.float32)
        for step in reversed(range(PPO_STEPS)):
            last = delta[step] + factor[step] * last
            advantage[step] = last
        found = torch.from_numpy(advantage)
        return found, found + value[:-1]

    def update(self, *rows: torch.Tensor) -> None:
        loss = self.loss(*rows)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 0.5)
        self.optimizer.step()

    def _loss(self, obs: Any, action: Any, logp: Any, advantage: Any, target: Any) -> torch.Tensor:
        new = self.actor(obs).log_softmax(-1)
        ratio = (new.gather(1, action[:, None])[:, 0] - logp).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy = -torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        value = functional.mse_loss(self.critic(obs)[:, 0], target)
        entropy = -(new.exp() * new).sum(-1).mean()
        return policy + 0.5 * value - 0.0 * entropy


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true", help="torch.compile of the loss")
    args = parser.parse_args()
    torch.manual_seed(0)
    updates = count_optimizer_steps()
    loop = Loop(args.compile)
    ops = {"train": Op(loop.train, lambda: {"env_steps": loop.env_steps, "updates": updates()})}
    return Side(ops, on_policy_work("ppo"), loop.vector.close)


if __name__ == "__main__":
    serve(build)
