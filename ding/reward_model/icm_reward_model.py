"""ICM: the intrinsic curiosity module (Pathak et al. 2017, arXiv:1705.05363), for discrete actions."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.data.roles import Samples, Writer
from ding.reward_model._intrinsic import IntrinsicRewardModel, encoder_of
from ding.reward_model._samples import field
from ding.torch_utils import Adam
from ding.utils import REWARD_MODEL_REGISTRY

_WIDTH = 512
_BLOCKS = 4


class ICMNetwork(nn.Module):
    """Feature encoder, inverse model (action between two observations) and forward model (features after an action)."""

    def __init__(self, obs_shape: int | list[int], hidden_size_list: list[int], action_shape: int) -> None:
        super().__init__()
        self.action_shape = action_shape
        self.feature = encoder_of(obs_shape, hidden_size_list)
        width = hidden_size_list[-1]
        self.inverse_net = nn.Sequential(nn.Linear(2 * width, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, action_shape))
        self.residual = nn.ModuleList(
            nn.Sequential(nn.Linear(action_shape + _WIDTH, _WIDTH), nn.LeakyReLU(), nn.Linear(_WIDTH, _WIDTH))
            for _ in range(2 * _BLOCKS)
        )
        self.forward_net_1 = nn.Sequential(nn.Linear(action_shape + width, _WIDTH), nn.LeakyReLU())
        self.forward_net_2 = nn.Linear(action_shape + _WIDTH, width)

    def forward(
        self, state: torch.Tensor, next_state: torch.Tensor, action: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Map observations ``[B, *obs_shape]`` and int64 actions ``[B]`` to the true and predicted next features ``[B,
        F]`` and the action logits ``[B, action_shape]``.
        """
        feature, next_feature = self.feature(state), self.feature(next_state)
        logit = self.inverse_net(torch.cat([feature, next_feature], dim=1))
        chosen = F.one_hot(action, self.action_shape).float()
        hidden = self.forward_net_1(torch.cat([feature, chosen], dim=1))
        for block in range(_BLOCKS):
            inner = self.residual[2 * block](torch.cat([hidden, chosen], dim=1))
            hidden = self.residual[2 * block + 1](torch.cat([inner, chosen], dim=1)) + hidden
        return next_feature, self.forward_net_2(torch.cat([hidden, chosen], dim=1)), logit


@REWARD_MODEL_REGISTRY.register("icm")
class ICMRewardModel(IntrinsicRewardModel):
    """Reward steps whose next observation is predicted poorly, in features trained to identify the action."""

    config = {
        "type": "icm",
        # (str) Use and scaling of the intrinsic reward; see IntrinsicRewardModel.
        "intrinsic_reward_type": "add",
        "intrinsic_reward_norm": "batch",
        "learning_rate": 1e-3,
        "obs_shape": 6,
        "action_shape": 7,
        "batch_size": 64,
        "hidden_size_list": [64, 64, 128],
        # (int) Updates per training.
        "update_per_collect": 100,
        # (float) Weight of the inverse (action) loss; higher values focus features on controllable parts.
        "reverse_scale": 1,
        "intrinsic_reward_weight": 0.003,
        # (bool) Whether to divide the rewards of the env by `extrinsic_reward_norm_max`.
        "extrinsic_reward_norm": True,
        "extrinsic_reward_norm_max": 1,
        # (int) Number of trainings after which the collected steps are dropped.
        "clear_buffer_per_iters": 100,
    }
    _log_name = "icm"

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        cfg = self.cfg
        self.reward_model: ICMNetwork = ICMNetwork(cfg.obs_shape, cfg.hidden_size_list, cfg.action_shape).to(device)
        self.opt = Adam(self.reward_model.parameters(), lr=cfg.learning_rate)

    def collect_data(self, data: Samples) -> None:
        """Store the steps."""
        self._pool.add(*_step(data, "cpu"))

    def _loss(self, *rows: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        obs, next_obs, action = rows
        real, predicted, logit = self.reward_model(obs, next_obs, action)
        inverse_loss = F.cross_entropy(logit, action)
        forward_loss = F.mse_loss(predicted, real.detach())
        loss = self.cfg.reverse_scale * inverse_loss + forward_loss
        accuracy = (logit.argmax(1) == action).float().mean()
        losses = {"forward_loss": forward_loss, "inverse_loss": inverse_loss, "total_loss": loss}
        return loss, {"action_accuracy": accuracy, **losses}

    def estimate(self, data: Samples) -> Samples:
        """Return the samples with scaled squared prediction errors of their next features as rewards."""
        with torch.no_grad():
            real, predicted, _ = self.reward_model(*_step(data, self.device))
        return self._rewarded(data, (predicted - real).square().mean(1))


def _step(data: Samples, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return observations and next observations, float32 ``[N, ...]``, and actions, int64 ``[N]``."""
    obs, next_obs = (field(data, name, device).float() for name in ("obs", "next_obs"))
    return obs, next_obs, field(data, "action", device).long().reshape(-1)
