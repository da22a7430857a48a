"""Collection by hand: gymnasium's vector envs, a plain torch forward, epsilon-greedy, rows into arrays."""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
import torch
from bench_side import Op, Side, serve
from bench_work import ACTIONS, BUFFER_SIZE, EPSILON, OBS_DIM, ROLLOUT, collect_work, make_mlp
from torch import nn

VECTORS = ("sync", "async", "vectorised")


class DuelingQ(nn.Module):
    """The network of the default config: encoder, then one hidden layer each for advantage and value."""

    def __init__(self, hidden: list[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = OBS_DIM
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        self.encoder = nn.Sequential(*layers)
        self.advantage = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, ACTIONS))
        self.value = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.encoder(x)
        advantage = self.advantage(features)
        return advantage - advantage.mean(dim=-1, keepdim=True) + self.value(features)


def make_vector(kind: str, envs: int) -> Any:
    """A vector env of CartPole-v1."""
    if kind == "vectorised":
        return gymnasium.make_vec("CartPole-v1", num_envs=envs, vectorization_mode="vector_entry_point")
    cls = gymnasium.vector.SyncVectorEnv if kind == "sync" else gymnasium.vector.AsyncVectorEnv
    return cls([lambda: gymnasium.make("CartPole-v1")] * envs)


class Loop:
    """The loop, and the arrays that it writes."""

    def __init__(self, vector: Any, envs: int, network: nn.Module) -> None:
        self.vector, self.envs, self.network = vector, envs, network
        self.rng = np.random.default_rng(0)
        self.obs = np.empty((BUFFER_SIZE, OBS_DIM), np.float32)
        self.next_obs = np.empty_like(self.obs)
        self.action = np.empty(BUFFER_SIZE, np.int64)
        self.reward = np.empty(BUFFER_SIZE, np.float32)
        self.done = np.empty(BUFFER_SIZE, bool)
        self.tail = 0
        self.env_steps = 0
        self.current, _ = vector.reset(seed=0)

    def collect(self) -> None:
        envs, rng = self.envs, self.rng
        for _ in range(ROLLOUT):
            with torch.no_grad():
                action = self.network(torch.from_numpy(self.current)).argmax(1).numpy()
            explore = rng.random(envs) < EPSILON
            if explore.any():
                action = np.where(explore, rng.integers(0, ACTIONS, envs), action)
            following, reward, terminated, _, _ = self.vector.step(action)
            start = self.tail if self.tail + envs <= BUFFER_SIZE else 0
            self.tail = start + envs
            rows = slice(start, self.tail)
            self.obs[rows], self.next_obs[rows], self.action[rows] = self.current, following, action
            self.reward[rows], self.done[rows] = reward, terminated
            self.current = following
            self.env_steps += envs


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8)
    parser.add_argument("--vector", choices=VECTORS, default="sync")
    parser.add_argument("--network", choices=("mlp", "dueling"), default="mlp")
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 128])
    args = parser.parse_args()
    torch.manual_seed(0)
    network = make_mlp(tuple(args.hidden)) if args.network == "mlp" else DuelingQ(args.hidden)
    vector = make_vector(args.vector, args.envs)
    loop = Loop(vector, args.envs, network)
    work = {**collect_work(args.envs), "hidden": list(args.hidden), "network": args.network}
    return Side({"collect": Op(loop.collect, lambda: {"env_steps": loop.env_steps})}, work, vector.close)


if __name__ == "__main__":
    serve(build)
