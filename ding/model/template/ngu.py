"""The recurrent Q network of NGU (Badia et al. 2020, arXiv:2002.06038)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.model.common.shapes import ObsShape
from ding.model.template._drqn import DRQN
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES
from ding.utils import MODEL_REGISTRY, squeeze


@MODEL_REGISTRY.register("ngu")
class NGU(DRQN):
    """Q values over histories of observations, actions and rewards, for each member of a family of policies.

    Beside the features of the observation the recurrent layer reads the previous action (one-hot), the previous reward
    of the env, and the number of the member (``beta``, one-hot). State: ``encoder``, ``rnn``, ``head``.

    Arguments:
        collector_env_num: the size of the family: as many members as collector envs. Others as in ``DRQN``.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        collector_env_num: int = 1,
        dueling: bool = True,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        lstm_type: str = "normal",
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        norm_type: str | None = None,
    ) -> None:
        super().__init__(
            obs_shape,
            action_shape,
            encoder_hidden_size_list,
            dueling,
            head_hidden_size,
            head_layer_num,
            lstm_type,
            activation,
            norm_type,
            extra_width=squeeze(action_shape) + 1 + collector_env_num,
        )
        self.action_shape, self.collector_env_num = squeeze(action_shape), collector_env_num

    def _extra(self, inputs: Mapping[str, Any], axes: tuple[int, ...]) -> torch.Tensor:
        """From ``prev_action`` (-1: there was none), ``prev_reward_extrinsic`` and ``beta``, one number each per row.

        For a sequence ``action`` and ``reward`` of its own steps do, too; then the first step has no previous one.
        """
        if "prev_action" in inputs:
            action, reward = inputs["prev_action"], inputs["prev_reward_extrinsic"]
        else:
            action, reward = shifted(inputs["action"], -1), shifted(inputs["reward"], 0)
        action, beta = action.reshape(axes).long(), inputs["beta"].reshape(axes).long()
        taken = F.one_hot(action.clamp(min=0), self.action_shape) * (action >= 0).unsqueeze(-1)
        parts = taken, reward.reshape(*axes, -1)[..., :1], F.one_hot(beta, self.collector_env_num)
        return torch.cat([part.float() for part in parts], dim=-1)


def shifted(values: torch.Tensor, first: float, dim: int = 0) -> torch.Tensor:
    """Return the values of the step before, along the axis ``dim``; ``first`` where there is none."""
    before = torch.full_like(values.narrow(dim, 0, 1), first)
    return torch.cat([before, values.narrow(dim, 0, values.shape[dim] - 1)], dim)
