"""RND: random network distillation (Burda et al. 2018, arXiv:1810.12894)."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.data.roles import Samples, Writer
from ding.reward_model._intrinsic import IntrinsicRewardModel, encoder_of
from ding.reward_model._samples import field
from ding.torch_utils import Adam
from ding.utils import REWARD_MODEL_REGISTRY, RunningMeanStd


def collect_states(data: Samples) -> list[torch.Tensor]:
    """Return the observations of samples."""
    return list(field(data, "obs"))


class RndNetwork(nn.Module):
    """A fixed random network and one that learns to predict it."""

    def __init__(self, obs_shape: int | list[int], hidden_size_list: list[int]) -> None:
        super().__init__()
        self.target = encoder_of(obs_shape, hidden_size_list)
        self.predictor = encoder_of(obs_shape, hidden_size_list)
        self.target.requires_grad_(False)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map observations ``[B, *obs_shape]`` to predicted and true features ``[B, F]``."""
        with torch.no_grad():
            target = self.target(obs)
        return self.predictor(obs), target


@REWARD_MODEL_REGISTRY.register("rnd")
class RndRewardModel(IntrinsicRewardModel):
    """Reward novel observations, whose random features are predicted poorly.

    Args:
        config: See ``config``; ``obs_shape`` is required.
    """

    config = {
        "type": "rnd",
        # (str) Use and scaling of the intrinsic reward; see IntrinsicRewardModel.
        "intrinsic_reward_type": "add",
        "intrinsic_reward_norm": "batch",
        "learning_rate": 1e-3,
        "batch_size": 64,
        "hidden_size_list": [64, 64, 128],
        # (int) Updates per training.
        "update_per_collect": 100,
        # (bool) Whether to normalise observations by running statistics, and the bounds afterwards.
        "obs_norm": True,
        "obs_norm_clamp_min": -1,
        "obs_norm_clamp_max": 1,
        "intrinsic_reward_weight": 0.01,
        # (bool) Whether to divide the rewards of the env by `extrinsic_reward_norm_max`.
        "extrinsic_reward_norm": True,
        "extrinsic_reward_norm_max": 1,
        # (int) Number of trainings after which the collected observations are dropped.
        "clear_buffer_per_iters": 1,
    }
    _log_name = "rnd"

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        shape = self.cfg.obs_shape
        self.reward_model = RndNetwork(shape, self.cfg.hidden_size_list).to(device)
        self.opt = Adam(self.reward_model.predictor.parameters(), lr=self.cfg.learning_rate)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self._obs_statistics = RunningMeanStd(epsilon=1e-4, shape=shape, device=device)

    def collect_data(self, data: Samples) -> None:
        """Store the observations."""
        self._pool.add(field(data, "obs").float())

    def _loss(self, *rows: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        (obs,) = rows
        self._obs_statistics.update(obs)
        loss = F.mse_loss(*self.reward_model(self._normed(obs)))
        return loss, {"loss": loss}

    def estimate(self, data: Samples) -> Samples:
        """Return the samples with scaled squared prediction errors of their features as rewards."""
        with torch.no_grad():
            predicted, target = self.reward_model(self._normed(field(data, "obs", self.device).float()))
        return self._rewarded(data, (predicted - target).square().mean(1))

    def _normed(self, obs: torch.Tensor) -> torch.Tensor:
        if not self.cfg.obs_norm:
            return obs
        statistics, cfg = self._obs_statistics, self.cfg
        output: torch.Tensor = ((obs - statistics.mean) / statistics.std).clamp(
            cfg.obs_norm_clamp_min, cfg.obs_norm_clamp_max
        )
        return output

    def _statistics(self) -> dict[str, RunningMeanStd]:
        return {**super()._statistics(), "obs": self._obs_statistics}
