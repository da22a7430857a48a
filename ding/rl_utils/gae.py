"""Generalized advantage estimation."""

from collections import namedtuple

import torch

from ding.rl_utils._types import Data

gae_data = namedtuple("gae_data", "value next_value reward done traj_flag")


def backward_sums(delta: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Compute ``A_t = delta_t + factor_t A_{t+1}`` along dim 0 of ``[T, ...]``.

    Uses numpy on the CPU, where torch calls cost far more.
    """
    steps = delta.shape[0]
    needs_grad = delta.requires_grad or factor.requires_grad
    if delta.device.type == "cpu" and delta.dtype in (torch.float32, torch.float64) and not needs_grad:
        sums = delta.numpy().copy()
        factors = factor.numpy()
        for step in range(steps - 2, -1, -1):
            sums[step] += factors[step] * sums[step + 1]
        return torch.from_numpy(sums)
    rows = [delta[-1]] if steps else []
    for step in range(steps - 2, -1, -1):
        rows.append(delta[step] + factor[step] * rows[-1])
    return torch.stack(rows[::-1]) if rows else delta


def gae(data: Data, gamma: float = 0.99, lambda_: float = 0.97) -> torch.Tensor:
    """Advantages (Schulman et al. 2016, arXiv:1506.02438), of the shape of ``value``.

    ``data``: ``gae_data``; value and next_value float ``[T, ...]``, reward, done and traj_flag of the same shape or one
    dimension less (several agents share them). ``done`` (``None``: never) cuts the bootstrap value, ``traj_flag``
    (``None``: as done) ends a segment, across which nothing is accumulated. The input is not modified.
    """
    value, next_value, reward, done, traj_flag = data
    if done is None:
        done = torch.zeros_like(reward)
    done = done.to(reward.dtype)
    flag = done if traj_flag is None else traj_flag.to(reward.dtype)
    if value.dim() == reward.dim() + 1:
        reward, done, flag = reward.unsqueeze(-1), done.unsqueeze(-1), flag.unsqueeze(-1)
    delta = reward + gamma * (1 - done) * next_value - value
    factor = (gamma * lambda_ * (1 - flag)).expand_as(delta)
    return backward_sums(delta, factor)
