"""Guided cost learning: inverse optimal control with sampled trajectories (Finn et al. 2016, arXiv:1603.00448)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ding.data import TransitionBatch
from ding.data.roles import Samples, StateDict, Writer
from ding.reward_model._learned import LearnedRewardModel
from ding.reward_model._samples import obs_action, with_rewards
from ding.torch_utils import Adam
from ding.utils import REWARD_MODEL_REGISTRY

_EPS = 1e-7


class GuidedCostNN(nn.Module):
    """Cost of an observation and an action."""

    def __init__(self, input_size: int, hidden_size: int = 128, output_size: int = 1) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(input_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, hidden_size), nn.ReLU(),
            nn.Linear(hidden_size, output_size),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, input_size]`` to ``[B, output_size]``."""
        output: torch.Tensor = self.net(x)
        return output


@REWARD_MODEL_REGISTRY.register("guided_cost")
class GuidedCostRewardModel(LearnedRewardModel):
    """Learn costs that are low for an expert's steps and high for likely steps of the policy.

    Args:
        config: see ``config``; ``input_size`` (features of observation and action; a discrete action is one number) is
            required. Samples need the ``logit`` of the policy that collected them.
    """

    config = {
        "type": "guided_cost",
        "learning_rate": 1e-3,
        "action_shape": 1,
        # (bool) Whether actions are continuous.
        "continuous": True,
        "batch_size": 64,
        "hidden_size": 128,
        # (int) Updates per collection.
        "update_per_collect": 100,
        "log_every_n_train": 50,
        # (int) Train iterations between saves of the state.
        "store_model_every_n_train": 100,
    }

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        self.reward_model = GuidedCostNN(self.cfg.input_size, self.cfg.hidden_size).to(device)
        self.opt = Adam(self.reward_model.parameters(), lr=self.cfg.learning_rate)

    def train(self, expert_demo: Samples, samp: Samples, iter: int = 0, step: int = 0) -> float:  # type: ignore[override]
        """Perform one update on steps of the expert and of the policy; return the loss.

        Args:
            expert_demo, samp: Steps of the expert and of the policy; neither is modified.
            iter, step: Train iteration and env step, for the log.
        """
        expert, own = obs_action(expert_demo, self.device), obs_action(samp, self.device)
        chance = torch.cat([self._chances(samp), torch.ones(len(expert), 1, device=self.device)])
        expert_cost = self.reward_model(expert)
        cost = torch.cat([self.reward_model(own), expert_cost])
        # log mean(exp(-c) / p), without an overflow.
        partition = torch.logsumexp(-cost - (chance + _EPS).log(), dim=0) - torch.tensor(float(len(cost))).log()
        loss = (expert_cost.mean() + partition).squeeze()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if iter % self.cfg.log_every_n_train == 0 and self.tb_logger is not None:
            self.tb_logger.add_scalar("reward_model/loss_iter", loss.item(), iter)
            self.tb_logger.add_scalar("reward_model/loss_step", loss.item(), step)
        value: float = loss.item()
        return value

    def _chances(self, samples: Samples) -> torch.Tensor:
        """Return the probability of each action, ``[N, 1]``."""
        batch = samples if isinstance(samples, TransitionBatch) else TransitionBatch.from_rows(list(samples))
        logit, action = batch.columns["logit"], torch.as_tensor(batch.columns["action"]).to(self.device)
        if not self.cfg.continuous:
            chances = torch.as_tensor(logit).to(self.device).softmax(-1)
            return chances.gather(1, action.long().reshape(-1, 1))
        if isinstance(logit, Mapping):
            mu, sigma = logit["mu"], logit["sigma"]
        else:
            mu, sigma = (torch.stack([torch.as_tensor(row[part]) for row in logit]) for part in (0, 1))
        normal = torch.distributions.Normal(torch.as_tensor(mu).to(self.device), torch.as_tensor(sigma).to(self.device))
        output: torch.Tensor = normal.log_prob(action.float()).sum(-1, keepdim=True).exp()
        return output

    def estimate(self, data: Samples) -> Samples:
        """Return the samples with their negative cost as reward; a list is modified in place and returned."""
        with torch.no_grad():
            reward = -self.reward_model(obs_action(data, self.device)).cpu()
        if isinstance(data, TransitionBatch):
            return with_rewards(data, lambda old: reward.expand_as(old).clone())
        for row, sample in enumerate(data):
            sample["reward"] = reward[row]
        return data

    def collect_data(self, data: Samples) -> None:
        """Do nothing: :meth:`train` receives its samples as arguments."""

    def clear_data(self) -> None:
        """Do nothing."""

    def collected_state(self) -> StateDict:
        """Return an empty state: :meth:`train` receives its samples as arguments."""
        return {}

    state_dict_reward_model = LearnedRewardModel.state_dict
    load_state_dict_reward_model = LearnedRewardModel.load_state_dict
