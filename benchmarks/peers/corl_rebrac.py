"""ReBRAC in one file, from the formulas of the paper (arXiv:2305.09836), as CORL and CleanRL write algorithms.

    OMP_NUM_THREADS=1 python -m benchmarks.peers.corl_rebrac DATA --seed 0 --updates 2000

DATA is a columnar file of `ding.data.columns_save` with steps of Pendulum-v1, its actions in [-1, 1]. Prints the mean
return of 20 episodes of the actor. Networks, penalties and batch size are those of
`configs/pendulum/pendulum_rebrac_config.py`; nothing of ``ding`` but the reader of the file is used.
"""

from __future__ import annotations

import argparse
import copy
import time

import gymnasium
import numpy as np
import torch
from torch import nn

GAMMA, TAU, NOISE, NOISE_LIMIT = 0.99, 0.005, 0.2, 0.5


def actor_network(obs: int, action: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, action), nn.Tanh(),
    )  # fmt: skip


def critic_network(width: int, hidden: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for size in (width, hidden, hidden):
        layers += [nn.Linear(size, hidden), nn.LayerNorm(hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, 1))


class ReBRAC:
    """The algorithm; :meth:`train` is one update."""

    def __init__(self, obs: int, action: int, hidden: int, beta_actor: float, beta_critic: float) -> None:
        self.beta_actor, self.beta_critic, self.updates = beta_actor, beta_critic, 0
        self.actor = actor_network(obs, action, hidden)
        self.critics = nn.ModuleList([critic_network(obs + action, hidden) for _ in range(2)])
        self.actor_target, self.critic_targets = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), lr=1e-3)

    def train(self, batch: dict[str, torch.Tensor]) -> None:
        self.updates += 1
        with torch.no_grad():
            next_action = self.actor_target(batch["next_obs"])
            noise = (torch.randn_like(next_action) * NOISE).clamp(-NOISE_LIMIT, NOISE_LIMIT)
            next_action = (next_action + noise).clamp(-1, 1)
            distance = (next_action - batch["next_action"]).square().sum(1, keepdim=True) * batch["known"]
            inputs = torch.cat([batch["next_obs"], next_action], 1)
            next_q = torch.min(*(critic(inputs) for critic in self.critic_targets)) - self.beta_critic * distance
            target = batch["reward"] + GAMMA * (1 - batch["done"]) * next_q
        inputs = torch.cat([batch["obs"], batch["action"]], 1)
        critic_loss = sum((critic(inputs) - target).square().mean() for critic in self.critics)
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()
        if self.updates % 2 == 0:
            action = self.actor(batch["obs"])
            q = torch.min(*(critic(torch.cat([batch["obs"], action], 1)) for critic in self.critics))
            distance = (action - batch["action"]).square().sum(1, keepdim=True)
            actor_loss = (self.beta_actor * distance - q / q.abs().mean().detach()).mean()
            self.actor_optimizer.zero_grad()
            actor_loss.backward()
            self.actor_optimizer.step()
        with torch.no_grad():
            for part, kept in ((self.actor, self.actor_target), (self.critics, self.critic_targets)):
                for parameter, old in zip(part.parameters(), kept.parameters()):
                    old.lerp_(parameter, TAU)


def load(path: str) -> dict[str, torch.Tensor]:
    """The rows with the action after each, found by a dictionary of observations."""
    from ding.data import create_dataset

    rows = create_dataset({"policy": {"collect": {"data_type": "columns", "data_path": path}}}).rows_at(slice(None))  # type: ignore[attr-defined]
    place = {rows["obs"][i].tobytes(): i for i in range(len(rows["obs"]))}
    after = [place.get(one.tobytes(), -1) for one in rows["next_obs"]]
    known = np.array(after)[:, None] >= 0
    data = {key: torch.from_numpy(np.asarray(rows[key])).float() for key in ("obs", "action", "reward", "next_obs")}
    data["done"] = torch.from_numpy(rows["done"]).float().reshape(-1, 1)
    data["next_action"], data["known"] = data["action"][after], torch.from_numpy(known).float()
    return data


def evaluate(actor: nn.Module, episodes: int, seed: int) -> float:
    """The mean return of the actor in Pendulum-v1."""
    env, total = gymnasium.make("Pendulum-v1"), 0.0
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed * 1000 + episode)
        ended = False
        while not ended:
            with torch.no_grad():
                action = actor(torch.from_numpy(obs).float().unsqueeze(0))[0].numpy() * 2
            obs, reward, terminated, truncated, _ = env.step(action)
            total, ended = total + float(reward), terminated or truncated
    return total / episodes


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    np.random.seed(options.seed)
    data, start = load(options.data), time.process_time()
    algorithm = ReBRAC(3, 1, 128, 2.0, 0.1)
    for _ in range(options.updates):
        rows = torch.from_numpy(np.random.randint(0, len(data["obs"]), options.batch))
        algorithm.train({key: column[rows] for key, column in data.items()})
    seconds = time.process_time() - start
    found = evaluate(algorithm.actor, 20, options.seed)
    print(f"seed {options.seed}: return {found:.1f} after {options.updates} updates, {seconds:.1f} CPU seconds")


if __name__ == "__main__":
    main()
