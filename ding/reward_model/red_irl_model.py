"""RED: random expert distillation (Wang et al. 2019, arXiv:1905.06750)."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.data.roles import Samples, StateDict, Writer
from ding.reward_model._experts import read_demonstrations
from ding.reward_model._samples import Pool, obs_action, with_rewards
from ding.reward_model.base_reward_model import BaseRewardModel
from ding.torch_utils import Adam
from ding.utils import REWARD_MODEL_REGISTRY


class SENet(nn.Module):
    """Two linear layers, each followed by a hyperbolic tangent."""

    def __init__(self, input_size: int, hidden_size: int, output_dims: int) -> None:
        super().__init__()
        self.l_1 = nn.Linear(input_size, hidden_size)
        self.l_2 = nn.Linear(hidden_size, output_dims)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``[B, input_size]`` to ``[B, output_dims]``."""
        return torch.tanh(self.l_2(torch.tanh(self.l_1(x))))


@REWARD_MODEL_REGISTRY.register("red")
class RedRewardModel(BaseRewardModel):
    """Reward steps at which a network trained on expert data predicts a fixed random network well.

    Args:
        config: see ``config``; ``input_size`` (features of observation and action; a discrete action is one number) and
            ``expert_data_path`` are required.
    """

    config = {
        "type": "red",
        # (int) Maximum number of expert steps.
        "sample_size": 1000,
        "hidden_size": 128,
        "learning_rate": 1e-3,
        # (int) Number of updates of the single training.
        "update_per_collect": 100,
        "batch_size": 64,
        # (float) Decay of rewards with the prediction error; higher values reward only expert-like steps.
        "sigma": 0.5,
        "clear_buffer_per_iters": 1,
    }

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        cfg = self.cfg
        self.target_net = SENet(cfg.input_size, cfg.hidden_size, 1).to(device).requires_grad_(False)
        self.online_net = SENet(cfg.input_size, cfg.hidden_size, 1).to(device)
        self.opt = Adam(self.online_net.parameters(), lr=cfg.learning_rate)
        self._trained = False
        self._expert = Pool()
        self.load_expert_data()

    def load_expert_data(self, data: Samples | None = None) -> None:
        """Learn from these steps; by default from the expert's file."""
        if data is None:
            data = read_demonstrations(self.cfg.expert_data_path, self.cfg.sample_size)
        self._expert.clear()
        self._expert.add(obs_action(data))

    def collect_data(self, data: Samples) -> None:
        """Do nothing: the model learns only from the expert."""

    def clear_data(self) -> None:
        """Do nothing."""

    def train(self) -> None:
        """Perform ``update_per_collect`` updates at the first call, none later."""
        if self._trained:
            return
        self._trained = True
        for _ in range(self.cfg.update_per_collect):
            (pairs,) = self._expert.draw(self.cfg.batch_size, self.device)
            loss = F.mse_loss(self.online_net(pairs), self.target_net(pairs))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.log("red_reward", loss=loss.detach())

    def estimate(self, data: Samples) -> Samples:
        """Return the samples with ``exp(-sigma error^2)`` as reward."""
        pairs = obs_action(data, self.device)
        with torch.no_grad():
            error = (self.online_net(pairs) - self.target_net(pairs)).square().mean(1, keepdim=True)
        reward = torch.exp(-self.cfg.sigma * error).cpu()
        return with_rewards(data, lambda old: reward.expand_as(old).clone())

    def state_dict(self) -> StateDict:
        """Return both networks, the optimiser, and whether they are trained."""
        parts: dict[str, Any] = {"target_net": self.target_net, "online_net": self.online_net, "optimizer": self.opt}
        return {**{name: part.state_dict() for name, part in parts.items()}, "trained": self._trained}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load what :meth:`state_dict` returned."""
        self.target_net.load_state_dict(state_dict["target_net"])
        self.online_net.load_state_dict(state_dict["online_net"])
        self.opt.load_state_dict(state_dict["optimizer"])
        self._trained = bool(state_dict["trained"])

    def collected_state(self) -> StateDict:
        """Return an empty state: the expert's steps serve only the first training."""
        return {}
