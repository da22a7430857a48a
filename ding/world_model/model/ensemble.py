"""An ensemble of probabilistic networks as one batched network: the dynamics model of MBPO and its relatives.

Shapes: E members, B rows, D inputs (state and action), L labels (reward and change of the state).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ding.torch_utils import Adam
from ding.torch_utils.graph.recordable_optimizer import record_step
from ding.torch_utils.graph.recording import current_recording

# A deviation below this one is that of a constant input, which is not scaled.
_CONSTANT = 1e-12
# L2 regularisation of the five layers where `use_decay` is on, as in the reference implementation of MBPO.
_DECAYS = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)
# Where the logarithms of variances are bent: softly, so that they keep gradients.
_MAX_LOGVAR, _MIN_LOGVAR = 0.5, -10.0


class StandardScaler(nn.Module):
    """Scales inputs to mean 0 and deviation 1. State: ``std`` and ``mu``, ``[1, D]``.

    Args:
        input_size: D.
    """

    std: torch.Tensor
    mu: torch.Tensor

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.register_buffer("std", torch.ones(1, input_size))
        self.register_buffer("mu", torch.zeros(1, input_size))

    def fit(self, data: torch.Tensor) -> None:
        """Take mean and deviation from ``data`` ``[N, D]``; a constant input keeps its scale."""
        std, mu = torch.std_mean(data, dim=0, keepdim=True)
        self.std.copy_(torch.where(std < _CONSTANT, 1.0, std))
        self.mu.copy_(mu)

    def transform(self, data: torch.Tensor) -> torch.Tensor:
        """Return ``data`` ``[..., D]`` scaled."""
        return (data - self.mu) / self.std

    def inverse_transform(self, data: torch.Tensor) -> torch.Tensor:
        """Return scaled ``data`` ``[..., D]`` as it was."""
        return self.std * data + self.mu


class EnsembleFC(nn.Module):
    """A linear layer of each member. State: ``weight`` ``[E, in, out]`` and ``bias`` ``[E, 1, out]``.

    Weights are drawn from a normal distribution of deviation ``1 / (2 sqrt(in))`` that ends at two deviations.

    Args:
        in_features, out_features: of one member.
        ensemble_size: E.
        weight_decay: L2 regularisation of the weights, which the optimizer of the ensemble applies.
    """

    def __init__(self, in_features: int, out_features: int, ensemble_size: int, weight_decay: float = 0.0) -> None:
        super().__init__()
        self.in_features, self.out_features, self.ensemble_size = in_features, out_features, ensemble_size
        self.weight_decay = weight_decay
        self.weight = nn.Parameter(torch.empty(ensemble_size, in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(ensemble_size, 1, out_features))
        std = 1 / (2 * math.sqrt(in_features))
        nn.init.trunc_normal_(self.weight, std=std, a=-2 * std, b=2 * std)

    def forward(self, input: torch.Tensor, members: torch.Tensor | None = None) -> torch.Tensor:
        """Return ``[E, B, out]`` for ``[E, B, in]``; of the M ``members`` alone (int64 ``[M]``), ``[M, B, out]``."""
        if members is None:
            return torch.baddbmm(self.bias, input, self.weight)
        return torch.baddbmm(self.bias[members], input, self.weight[members])

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.in_features}, {self.out_features}, members={self.ensemble_size}, decay={self.weight_decay}"


class EnsembleModel(nn.Module):
    """E networks of five layers with swish, each of which predicts a normal distribution of the labels.

    State: ``nn1`` to ``nn5`` (see :class:`EnsembleFC`), ``max_logvar`` and ``min_logvar`` ``[1, L]``.

    Args:
        state_size, action_size, reward_size: D is the sum of the first two, L that of the first and the last.
        ensemble_size: E.
        hidden_size: width of the layers.
        learning_rate: of Adam.
        use_decay: whether the weights are regularised.
    """

    def __init__(
        self,
        state_size: int,
        action_size: int,
        reward_size: int,
        ensemble_size: int,
        hidden_size: int = 200,
        learning_rate: float = 1e-3,
        use_decay: bool = False,
    ) -> None:
        super().__init__()
        self.use_decay, self.ensemble_size = use_decay, ensemble_size
        self.output_dim = state_size + reward_size
        sizes = [state_size + action_size, *4 * [hidden_size], 2 * self.output_dim]
        decays = _DECAYS if use_decay else (0.0,) * len(_DECAYS)
        layers = [EnsembleFC(*pair, ensemble_size, decay) for pair, decay in zip(pairwise(sizes), decays)]
        self.nn1, self.nn2, self.nn3, self.nn4, self.nn5 = layers
        self.max_logvar = nn.Parameter(torch.full((1, self.output_dim), _MAX_LOGVAR), requires_grad=False)
        self.min_logvar = nn.Parameter(torch.full((1, self.output_dim), _MIN_LOGVAR), requires_grad=False)
        # The gradient of half the decay times the squared weights, without the time that autograd takes for it.
        groups: list[dict[str, Any]] = [
            {"params": [layer.weight], "weight_decay": layer.weight_decay} for layer in layers if layer.weight_decay
        ]
        decayed = {id(parameter) for group in groups for parameter in group["params"]}
        groups.append({"params": [p for layer in layers for p in layer.parameters() if id(p) not in decayed]})
        self.optimizer = Adam(groups, lr=learning_rate)

    def forward(
        self, x: torch.Tensor, ret_log_var: bool = False, members: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and variance of the labels.

        Args:
            x: float32 ``[E, B, D]``, scaled.
            ret_log_var: return the logarithm of the variance in place of it.
            members: int64 ``[M]``; only these predict, ``x`` is ``[M, B, D]``.

        Returns:
            Two tensors ``[E, B, L]`` (``[M, B, L]``).
        """
        for layer in (self.nn1, self.nn2, self.nn3, self.nn4):
            x = functional.silu(layer(x, members))
        mean, logvar = self.nn5(x, members).chunk(2, dim=-1)
        logvar = self.max_logvar - functional.softplus(self.max_logvar - logvar)
        logvar = self.min_logvar + functional.softplus(logvar - self.min_logvar)
        return mean, logvar if ret_log_var else torch.exp(logvar)

    def derivative(self, x: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """Return how the mean changes along directions: ``J(x) v``, with gradients to the weights.

        Args:
            x: ``[E, B, D]``, scaled.
            directions: ``[E, B, K, D]``, K for each row.

        Returns:
            ``[E, B, K, L]``.
        """
        shape = directions.shape
        along = directions.flatten(1, 2)
        for layer in (self.nn1, self.nn2, self.nn3, self.nn4):
            raw = layer(x)
            gate = torch.sigmoid(raw)
            x = raw * gate
            slope = gate + x * (1 - gate)
            along = (along @ layer.weight).unflatten(1, shape[1:3]).mul(slope.unsqueeze(2)).flatten(1, 2)
        output: torch.Tensor = along @ self.nn5.weight[..., : self.output_dim]
        return output.view(*shape[:3], self.output_dim)

    def loss(self, mean: torch.Tensor, logvar: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the negative log-likelihood, but for a factor and a constant, and the squared errors.

        Args:
            mean, logvar: ``[E, B, L]``, of :meth:`forward`.
            labels: ``[E, B, L]``.

        Returns:
            The sum over members of ``mean (mean - y)^2 / var + mean log var``, 0-d, and the mean squared error of each
            member ``[E]``.
        """
        squared = (mean - labels).square()
        likelihood = torch.exp(-logvar) * squared + logvar
        return likelihood.mean(dim=(1, 2)).sum(), squared.mean(dim=(1, 2))

    def train(self, loss: torch.Tensor | bool = True) -> Any:
        """Make one step of Adam on a loss; a bool switches the mode, as ``nn.Module.train`` does."""
        if isinstance(loss, bool):
            return super().train(loss)
        if current_recording.get() is not None:
            record_step(self.optimizer, loss, None)
            return None
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return None

    def update(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Make one training step on ``inputs`` ``[E, B, D]``, scaled, and ``labels`` ``[E, B, L]``.

        Returns:
            ``mse_loss``, the mean squared error before the step, 0-d.
        """
        mean, logvar = self(batch["inputs"], ret_log_var=True)
        loss, mse = self.loss(mean, logvar, batch["labels"])
        self.train(loss)
        return {"mse_loss": mse.detach().mean()}
