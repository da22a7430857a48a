"""PDEIL: rewards from estimated densities of an expert's and the agent's steps (Liu et al. 2020, arXiv:2006.00309)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.data.roles import Samples, StateDict, Writer
from ding.reward_model._experts import read_demonstrations
from ding.reward_model._samples import Pool, field, with_rewards
from ding.reward_model.base_reward_model import BaseRewardModel
from ding.torch_utils import Adam
from ding.utils import REWARD_MODEL_REGISTRY

_SMALLEST = 1e-4
# Settings of the classifier of discrete actions.
_HIDDEN, _UPDATES = 64, 200


class _Normal:
    """A normal distribution fitted to rows ``[N, D]``."""

    def __init__(self, rows: torch.Tensor) -> None:
        rows = rows.double()
        ridge = 1e-6 * torch.eye(rows.shape[1], dtype=torch.float64)
        self.mean, self.covariance = rows.mean(0), torch.atleast_2d(rows.T.cov()) + ridge

    def density(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the density of each row, float64 ``[N]``."""
        root = torch.linalg.cholesky(self.covariance)
        gap = torch.linalg.solve_triangular(root, (rows.double() - self.mean).T, upper=False)
        exponent = 0.5 * (gap.square().sum(0) + len(root) * math.log(2 * math.pi)) + root.diagonal().log().sum()
        return torch.exp(-exponent)


@REWARD_MODEL_REGISTRY.register("pdeil")
class PdeilRewardModel(BaseRewardModel):
    """Reward steps that are likely for an expert, especially in states that the agent rarely visits.

    States, and pairs of states and continuous actions, are modelled as normal distributions; the expert's choice of
    discrete actions by a small classifier. All computation runs on the CPU.

    Args:
        cfg: See ``config``; ``expert_data_path`` is required.
    """

    config = {
        "type": "pdeil",
        "discrete_action": False,
        # (float) Share of the expert's density in the denominator.
        "alpha": 0.5,
        "clear_buffer_per_iters": 1,
    }

    def __init__(self, cfg: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(cfg, "cpu", tb_logger)
        self._states = Pool()
        self._policy: _Normal | None = None
        self._classifier: nn.Module | None = None
        self.load_expert_data()

    def load_expert_data(self, data: Samples | None = None) -> None:
        """Estimate the expert's densities from these steps; by default from the expert's file."""
        if data is None:
            data = read_demonstrations(self.cfg.expert_data_path)
        obs, action = _obs(data), field(data, "action")
        self._expert = _Normal(obs)
        if self.cfg.discrete_action:
            self._classifier = _classifier(obs, action.long().reshape(-1))
        else:
            self._expert_pairs = _Normal(torch.cat([obs, action.float().reshape(len(obs), -1)], dim=1))

    def collect_data(self, data: Samples) -> None:
        """Store the observations."""
        self._states.add(_obs(data))

    def clear_data(self) -> None:
        self._states.clear()

    def train(self) -> None:
        """Estimate the density of the collected states; with fewer than two states, the previous one is kept."""
        if len(self._states) > 1:
            self._policy = _Normal(self._states.rows()[0])

    def estimate(self, data: Samples) -> Samples:
        """Return the samples with their rewards; zeros before the first training, and if no state has any density."""
        reward = torch.zeros(len(data), 1)
        if self._policy is not None:
            obs, alpha = _obs(data), self.cfg.alpha
            expert, own = self._expert.density(obs), self._policy.density(obs)
            below = alpha * expert + (1 - alpha) * own
            if below.max() >= _SMALLEST:
                reward = (self._joint(data, obs, expert) / below.clamp(min=1e-300)).float().unsqueeze(1)
        return with_rewards(data, lambda old: reward.expand_as(old).clone())

    def _joint(self, data: Samples, obs: torch.Tensor, expert: torch.Tensor) -> torch.Tensor:
        """Return the expert's density of the state times the probability of the action, ``[N]``."""
        action = field(data, "action")
        if self._classifier is None:
            return self._expert_pairs.density(torch.cat([obs, action.float().reshape(len(obs), -1)], dim=1))
        with torch.no_grad():
            chances = self._classifier(obs).softmax(1)
        index = action.long().reshape(-1, 1)
        known = index < chances.shape[1]
        chosen = chances.gather(1, index.clamp(max=chances.shape[1] - 1)) * known
        output: torch.Tensor = expert * chosen.squeeze(1).double()
        return output

    def state_dict(self) -> StateDict:
        """Return the density of the agent's states; the expert's come from its data."""
        return {} if self._policy is None else {"mean": self._policy.mean, "covariance": self._policy.covariance}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load what :meth:`state_dict` returned."""
        if state_dict:
            self._policy = _Normal(torch.zeros(2, len(state_dict["mean"])))
            self._policy.mean, self._policy.covariance = state_dict["mean"], state_dict["covariance"]

    def collected_state(self) -> StateDict:
        """Return the agent's states, and the classifier of expert actions, whose training is random."""
        classifier = None if self._classifier is None else self._classifier.state_dict()
        return {"states": self._states.state_dict(), "classifier": classifier}

    def load_collected_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`collected_state` returned."""
        self._states.load_state_dict(state_dict["states"])
        if self._classifier is not None:
            self._classifier.load_state_dict(state_dict["classifier"])


def _obs(data: Samples) -> torch.Tensor:
    return field(data, "obs").float().flatten(1)


def _classifier(obs: torch.Tensor, action: torch.Tensor) -> nn.Module:
    """Return a network from observations to logits of actions, trained on the pairs."""
    count = int(action.max()) + 1
    network = nn.Sequential(nn.Linear(obs.shape[1], _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, count))
    optimizer = Adam(network.parameters(), lr=1e-2)
    for _ in range(_UPDATES):
        chosen = torch.randint(len(obs), (min(len(obs), 256),))
        loss = F.cross_entropy(network(obs[chosen]), action[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network
