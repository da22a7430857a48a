"""Normal distributions squashed by tanh into ``(-1, 1)`` (SAC, arXiv:1812.05905, appendix C)."""

import math

import torch
import torch.nn.functional as F

_LOG_2 = math.log(2.0)
_HALF = (torch.bfloat16, torch.float16)
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
# Constant that DI-engine adds to ``1 - tanh(u)^2``.
_REFERENCE_EPSILON = 1e-6


def squashed_sample(
    mu: torch.Tensor, sigma: torch.Tensor, reference_numerics: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``tanh(mu + sigma z)`` with a standard normal ``z``, and its log-density, both with gradients.

    The density is exact even where ``tanh`` rounds to 1 in float32. Half-precision inputs are computed in float32.

    Args:
        mu, sigma: float ``[..., N]``.
        reference_numerics: Whether to use ``log(1 - tanh(u)^2 + 1e-6)`` instead of the exact term.

    Returns:
        Actions ``[..., N]`` and log densities ``[...]``.
    """
    if mu.dtype in _HALF or sigma.dtype in _HALF:  # 8 bits are too few for a density, and would change the noise.
        mu, sigma = mu.float(), sigma.float()
    noise = torch.randn(mu.shape, dtype=mu.dtype, device=mu.device)
    raw = mu + sigma * noise
    action = torch.tanh(raw)
    # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), without a difference of nearly equal numbers.
    slope = 2.0 * (_LOG_2 - raw - F.softplus(-2.0 * raw))
    shrunk = (1 - action.square() + _REFERENCE_EPSILON).log() if reference_numerics else slope
    density = -0.5 * noise.square() - sigma.log() - shrunk
    return action, density.sum(-1) - mu.shape[-1] * _LOG_ROOT_2PI
