"""Heads with one value per discrete action."""

from __future__ import annotations

import torch
from torch import nn

from ding.model.common._head_layers import first_given, layer_stack

RELU = nn.ReLU()


class DiscreteHead(nn.Module):
    """One logit (or Q value) per action.

    State: ``Q.0`` hidden layers, ``Q.1.0`` output layer.

    Arguments:
        hidden_size: width of the input and of the hidden layers.
        output_size: number of actions.
        layer_num: number of hidden layers.
        noise: Whether to use noisy linear layers for exploration (arXiv:1706.10295).
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        dropout: float | None = None,
        noise: bool = False,
    ) -> None:
        super().__init__()
        self.Q = layer_stack(hidden_size, hidden_size, output_size, layer_num, activation, norm_type, noise, dropout)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[..., hidden_size]`` to ``logit`` ``[..., output_size]``."""
        return {"logit": self.Q(x)}


class DuelingHead(nn.Module):
    """Dueling Q values ``A - mean(A) + V`` (arXiv:1511.06581).

    State: ``A`` and ``V``, each with hidden layers ``0`` and output layer ``1.0``.

    Arguments:
        hidden_size: width of the input and of the hidden layers.
        output_size: number of actions.
        layer_num: Number of hidden layers of both streams, unless ``a_layer_num`` or ``v_layer_num`` is given.
        noise: Whether to use noisy linear layers for exploration (arXiv:1706.10295).
    """

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        layer_num: int = 1,
        a_layer_num: int | None = None,
        v_layer_num: int | None = None,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        dropout: float | None = None,
        noise: bool = False,
    ) -> None:
        super().__init__()
        a_layers, v_layers = first_given(a_layer_num, layer_num), first_given(v_layer_num, layer_num)
        self.A = layer_stack(hidden_size, hidden_size, output_size, a_layers, activation, norm_type, noise, dropout)
        self.V = layer_stack(hidden_size, hidden_size, 1, v_layers, activation, norm_type, noise, dropout)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[..., hidden_size]`` to ``logit`` ``[..., output_size]``."""
        advantage = self.A(x)
        return {"logit": self.V(x) + advantage - advantage.mean(dim=-1, keepdim=True)}


class StochasticDuelingHead(nn.Module):
    """Dueling Q values for continuous actions, with the mean advantage of sampled actions (ACER, arXiv:1611.01224).

    Arguments:
        hidden_size: width of the input and of the hidden layers.
        action_shape: number of action dimensions.
        last_tanh: Whether to squash sampled actions into ``[-1, 1]``.
    """

    def __init__(
        self,
        hidden_size: int,
        action_shape: int,
        layer_num: int = 1,
        a_layer_num: int | None = None,
        v_layer_num: int | None = None,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        noise: bool = False,
        last_tanh: bool = True,
    ) -> None:
        super().__init__()
        a_layers, v_layers = first_given(a_layer_num, layer_num), first_given(v_layer_num, layer_num)
        self.A = layer_stack(hidden_size + action_shape, hidden_size, 1, a_layers, activation, norm_type, noise)
        self.V = layer_stack(hidden_size, hidden_size, 1, v_layers, activation, norm_type, noise)
        self.last_tanh = last_tanh

    def forward(
        self, s: torch.Tensor, a: torch.Tensor, mu: torch.Tensor, sigma: torch.Tensor, sample_size: int = 10
    ) -> dict[str, torch.Tensor]:
        """Return the values of the actions ``a``.

        Arguments:
            s: features ``[B, hidden_size]``.
            a: actions ``[B, action_shape]``.
            mu, sigma: Output of the policy at ``s``, each ``[B, action_shape]``.
            sample_size: Number of sampled actions per row.

        Returns:
            ``q_value`` and ``v_value``, each ``[B, 1]``.
        """
        v_value = self.V(s)
        noise = torch.randn(s.shape[0], sample_size, a.shape[1], device=s.device, dtype=s.dtype)
        samples = mu.unsqueeze(1) + sigma.unsqueeze(1) * noise
        if self.last_tanh:
            samples = samples.tanh()
        features = s.unsqueeze(1).expand(-1, sample_size, -1)
        mean_advantage = self.A(torch.cat([features, samples], dim=-1)).mean(dim=1)
        q_value = v_value + self.A(torch.cat([s, a], dim=-1)) - mean_advantage
        return {"q_value": q_value, "v_value": v_value}


class BranchingHead(nn.Module):
    """Dueling Q values of several independent action branches with a common value (BDQ, arXiv:1711.08946).

    State: ``V`` and ``branches.i``, each with hidden layers ``0`` and output layer ``1.0``.

    Arguments:
        hidden_size: width of the input and of the hidden layers.
        num_branches: number of branches, positive.
        action_bins_per_branch: actions per branch.
    """

    def __init__(
        self,
        hidden_size: int,
        num_branches: int = 0,
        action_bins_per_branch: int = 2,
        layer_num: int = 1,
        a_layer_num: int | None = None,
        v_layer_num: int | None = None,
        norm_type: str | None = None,
        activation: nn.Module | None = RELU,
        noise: bool = False,
    ) -> None:
        super().__init__()
        if num_branches < 1:
            raise ValueError(f"num_branches must be positive, got {num_branches}")
        self.num_branches = num_branches
        self.action_bins_per_branch = action_bins_per_branch
        a_layers, v_layers = first_given(a_layer_num, layer_num), first_given(v_layer_num, layer_num)
        self.V = layer_stack(hidden_size, hidden_size, 1, v_layers, activation, norm_type, noise)
        self.branches = nn.ModuleList(
            layer_stack(hidden_size, hidden_size, action_bins_per_branch, a_layers, activation, norm_type, noise)
            for _ in range(num_branches)
        )

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map features ``[B, hidden_size]`` to ``logit`` ``[B, num_branches, action_bins_per_branch]``."""
        advantage = torch.stack([branch(x) for branch in self.branches], dim=1)
        return {"logit": self.V(x).unsqueeze(1) + advantage - advantage.mean(dim=-1, keepdim=True)}


class AttentionPolicyHead(nn.Module):
    """Logits over candidates: the product of each candidate's key with the query."""

    def forward(self, key: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        """Map ``key`` ``[B, N, d]``, ``query`` ``[B, d]`` or ``[B, 1, d]``, to logits ``[B, N]``."""
        if query.dim() == 2 and key.dim() == 3:
            query = query.unsqueeze(1)
        return (key * query).sum(dim=-1)
