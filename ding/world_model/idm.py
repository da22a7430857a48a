"""The inverse dynamics of an env: which action lies between two observations (Torabi et al. 2018, arXiv:1805.01954)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ding.model.common.encoder import ConvEncoder, FCEncoder
from ding.model.common.head import DiscreteHead, RegressionHead, ReparameterizationHead
from ding.model.common.shapes import ObsShape, as_shape
from ding.torch_utils import Adam
from ding.utils.names import did_you_mean

_SPACES = ("regression", "reparameterization", "discrete")
_LEAKY_RELU = nn.LeakyReLU()


class InverseDynamicsModel(nn.Module):
    """An observation and the next one, as one, to the action between them. State: ``encoder.*``, ``header.*``.

    Arguments:
        obs_shape: an int or ``(n,)`` for vectors, ``(C, H, W)`` for images, of one observation.
        action_shape: number of dimensions of the action, or of discrete actions.
        action_space: ``regression``, ``reparameterization`` (a tanh of a normal distribution) or ``discrete``.

    Raises:
        ValueError: an unknown ``action_space``.
        RuntimeError: ``obs_shape`` has neither one nor three axes.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        encoder_hidden_size_list: Sequence[int] = (60, 80, 100, 40),
        action_space: str = "regression",
        activation: nn.Module | None = _LEAKY_RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        if action_space not in _SPACES:
            raise ValueError(f"action_space {action_space!r} is unknown.{did_you_mean(str(action_space), _SPACES)}")
        self.action_space = action_space
        hidden = list(encoder_hidden_size_list)
        options: dict[str, Any] = {"activation": activation, "norm_type": norm_type}
        shape = None if isinstance(obs_shape, Mapping) else as_shape(obs_shape, "obs_shape")
        if isinstance(shape, int):
            self.encoder: nn.Module = FCEncoder(2 * shape, hidden, **options)
        elif shape is not None and len(shape) == 3:
            self.encoder = ConvEncoder((2 * shape[0], *shape[1:]), hidden, **options)
        else:
            raise RuntimeError(f"obs_shape must have one axis or three (C, H, W), got {obs_shape!r}")
        if action_space == "discrete":
            self.header: nn.Module = DiscreteHead(hidden[-1], as_shape(action_shape, "action_shape"), **options)  # type: ignore[arg-type]
        elif action_space == "regression":
            self.header = RegressionHead(hidden[-1], action_shape, final_tanh=False, **options)
        else:
            self.header = ReparameterizationHead(hidden[-1], action_shape, sigma_type="conditioned", **options)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        """Two observations as one, ``[B, 2 * obs]`` or ``[B, 2 * C, H, W]``, to ``action`` ``[B, N]`` (regression);
        ``logit``, the list of ``mu`` and ``sigma``, and a drawn ``action`` (reparameterization); or ``logit`` ``[B,
        actions]`` (discrete).
        """
        output = self.header(self.encoder(x))
        if self.action_space == "discrete":
            return {"logit": output["logit"]}
        if self.action_space == "regression":
            pred = output["pred"]
            return {"action": pred if pred.ndim == 2 else pred.unsqueeze(-1)}
        mu, sigma = output["mu"], output["sigma"]
        return {"logit": [mu, sigma], "action": torch.tanh(mu + sigma * torch.randn_like(sigma))}

    def predict_action(self, x: torch.Tensor) -> dict[str, Any]:
        """Return the most likely action between two observations, without gradients: ``action``, int64 ``[B]`` or float
        ``[B, N]``; of ``reparameterization`` with ``logit``, the list of ``mu`` and ``sigma``.
        """
        with torch.no_grad():
            output = self.forward(x)
        if self.action_space == "discrete":
            return {"action": output["logit"].argmax(-1)}
        if self.action_space == "reparameterization":
            return {"logit": output["logit"], "action": torch.tanh(output["logit"][0])}
        return {"action": output["action"]}

    def train(
        self,
        training_set: Mapping[str, torch.Tensor] | bool = True,
        n_epoch: int = 1,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
    ) -> Any:
        """Learn a set as one batch, ``n_epoch`` times, with a new AdamW; returns the mean loss.

        Args:
            training_set: ``obs``, two observations as one, and ``action``, ``[B]`` or ``[B, N]``. A bool switches the
                mode, as ``nn.Module.train`` does.
        """
        if isinstance(training_set, bool):
            return super().train(training_set)
        optimizer = Adam(self.parameters(), lr=learning_rate, weight_decay=weight_decay, optim_type="adamw")
        losses = []
        for _ in range(n_epoch):
            loss = self._loss(training_set["obs"], training_set["action"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        return sum(losses) / max(len(losses), 1)

    def _loss(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        output = self.forward(obs)
        if self.action_space == "discrete":
            return functional.cross_entropy(output["logit"], action.reshape(-1))
        return functional.l1_loss(output["action"], action.reshape(output["action"].shape))
