"""PPO and PQN in one file in the manner of CleanRL: SyncVectorEnv, storage as tensors, a plain torch loop.

Returns are computed step by step with tensors, and each action is read back once, as in its scripts.
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
    EPSILON,
    OBS_DIM,
    PPO_EPOCHS,
    PPO_MINIBATCH,
    PPO_STEPS,
    on_policy_work,
)
from torch import nn
from torch.distributions.categorical import Categorical
from torch.nn import functional

ENVS = 8
GAMMA, LAMBDA, CLIP, Q_LAMBDA = 0.99, 0.95, 0.2, 0.65


def mlp(outputs: int, normalized: bool = False) -> nn.Sequential:
    """A network of two layers, with layer normalisation for PQN."""
    layers: list[nn.Module] = []
    width = OBS_DIM
    for size in ACTOR_CRITIC_HIDDEN:
        layers += [nn.Linear(width, size), *([nn.LayerNorm(size)] if normalized else []), nn.ReLU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, outputs))


class Storage:
    """The steps of a collection, ``[steps, envs]``, and the envs."""

    def __init__(self) -> None:
        self.envs = gymnasium.vector.SyncVectorEnv(
            [lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))] * ENVS
        )
        self.obs = torch.zeros(PPO_STEPS, ENVS, OBS_DIM)
        self.actions, self.rewards, self.dones, self.values, self.logprobs = (
            torch.zeros(PPO_STEPS, ENVS) for _ in range(5)
        )
        first, _ = self.envs.reset(seed=0)
        self.next_obs, self.next_done = torch.Tensor(first), torch.zeros(ENVS)
        self.env_steps = 0

    def step(self, index: int, action: torch.Tensor) -> None:
        self.actions[index] = action
        obs, reward, terminated, truncated, _ = self.envs.step(action.cpu().numpy())
        done = np.logical_or(terminated, truncated)
        self.rewards[index] = torch.tensor(reward).view(-1)
        self.next_obs, self.next_done = torch.Tensor(obs), torch.Tensor(done)
        self.env_steps += ENVS

    def begin(self, index: int) -> None:
        self.obs[index], self.dones[index] = self.next_obs, self.next_done


class PPO:
    """An actor and a critic."""

    def __init__(self) -> None:
        self.storage = Storage()
        self.actor, self.critic = mlp(ACTIONS), mlp(1)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=3e-4, eps=1e-5)

    def action_and_value(self, obs: Any, action: Any = None) -> tuple[torch.Tensor, ...]:
        policy = Categorical(logits=self.actor(obs))
        action = policy.sample() if action is None else action
        return action, policy.log_prob(action), policy.entropy(), self.critic(obs)

    def train(self) -> None:
        store = self.storage
        for step in range(PPO_STEPS):
            store.begin(step)
            with torch.no_grad():
                action, logprob, _, value = self.action_and_value(store.next_obs)
                store.values[step] = value.flatten()
            store.logprobs[step] = logprob
            store.step(step, action)
        with torch.no_grad():
            next_value = self.critic(store.next_obs).reshape(1, -1)
            advantages, last = torch.zeros_like(store.rewards), torch.zeros(ENVS)
            for t in reversed(range(PPO_STEPS)):
                goes_on = 1.0 - (store.next_done if t == PPO_STEPS - 1 else store.dones[t + 1])
                following = next_value if t == PPO_STEPS - 1 else store.values[t + 1]
                delta = store.rewards[t] + GAMMA * following * goes_on - store.values[t]
                advantages[t] = last = delta + GAMMA * LAMBDA * goes_on * last
            returns = advantages + store.values
        rows = [store.obs.reshape(-1, OBS_DIM)]
        rows += [part.reshape(-1) for part in (store.actions, store.logprobs, advantages, returns)]
        indices = np.arange(PPO_STEPS * ENVS)
        for _ in range(PPO_EPOCHS):
            np.random.shuffle(indices)
            for start in range(0, len(indices), PPO_MINIBATCH):
                self.update(*(part[indices[start : start + PPO_MINIBATCH]] for part in rows))

    def update(self, obs: Any, action: Any, old: Any, advantage: Any, return_: Any) -> None:
        _, logprob, entropy, value = self.action_and_value(obs, action.long())
        logratio = logprob - old
        ratio = logratio.exp()
        with torch.no_grad():
            ((ratio - 1) - logratio).mean()
            ((ratio - 1.0).abs() > CLIP).float().mean().item()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss = torch.max(-advantage * ratio, -advantage * torch.clamp(ratio, 1 - CLIP, 1 + CLIP)).mean()
        loss = policy_loss + 0.5 * 0.5 * ((value.view(-1) - return_) ** 2).mean() - 0.0 * entropy.mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 0.5)
        self.optimizer.step()


class PQN:
    """A network of Q values with layer normalisation."""

    def __init__(self) -> None:
        self.storage = Storage()
        self.network = mlp(ACTIONS, normalized=True)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=2.5e-4)

    def train(self) -> None:
        store = self.storage
        for step in range(PPO_STEPS):
            store.begin(step)
            explore = torch.rand((ENVS,)) < EPSILON
            random = torch.randint(0, ACTIONS, (ENVS,))
            with torch.no_grad():
                q_values = self.network(store.next_obs)
                best = torch.argmax(q_values, dim=1)
                store.values[step] = q_values[torch.arange(ENVS), best].flatten()
            store.step(step, torch.where(explore, random, best))
        with torch.no_grad():
            returns = torch.zeros_like(store.rewards)
            for t in reversed(range(PPO_STEPS)):
                if t == PPO_STEPS - 1:
                    following, _ = torch.max(self.network(store.next_obs), dim=-1)
                    returns[t] = store.rewards[t] + GAMMA * following * (1.0 - store.next_done)
                    continue
                goes_on, following = 1.0 - store.dones[t + 1], store.values[t + 1]
                mixed = Q_LAMBDA * returns[t + 1] + (1 - Q_LAMBDA) * following
                returns[t] = store.rewards[t] + GAMMA * mixed * goes_on
        rows = [store.obs.reshape(-1, OBS_DIM), store.actions.reshape(-1), returns.reshape(-1)]
        indices = np.arange(PPO_STEPS * ENVS)
        for _ in range(PPO_EPOCHS):
            np.random.shuffle(indices)
            for start in range(0, len(indices), PPO_MINIBATCH):
                self.update(*(part[indices[start : start + PPO_MINIBATCH]] for part in rows))

    def update(self, obs: Any, action: Any, return_: Any) -> None:
        value = self.network(obs).gather(1, action.long().unsqueeze(-1)).squeeze()
        loss = functional.mse_loss(return_, value)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
        self.optimizer.step()


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=("ppo", "pqn"), required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    updates = count_optimizer_steps()
    agent = PPO() if args.algorithm == "ppo" else PQN()
    ops = {"train": Op(agent.train, lambda: {"env_steps": agent.storage.env_steps, "updates": updates()})}
    return Side(ops, on_policy_work(args.algorithm), agent.storage.envs.close)


if __name__ == "__main__":
    serve(build)
