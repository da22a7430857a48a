"""The noise that diffusion adds to trajectories, and its removal step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ding.torch_utils.network.diffusion import DiffusionUNet1d, TemporalValue, cosine_beta_schedule, extract
from ding.utils.names import check_choice

_NETWORKS: dict[str, type[nn.Module]] = {one.__name__: one for one in (DiffusionUNet1d, TemporalValue)}
_MIN_VARIANCE = 1e-20

Network = str | Callable[..., nn.Module]
"""The class of a network, or its name: ``DiffusionUNet1d``, ``TemporalValue``."""


def remaining(t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return 0 at the last diffusion step, else 1: ``[B, 1, 1]``."""
    return (t > 0).to(x.dtype).reshape(-1, 1, 1)


class NoiseSteps(nn.Module):
    """The noise of each diffusion step, and a network that predicts it.

    The buffers are the betas, the remaining share ``alphas_cumprod`` of a trajectory after each step, and the derived
    coefficients of a step given the next one and the noise-free trajectory.
    """

    betas: torch.Tensor
    alphas_cumprod: torch.Tensor
    alphas_cumprod_prev: torch.Tensor
    sqrt_alphas_cumprod: torch.Tensor
    sqrt_one_minus_alphas_cumprod: torch.Tensor
    log_one_minus_alphas_cumprod: torch.Tensor
    sqrt_recip_alphas_cumprod: torch.Tensor
    sqrt_recipm1_alphas_cumprod: torch.Tensor
    posterior_variance: torch.Tensor
    posterior_log_variance_clipped: torch.Tensor
    posterior_mean_coef1: torch.Tensor
    posterior_mean_coef2: torch.Tensor
    loss_weights: torch.Tensor

    def __init__(
        self,
        model: Network,
        model_cfg: Mapping[str, Any],
        horizon: int,
        obs_dim: int,
        action_dim: int,
        n_timesteps: int,
        predict_epsilon: bool,
        clip_denoised: bool,
    ) -> None:
        super().__init__()
        if isinstance(model, str):
            check_choice("the network of a diffusion model", model, _NETWORKS, KeyError)
            model = _NETWORKS[model]
        self.model = model(**model_cfg)
        self.horizon, self.obs_dim, self.action_dim = int(horizon), int(obs_dim), int(action_dim)
        self.transition_dim = self.obs_dim + self.action_dim
        self.n_timesteps = int(n_timesteps)
        self.predict_epsilon, self.clip_denoised = predict_epsilon, clip_denoised
        betas = cosine_beta_schedule(self.n_timesteps, dtype=torch.float64)
        kept = torch.cumprod(1 - betas, 0)
        before = torch.cat([torch.ones(1, dtype=torch.float64), kept[:-1]])
        variance = betas * (1 - before) / (1 - kept)
        buffers = {
            "betas": betas,
            "alphas_cumprod": kept,
            "alphas_cumprod_prev": before,
            "sqrt_alphas_cumprod": kept.sqrt(),
            "sqrt_one_minus_alphas_cumprod": (1 - kept).sqrt(),
            "log_one_minus_alphas_cumprod": (1 - kept).log(),
            "sqrt_recip_alphas_cumprod": (1 / kept).sqrt(),
            "sqrt_recipm1_alphas_cumprod": (1 / kept - 1).sqrt(),
            "posterior_variance": variance,
            "posterior_log_variance_clipped": variance.clamp(min=_MIN_VARIANCE).log(),
            "posterior_mean_coef1": betas * before.sqrt() / (1 - kept),
            "posterior_mean_coef2": (1 - before) * (1 - betas).sqrt() / (1 - kept),
        }
        for name, value in buffers.items():
            self.register_buffer(name, value.float())

    @property
    def posterior_variance_clipped(self) -> torch.Tensor:
        """``[N]``, above 0."""
        return self.posterior_log_variance_clipped.exp()

    def q_sample(self, x_start: torch.Tensor, t: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        """Add the noise of all diffusion steps until ``t`` to ``x_start [B, H, T]``.

        Args:
            noise: standard normal, of the shape of ``x_start``; None: drawn.
        """
        noise = torch.randn_like(x_start) if noise is None else noise
        kept, added = self.sqrt_alphas_cumprod, self.sqrt_one_minus_alphas_cumprod
        return extract(kept, t, x_start.shape) * x_start + extract(added, t, x_start.shape) * noise

    def predict_start_from_noise(self, x_t: torch.Tensor, t: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Return the trajectory without noise, ``[B, H, T]``, from what the network put out for ``x_t``."""
        if not self.predict_epsilon:
            return noise
        whole, added = self.sqrt_recip_alphas_cumprod, self.sqrt_recipm1_alphas_cumprod
        return extract(whole, t, x_t.shape) * x_t - extract(added, t, x_t.shape) * noise

    def q_posterior(
        self, x_start: torch.Tensor, x_t: torch.Tensor, t: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return mean ``[B, H, T]``, variance and its logarithm ``[B, 1, 1]`` of the trajectory one step before t."""
        first, second = self.posterior_mean_coef1, self.posterior_mean_coef2
        mean = extract(first, t, x_t.shape) * x_start + extract(second, t, x_t.shape) * x_t
        variance = extract(self.posterior_variance, t, x_t.shape)
        return mean, variance, extract(self.posterior_log_variance_clipped, t, x_t.shape)

    def step_before(
        self, x: torch.Tensor, t: torch.Tensor, output: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the result of :meth:`q_posterior` for the output of the network."""
        found = self.predict_start_from_noise(x, t, output)
        return self.q_posterior(found.clamp(-1, 1) if self.clip_denoised else found, x, t)

    def all_at(self, step: int, rows: int) -> torch.Tensor:
        """Return a step for each row, int64 ``[rows]``."""
        return torch.full((rows,), step, device=self.betas.device, dtype=torch.int64)


def discounted_weights(horizon: int, discount: float) -> torch.Tensor:
    """Return powers of a discount with mean 1, ``[H, 1]``."""
    powers = discount ** torch.arange(horizon, dtype=torch.float64)
    return (powers / powers.mean()).float().unsqueeze(1)
