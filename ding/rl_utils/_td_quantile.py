"""Quantile TD errors: QR-DQN, IQN, FQF."""

from collections import namedtuple

import torch
from torch.nn import functional

from ding.rl_utils._td_values import bootstrap, nstep_reward, weighted_mean
from ding.rl_utils._types import Data, Gamma, LossAndPerSample, ValueGamma

qrdqn_nstep_td_data = namedtuple("qrdqn_nstep_td_data", "q next_n_q action next_n_action reward done tau weight")
iqn_nstep_td_data = namedtuple(
    "iqn_nstep_td_data", "q next_n_q action next_n_action reward done replay_quantiles weight"
)
fqf_nstep_td_data = namedtuple("fqf_nstep_td_data", "q next_n_q action next_n_action reward done quantiles_hats weight")


def evaluate_quantile_at_action(q_s: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """``q_s`` ``[B, M, N]`` at ``actions`` ``[B]``, giving ``[B, M, 1]``."""
    return q_s.gather(-1, actions[:, None, None].expand(-1, q_s.shape[1], 1))


def quantile_huber_loss(
    prediction: torch.Tensor, target: torch.Tensor, tau: torch.Tensor, kappa: float = 1.0
) -> torch.Tensor:
    """Quantile Huber loss of each pair of a predicted and a target quantile (arXiv:1710.10044): ``[B, M, M']``.

    Args:
        prediction: ``[B, M]``.
        target: ``[B, M']``; no gradient reaches it.
        tau: the fractions of the predicted quantiles, ``[B, M]`` or ``[M]``; no gradient reaches them.
        kappa: Distance beyond which the loss is linear, typically 1.
    """
    predicted, wanted = torch.broadcast_tensors(prediction.unsqueeze(-1), target.detach().unsqueeze(-2))
    with torch.no_grad():
        weight = (tau.unsqueeze(-1) - (wanted < predicted).to(target.dtype)).abs_()
        weight = weight if kappa == 1.0 else weight / kappa
    # One kernel instead of six over B * M * M' pairs, which dominate the cost of an update.
    loss: torch.Tensor = weight * functional.huber_loss(predicted, wanted, reduction="none", delta=kappa)
    return loss


def qrdqn_nstep_td_error(data: Data, gamma: Gamma, nstep: int = 1, value_gamma: ValueGamma = None) -> LossAndPerSample:
    """Quantile regression (Dabney et al. 2018a, arXiv:1710.10044): ``(loss, per-sample [B])``.

    ``data``: ``qrdqn_nstep_td_data``; q and next_n_q ``[B, N, M]`` with M quantiles, tau ``[B, M, 1]`` (or ``[M, 1]``),
    action ``[B]``, reward ``[n, B]``, done and weight ``[B]``. Sum over target quantiles, mean over predicted ones.
    """
    q, next_n_q, action, next_n_action, reward, done, tau, weight = data
    prediction = evaluate_quantile_at_action(q.transpose(1, 2), action).squeeze(-1)
    with torch.no_grad():
        next_value = evaluate_quantile_at_action(next_n_q.transpose(1, 2), next_n_action).squeeze(-1)
        total, discount = nstep_reward(reward, gamma, nstep, value_gamma)
        target = bootstrap(total, next_value, done, discount)
    per_sample = quantile_huber_loss(prediction, target, tau.squeeze(-1)).sum(-1).mean(1)
    return weighted_mean(per_sample, weight), per_sample


def iqn_nstep_td_error(
    data: Data, gamma: Gamma, nstep: int = 1, kappa: float = 1.0, value_gamma: ValueGamma = None
) -> LossAndPerSample:
    """Implicit quantiles (Dabney et al. 2018b, arXiv:1806.06923): ``(loss, per-sample [B])``.

    ``data``: ``iqn_nstep_td_data``; q ``[M, B, N]`` at the fractions replay_quantiles ``[M * B, 1]`` (M-major),
    next_n_q ``[M', B, N]``, action ``[B]``, reward ``[n, B]``, done and weight ``[B]``. ``kappa`` is the Huber
    threshold. Sum over predicted quantiles, mean over target ones.
    """
    q, next_n_q, action, next_n_action, reward, done, replay_quantiles, weight = data
    tau = replay_quantiles.view(q.shape[0], q.shape[1]).t()
    q, next_n_q = q.transpose(0, 1), next_n_q.transpose(0, 1)
    by_sample = (q, next_n_q, action, next_n_action, reward, done, tau, weight)
    return fqf_nstep_td_error(by_sample, gamma, nstep, kappa, value_gamma)


def fqf_nstep_td_error(
    data: Data, gamma: Gamma, nstep: int = 1, kappa: float = 1.0, value_gamma: ValueGamma = None
) -> LossAndPerSample:
    """Quantile part of FQF (Yang et al. 2019, arXiv:1911.02140): ``(loss, per-sample [B])``.

    ``data``: ``fqf_nstep_td_data``; q ``[B, M, N]`` at the fractions quantiles_hats ``[B, M]``, next_n_q ``[B, M',
    N]``, the rest as for :func:`iqn_nstep_td_error`.
    """
    q, next_n_q, action, next_n_action, reward, done, quantiles_hats, weight = data
    prediction = evaluate_quantile_at_action(q, action).squeeze(-1)
    with torch.no_grad():
        next_value = evaluate_quantile_at_action(next_n_q, next_n_action).squeeze(-1)
        total, discount = nstep_reward(reward, gamma, nstep, value_gamma)
        target = bootstrap(total, next_value, done, discount)
    per_sample = quantile_huber_loss(prediction, target, quantiles_hats, kappa).sum(1).mean(-1)
    return weighted_mean(per_sample, weight), per_sample


def fqf_calculate_fraction_loss(
    q_tau_i: torch.Tensor, q_value: torch.Tensor, quantiles: torch.Tensor, actions: torch.Tensor
) -> torch.Tensor:
    """Return the fraction loss of FQF, 0-d, whose gradient in ``quantiles`` is that of the Wasserstein distance.

    Args:
        q_tau_i: values at the inner fractions, ``[B, M - 1, N]``; no gradient flows into it.
        q_value: values at the midpoints, ``[B, M, N]``; no gradient flows into it.
        quantiles: the fractions from 0 to 1, ``[B, M + 1]``.
        actions: int64 ``[B]``.
    """
    with torch.no_grad():
        inner = evaluate_quantile_at_action(q_tau_i, actions).squeeze(-1)
        middle = evaluate_quantile_at_action(q_value, actions).squeeze(-1)
        # The estimate need not be monotone in the fraction: a crossing turns the sign.
        rises = inner > torch.cat([middle[:, :1], inner[:, :-1]], dim=1)
        stays_below = inner < torch.cat([inner[:, 1:], middle[:, -1:]], dim=1)
        left, right = inner - middle[:, :-1], inner - middle[:, 1:]
        gradient = torch.where(rises, left, -left) + torch.where(stays_below, right, -right)
    return (gradient * quantiles[:, 1:-1]).sum(1).mean()
