"""Networks of planning with diffusion: convolutions over the steps of trajectories (Janner et al. 2022,
arXiv:2205.09991).

Trajectories are ``[B, H, T]``: H steps of T numbers each, actions before observations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from ding.utils.errors import InvalidArgumentError

# The largest wave length of an embedding of time is 2 pi times this.
_WAVE_LENGTHS = 10000.0
_MAX_BETA = 0.999

Conditions = Mapping[int, torch.Tensor]
"""Step of a trajectory -> observation ``[B, O]`` that it has there."""


def extract(a: torch.Tensor, t: torch.Tensor, x_shape: Sequence[int]) -> torch.Tensor:
    """Return ``a[t]`` with axes of length 1 behind, so that it multiplies tensors of the shape ``x_shape``.

    Args:
        a: a number for each diffusion step, ``[N]``.
        t: int64 ``[B]``.
        x_shape: ``(B, ...)``.
    """
    return a.gather(-1, t).reshape(len(t), *(1,) * (len(x_shape) - 1))


def cosine_beta_schedule(timesteps: int, s: float = 0.008, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return the noise of each diffusion step by the cosine schedule (Nichol and Dhariwal 2021, arXiv:2102.09672).

    Args:
        timesteps: N, their number.
        s: offset that keeps the first steps from being too small.

    Returns:
        ``[N]``, in [0, 0.999].
    """
    x = torch.linspace(0, timesteps + 1, timesteps + 1, dtype=torch.float64)
    kept = torch.cos((x / (timesteps + 1) + s) / (1 + s) * math.pi / 2).square()
    return (1 - kept[1:] / kept[:-1]).clamp(0, _MAX_BETA).to(dtype)


def apply_conditioning(x: torch.Tensor, conditions: Conditions, action_dim: int) -> torch.Tensor:
    """Write the given observations into trajectories ``[B, H, T]``, in place, and return these.

    Args:
        action_dim: columns before the observations, which stay.
    """
    for step, value in conditions.items():
        x[:, step, action_dim:] = value
    return x


class SinusoidalPosEmb(nn.Module):
    """Times ``[B]`` to ``dim`` sines and cosines of them, ``[B, dim]``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sines first."""
        half = self.dim // 2
        steps = torch.arange(half, device=x.device, dtype=torch.float32)
        phase = x[:, None] * torch.exp(steps * (-math.log(_WAVE_LENGTHS) / (half - 1)))
        return torch.cat([phase.sin(), phase.cos()], dim=-1)


class DiffusionConv1d(nn.Module):
    """A convolution over the steps, group normalisation and an activation: ``[B, C, H]`` to ``[B, out, H']``.

    Args:
        activation: None: the identity.
        n_groups: groups of the normalisation; they divide ``out_channels``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        padding: int,
        activation: nn.Module | None = None,
        n_groups: int = 8,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(in_channels, out_channels, kernel_size, padding=padding)
        self.norm = nn.GroupNorm(n_groups, out_channels)
        self.act = nn.Identity() if activation is None else activation

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Convolution, normalisation, activation."""
        output: torch.Tensor = self.act(self.norm(self.conv1(inputs)))
        return output


class ResidualTemporalBlock(nn.Module):
    """Two convolutions with a skip connection, the first one shifted by an embedding of time.

    Args:
        embed_dim: features of the embedding.
        mish: Mish as the activation, else SiLU.
    """

    def __init__(
        self, in_channels: int, out_channels: int, embed_dim: int, kernel_size: int = 5, mish: bool = True
    ) -> None:
        super().__init__()
        act: type[nn.Module] = nn.Mish if mish else nn.SiLU
        sizes = ((in_channels, out_channels), (out_channels, out_channels))
        self.blocks = nn.ModuleList(DiffusionConv1d(*size, kernel_size, kernel_size // 2, act()) for size in sizes)
        self.time_mlp = nn.Sequential(act(), nn.Linear(embed_dim, out_channels))
        same = in_channels == out_channels
        self.residual_conv: nn.Module = nn.Identity() if same else nn.Conv1d(in_channels, out_channels, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """``x [B, in, H]`` and ``t [B, embed]`` to ``[B, out, H]``."""
        out = self.blocks[1](self.blocks[0](x) + self.time_mlp(t).unsqueeze(-1))
        output: torch.Tensor = out + self.residual_conv(x)
        return output


class LayerNorm(nn.Module):
    """Layer normalisation over the channels of ``[B, C, H]``, with a scale ``g`` and a shift ``b``, ``[1, C, 1]``."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.g = nn.Parameter(torch.ones(1, dim, 1))
        self.b = nn.Parameter(torch.zeros(1, dim, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, C, H]`` in, the same shape out."""
        mean, var = x.mean(1, keepdim=True), x.var(1, unbiased=False, keepdim=True)
        return (x - mean) / (var + self.eps).sqrt() * self.g + self.b


class PreNorm(nn.Module):
    """``fn`` of what :class:`LayerNorm` makes of ``[B, dim, H]``."""

    def __init__(self, dim: int, fn: nn.Module) -> None:
        super().__init__()
        self.fn = fn
        self.norm = LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``fn(norm(x))``."""
        output: torch.Tensor = self.fn(self.norm(x))
        return output


class Residual(nn.Module):
    """``fn(x) + x``."""

    def __init__(self, fn: nn.Module) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: torch.Tensor, *arg: Any, **kwargs: Any) -> torch.Tensor:
        """``fn(x, *arg, **kwargs) + x``."""
        output: torch.Tensor = self.fn(x, *arg, **kwargs) + x
        return output


class LinearAttention(nn.Module):
    """Attention between the steps of ``[B, dim, H]`` at a cost that is linear in H (Katharopoulos et al. 2020,
    arXiv:2006.16236).
    """

    def __init__(self, dim: int, heads: int = 4, dim_head: int = 32) -> None:
        super().__init__()
        self.heads = heads
        self.scale = dim_head**-0.5
        self.to_qkv = nn.Conv1d(dim, 3 * heads * dim_head, 1, bias=False)
        self.to_out = nn.Conv1d(heads * dim_head, dim, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[B, dim, H]`` in, the same shape out."""
        q, k, v = self.to_qkv(x).unflatten(1, (3, self.heads, -1)).unbind(1)
        context = torch.einsum("bhdn,bhen->bhde", k.softmax(-1), v)
        output: torch.Tensor = self.to_out(torch.einsum("bhde,bhdn->bhen", context, q * self.scale).flatten(1, 2))
        return output


def _time_mlp(dim: int, out_dim: int, act: type[nn.Module]) -> nn.Sequential:
    """Map times ``[B]`` to embeddings ``[B, out_dim]``."""
    return nn.Sequential(SinusoidalPosEmb(dim), nn.Linear(dim, 4 * dim), act(), nn.Linear(4 * dim, out_dim))


class DiffusionUNet1d(nn.Module):
    """A U-Net over the steps of noisy trajectories, which predicts the noise in them, or the trajectories without it.

    Args:
        transition_dim: T, numbers of a step.
        dim, dim_mults: the levels have ``dim * m`` channels, for each m; multiples of 8. Each level but the last has
            half the steps of the one before.
        returns_condition: whether the network also reads a wanted return.
        condition_dropout: share of rows that do not see the return while training.
        calc_energy: whether the result is the gradient of an energy, the mean squared change of ``x``.
        attention: whether steps of a level attend to each other.
    """

    def __init__(
        self,
        transition_dim: int,
        dim: int = 32,
        dim_mults: Sequence[int] = (1, 2, 4, 8),
        returns_condition: bool = False,
        condition_dropout: float = 0.1,
        calc_energy: bool = False,
        kernel_size: int = 5,
        attention: bool = False,
    ) -> None:
        super().__init__()
        widths = [transition_dim, *(dim * mult for mult in dim_mults)]
        pairs = list(pairwise(widths))
        act: type[nn.Module] = nn.SiLU if calc_energy else nn.Mish
        embed_dim = 2 * dim if returns_condition else dim
        self.returns_condition, self.condition_dropout = returns_condition, condition_dropout
        self.calc_energy = calc_energy
        self._step_multiple = 2 ** (len(pairs) - 1)
        self.time_mlp = _time_mlp(dim, dim, act)
        if returns_condition:
            self.returns_mlp = nn.Sequential(
                nn.Linear(1, dim), act(), nn.Linear(dim, 4 * dim), act(), nn.Linear(4 * dim, dim)
            )

        def block(width_in: int, width_out: int) -> ResidualTemporalBlock:
            return ResidualTemporalBlock(width_in, width_out, embed_dim, kernel_size, mish=not calc_energy)

        def attend(width: int) -> nn.Module:
            return Residual(PreNorm(width, LinearAttention(width))) if attention else nn.Identity()

        self.downs = nn.ModuleList(
            nn.ModuleList([
                block(before, after),
                block(after, after),
                attend(after),
                nn.Conv1d(after, after, 3, 2, 1) if level < len(pairs) - 1 else nn.Identity(),
            ])
            for level, (before, after) in enumerate(pairs)
        )  # fmt: skip
        self.mid_block1 = block(widths[-1], widths[-1])
        self.mid_atten = attend(widths[-1])
        self.mid_block2 = block(widths[-1], widths[-1])
        self.ups = nn.ModuleList(
            nn.ModuleList([
                block(2 * after, before),
                block(before, before),
                attend(before),
                nn.ConvTranspose1d(before, before, 4, 2, 1),
            ])
            for before, after in reversed(pairs[1:])
        )  # fmt: skip
        self.final_conv = nn.Sequential(
            DiffusionConv1d(dim, dim, kernel_size, kernel_size // 2, act()), nn.Conv1d(dim, transition_dim, 1)
        )

    def forward(
        self,
        x: torch.Tensor,
        cond: Conditions | None,
        time: torch.Tensor,
        returns: torch.Tensor | None = None,
        use_dropout: bool = True,
        force_dropout: bool = False,
    ) -> torch.Tensor:
        """Return the prediction for noisy trajectories, of their shape.

        Args:
            x: ``[B, H, T]``; H is a multiple of 2 to the number of levels but one.
            cond: not used; it is there for networks that read it.
            time: diffusion steps, ``[B]``.
            returns: ``[B, 1]``, where ``returns_condition``.
            use_dropout, force_dropout: whether some rows, or all, do not see the return.

        Raises:
            InvalidArgumentError: H does not fit, or ``returns`` is missing.
        """
        if not self.calc_energy:
            return self.get_pred(x, cond, time, returns, use_dropout, force_dropout)
        with torch.enable_grad():
            x = x if x.requires_grad else x.detach().requires_grad_()
            change = self.get_pred(x, cond, time, returns, use_dropout, force_dropout) - x
            (slope,) = torch.autograd.grad(change.square().mean(), x, create_graph=True)
        return slope

    def get_pred(
        self,
        x: torch.Tensor,
        cond: Conditions | None,
        time: torch.Tensor,
        returns: torch.Tensor | None = None,
        use_dropout: bool = True,
        force_dropout: bool = False,
    ) -> torch.Tensor:
        """Return what the layers make of ``x``; arguments as in :meth:`forward`."""
        if x.shape[1] % self._step_multiple:
            raise InvalidArgumentError(
                f"a U-Net with {len(self.downs)} levels (dim_mults) takes horizons that are multiples of "
                f"{self._step_multiple}, got {x.shape[1]}"
            )
        embedding = self._embedding(time, returns, use_dropout, force_dropout)
        x, skipped = x.transpose(1, 2), []
        for level in self.downs:
            first, second, attend, down = level.children()
            x = attend(second(first(x, embedding), embedding))
            skipped.append(x)
            x = down(x)
        x = self.mid_block2(self.mid_atten(self.mid_block1(x, embedding)), embedding)
        for level in self.ups:
            first, second, attend, up = level.children()
            x = torch.cat([x, skipped.pop()], dim=1)
            x = up(attend(second(first(x, embedding), embedding)))
        output: torch.Tensor = self.final_conv(x).transpose(1, 2)
        return output

    def _embedding(
        self, time: torch.Tensor, returns: torch.Tensor | None, use_dropout: bool, force_dropout: bool
    ) -> torch.Tensor:
        embedding: torch.Tensor = self.time_mlp(time)
        if not self.returns_condition:
            return embedding
        if returns is None:
            raise InvalidArgumentError("a network with returns_condition=True needs returns [B, 1]")
        wanted: torch.Tensor = self.returns_mlp(returns)
        if force_dropout:
            wanted = torch.zeros_like(wanted)
        elif use_dropout:
            seen = torch.rand(len(wanted), 1, device=wanted.device) >= self.condition_dropout
            wanted = wanted * seen
        return torch.cat([embedding, wanted], dim=-1)


class TemporalValue(nn.Module):
    """A number for each noisy trajectory, such as its return: ``[B, H, T]`` to ``[B, out_dim]``.

    Args:
        horizon: H, steps of a trajectory.
        transition_dim: T, numbers of a step.
        dim, dim_mults: channels of the levels, ``dim * m`` for each m; each has half the steps of the one before.
        time_dim: features of the embedding of time; None: ``dim``.
    """

    def __init__(
        self,
        horizon: int,
        transition_dim: int,
        dim: int = 32,
        time_dim: int | None = None,
        out_dim: int = 1,
        kernel_size: int = 5,
        dim_mults: Sequence[int] = (1, 2, 4, 8),
    ) -> None:
        super().__init__()
        time_dim = dim if time_dim is None else time_dim
        widths = [transition_dim, *(dim * mult for mult in dim_mults)]
        self.time_mlp = _time_mlp(dim, time_dim, nn.Mish)

        def block(width_in: int, width_out: int) -> ResidualTemporalBlock:
            return ResidualTemporalBlock(width_in, width_out, time_dim, kernel_size)

        self.blocks = nn.ModuleList(
            nn.ModuleList([block(before, after), block(after, after), nn.Conv1d(after, after, 3, 2, 1)])
            for before, after in pairwise(widths)
        )
        half, quarter = widths[-1] // 2, widths[-1] // 4
        self.mid_block1 = block(widths[-1], half)
        self.mid_down1 = nn.Conv1d(half, half, 3, 2, 1)
        self.mid_block2 = block(half, quarter)
        self.mid_down2 = nn.Conv1d(quarter, quarter, 3, 2, 1)
        features = quarter * math.ceil(horizon / 2 ** (len(dim_mults) + 2))
        self.final_block = nn.Sequential(
            nn.Linear(features + time_dim, features // 2), nn.Mish(), nn.Linear(features // 2, out_dim)
        )

    def forward(self, x: torch.Tensor, cond: Conditions | None, time: torch.Tensor, *args: Any) -> torch.Tensor:
        """``x [B, H, T]`` at the diffusion steps ``time [B]`` to ``[B, out_dim]``; the rest is not used."""
        embedding = self.time_mlp(time)
        x = x.transpose(1, 2)
        for level in self.blocks:
            first, second, down = level.children()
            x = down(second(first(x, embedding), embedding))
        x = self.mid_down1(self.mid_block1(x, embedding))
        x = self.mid_down2(self.mid_block2(x, embedding))
        output: torch.Tensor = self.final_block(torch.cat([x.flatten(1), embedding], dim=-1))
        return output
