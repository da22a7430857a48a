"""T-REX: rewards extrapolated from ranked demonstrations (Brown et al. 2019, arXiv:1904.06387)."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ding.data.roles import Samples, StateDict, Writer
from ding.model.common.encoder import FCEncoder
from ding.reward_model._learned import LearnedRewardModel
from ding.reward_model._samples import field, with_rewards
from ding.torch_utils import Adam
from ding.utils import REWARD_MODEL_REGISTRY
from ding.utils.file_helper import read_file

log = logging.getLogger(__name__)

# For whole trajectories: the range of start steps and the number of skipped steps.
_MAX_START, _STRIDES = 6, (3, 7)
Pair = tuple[torch.Tensor, torch.Tensor]


class TrexConvEncoder(nn.Module):
    """Encode images to one number each."""

    def __init__(self, obs_shape: Sequence[int], hidden_size_list: Sequence[int] = (16, 16, 16, 16, 64, 1)) -> None:
        super().__init__()
        channels = (obs_shape[0], *hidden_size_list[:4])
        layers: list[nn.Module] = []
        for before, after, kernel, stride in zip(channels, channels[1:], (7, 5, 3, 3), (3, 2, 1, 1)):
            layers += [nn.Conv2d(before, after, kernel, stride), nn.LeakyReLU()]
        self.main = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            width = self.main(torch.zeros(1, *obs_shape)).shape[1]
        hidden, last = hidden_size_list[-2:]
        self.mid = nn.Sequential(nn.Linear(width, hidden), nn.LeakyReLU(), nn.Linear(hidden, last))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Map ``[B, C, H, W]`` to ``[B, 1]``."""
        output: torch.Tensor = self.mid(self.main(obs))
        return output


class TrexModel(nn.Module):
    """Predict a reward for each observation."""

    def __init__(self, obs_shape: int | Sequence[int]) -> None:
        super().__init__()
        self.encoder: nn.Module
        if isinstance(obs_shape, int) or len(obs_shape) == 1:
            self.encoder = nn.Sequential(FCEncoder(obs_shape, [512, 64]), nn.Linear(64, 1))
        else:
            self.encoder = TrexConvEncoder(obs_shape)

    def cum_return(self, traj: torch.Tensor, mode: str = "sum") -> tuple[torch.Tensor, torch.Tensor]:
        """Return rewards of observations ``[T, ...]``: with ``sum`` their sum and that of their absolute values, with
        ``batch`` the rewards, ``[T, 1]``.

        Raises:
            KeyError: ``mode`` is unknown.
        """
        rewards = self.encoder(traj)
        if mode == "sum":
            return rewards.sum(), rewards.abs().sum()
        if mode == "batch":
            return rewards, rewards.abs()
        raise KeyError(f"mode must be 'sum' or 'batch', got {mode!r}")

    def forward(self, traj_i: torch.Tensor, traj_j: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the returns of two trajectories, ``[2]``, and the sum of all absolute rewards."""
        (return_i, abs_i), (return_j, abs_j) = self.cum_return(traj_i), self.cum_return(traj_j)
        return torch.stack([return_i, return_j]), abs_i + abs_j


@REWARD_MODEL_REGISTRY.register("trex")
class TrexRewardModel(LearnedRewardModel):
    """Learn rewards that rank trajectories of later policy checkpoints above those of earlier ones.

    Args:
        config: a whole compiled config; ``reward_model`` as in ``config``, with ``min_snippet_length`` and
            ``max_snippet_length`` (steps); ``policy.model.obs_shape``; ``exp_name``, the folder with the output of
            ``trex_collecting_data``.
    """

    config = {
        "type": "trex",
        "learning_rate": 1e-5,
        # (int) Pairs per update. (DI-engine uses one.)
        "batch_size": 1,
        # (int) Number of passes over all pairs.
        "update_per_collect": 100,
        # (int) Number of pairs of whole trajectories, and of snippets.
        "num_trajs": 0,
        "num_snippets": 6000,
    }

    reward_model: TrexModel

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        self.reward_model = TrexModel(self.cfg.policy.model.obs_shape).to(device)
        self.opt = Adam(self.reward_model.parameters(), lr=self.cfg.reward_model.learning_rate)
        #: Checkpoint -> episode -> observations float32 ``[T, ...]``, and the returns of the episodes.
        self.demonstrations: list[list[torch.Tensor]] = []
        self.learning_returns: list[list[float]] = []
        self.training_obs: list[Pair] = []
        self.training_labels: list[int] = []

    def load_expert_data(self, data: Any = None) -> None:
        """Read the demonstrations of ``<exp_name>``, or use the given ones, and build pairs of them.

        Raises:
            AssertionError: There are fewer than two checkpoints.
        """
        folder = self.cfg.exp_name
        if data is None:
            data = read_file(os.path.join(folder, "episodes_data.pkl"))
            self.learning_returns = read_file(os.path.join(folder, "learning_returns.pkl"))
        self.demonstrations = [
            [torch.as_tensor(np.asarray(episode), dtype=torch.float32) for episode in episodes] for episodes in data
        ]
        self.create_training_data()

    def create_training_data(self) -> None:
        """Draw the training pairs; ``label`` is 1 if the second is of the later checkpoint."""
        cfg = self.cfg.reward_model
        if len(self.demonstrations) < 2:
            raise AssertionError(f"pairs need two checkpoints, the demonstrations are of {len(self.demonstrations)}")
        for number in range(cfg.num_trajs + cfg.num_snippets):
            i, j = np.random.choice(len(self.demonstrations), 2, replace=False).tolist()
            first, second = (self.demonstrations[k][np.random.randint(len(self.demonstrations[k]))] for k in (i, j))
            pair = _strided(first, second) if number < cfg.num_trajs else self._snippets(first, second, i < j)
            self.training_obs.append(pair)
            self.training_labels.append(int(i <= j))

    def _snippets(self, first: torch.Tensor, second: torch.Tensor, second_is_later: bool) -> Pair:
        """Return every second observation of equally long snippets of both; the later one does not begin earlier."""
        cfg, shortest = self.cfg.reward_model, min(len(first), len(second))
        low = min(cfg.min_snippet_length, shortest)
        length = np.random.randint(low, max(low + 1, min(shortest, cfg.max_snippet_length)))
        early, late = (first, second) if second_is_later else (second, first)
        start = np.random.randint(shortest - length + 1)
        later_start = np.random.randint(min(start, len(late) - length), len(late) - length + 1)
        cut = early[start : start + length : 2], late[later_start : later_start + length : 2]
        return cut if second_is_later else (cut[1], cut[0])

    def train(self) -> None:
        """Learn from all pairs, ``update_per_collect`` times; read the demonstrations first if there are none."""
        if not self.training_obs:
            self.load_expert_data()
        cfg, count = self.cfg.reward_model, len(self.training_obs)
        for _ in range(cfg.update_per_collect):
            order = np.random.permutation(count)
            losses = [self._step(order[start : start + cfg.batch_size]) for start in range(0, count, cfg.batch_size)]
            self.log("trex_reward", loss=torch.stack(losses).mean())
        log.info("the reward model ranks %.1f %% of its pairs as they are", 100 * self.accuracy())
        if self.learning_returns:
            for returns, predicted in zip(self.learning_returns, self.pred_data(self.demonstrations)):
                log.info("mean return %.2f, predicted %.2f", np.mean(returns), np.mean(predicted))

    def _step(self, chosen: np.ndarray) -> torch.Tensor:
        labels = torch.tensor([self.training_labels[k] for k in chosen], device=self.device)
        loss = F.cross_entropy(self._returns(chosen), labels)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def _returns(self, chosen: Sequence[int] | np.ndarray) -> torch.Tensor:
        """Return the predicted returns of pairs, ``[B, 2]``, with one forward pass."""
        parts = [part for k in chosen for part in self.training_obs[k]]
        owner = torch.repeat_interleave(torch.arange(len(parts)), torch.tensor([len(part) for part in parts]))
        rewards, _ = self.reward_model.cum_return(torch.cat(parts).to(self.device), "batch")
        sums = torch.zeros(len(parts), device=self.device)
        return sums.index_add(0, owner.to(self.device), rewards.squeeze(1)).reshape(-1, 2)

    def accuracy(self) -> float:
        """Return the share of pairs that are ranked correctly."""
        with torch.no_grad():
            parts = np.array_split(np.arange(len(self.training_obs)), max(1, len(self.training_obs) // 256))
            ranked = torch.cat([self._returns(part).argmax(1) for part in parts]).cpu()
        return float((ranked == torch.tensor(self.training_labels)).float().mean())

    def pred_data(self, data: Sequence[Sequence[torch.Tensor]]) -> list[list[float]]:
        """Return the predicted return of each episode of each checkpoint."""
        return [[self.predict_traj_return(self.reward_model, episode) for episode in episodes] for episodes in data]

    def predict_traj_return(self, net: TrexModel, traj: torch.Tensor) -> float:
        """Return the sum of the rewards of the observations ``[T, ...]``."""
        with torch.no_grad():
            return float(net.cum_return(torch.as_tensor(traj, dtype=torch.float32).to(self.device))[0])

    def estimate(self, data: Samples) -> Samples:
        """Return the samples with the rewards of their observations."""
        with torch.no_grad():
            reward = self.reward_model.cum_return(field(data, "obs", self.device).float(), "batch")[0].cpu()
        return with_rewards(data, lambda old: reward.expand_as(old).clone())

    def collect_data(self, data: Samples) -> None:
        """Do nothing: the model learns only from demonstrations."""

    def clear_data(self) -> None:
        """Remove the pairs."""
        self.training_obs.clear()
        self.training_labels.clear()

    def collected_state(self) -> StateDict:
        """Return an empty state: the pairs serve only one training."""
        return {}


def _strided(first: torch.Tensor, second: torch.Tensor) -> Pair:
    """Return both trajectories from a random step on, with a random stride."""
    low, high = _STRIDES
    step = np.random.randint(low, high)
    starts = [np.random.randint(min(_MAX_START, len(one))) for one in (first, second)]
    return first[starts[0] :: step], second[starts[1] :: step]
