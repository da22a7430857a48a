"""The loss of PPO, as a function of a network and a batch."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ding.policy._policy_parts import action_mask_of, policy_parts
from ding.rl_utils.ppo import ppo_policy_terms, ppo_value_error

Network = Callable[[Any], Mapping[str, Any]]
"""Observations to ``logit`` (and ``value`` ``[B]``)."""


class PPOSettings(NamedTuple):
    """The constants of :func:`ppo_loss`."""

    clip_ratio: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.0
    #: Bound of the loss of very bad samples (arXiv:1912.09729), above 1.
    dual_clip: float | None = None
    #: Weight and estimator of the distance to a pretrained policy.
    kl_beta: float = 0.0
    kl_type: str = "k1"
    adv_norm: bool = False
    #: As the original: forbidden actions stay in the distributions, dual clip of both signs of continuous actions.
    reference_numerics: bool = False


class PolicyTerms(NamedTuple):
    """What :func:`policy_terms` returns, each 0-d."""

    policy_loss: torch.Tensor
    entropy_loss: torch.Tensor
    kl_div: torch.Tensor
    approx_kl: torch.Tensor
    clipfrac: torch.Tensor


class PPOLoss(NamedTuple):
    """What :func:`ppo_loss` returns; each 0-d, only ``total_loss`` carries gradients that are used."""

    total_loss: torch.Tensor
    policy_loss: torch.Tensor
    value_loss: torch.Tensor
    entropy_loss: torch.Tensor
    #: Of the advantages as the loss takes them.
    adv_max: torch.Tensor
    adv_mean: torch.Tensor
    value_mean: torch.Tensor
    value_max: torch.Tensor
    approx_kl: torch.Tensor
    clipfrac: torch.Tensor
    kl_div: torch.Tensor
    #: Means over the batch, for continuous actions.
    act: torch.Tensor | None = None
    mu_mean: torch.Tensor | None = None
    sigma_mean: torch.Tensor | None = None


def normalized(adv: torch.Tensor) -> torch.Tensor:
    """Advantages with mean 0 and standard deviation 1."""
    return (adv - adv.mean()) / (adv.std() + 1e-8)


def policy_terms(
    logit: Any, batch: Mapping[str, Any], adv: torch.Tensor, settings: PPOSettings, entropy_bonus: bool = True
) -> PolicyTerms:
    """The clipped surrogate of the policy ``logit``, summed over the parts of a hybrid action.

    Args:
        logit: output of the network for the observations of the batch.
        batch: ``obs, action, logit`` (of the policy that collected), ``weight`` (or None), and optionally
            ``logit_pretrained``.
        adv: ``[B]`` (``[B, agents]``).
    """
    mask = None if settings.reference_numerics else action_mask_of(batch["obs"])
    action, pretrained = batch["action"], batch.get("logit_pretrained")
    new, old = policy_parts(logit, action, mask), policy_parts(batch["logit"], action, mask)
    given: Any = [(None, None)] * len(new) if pretrained is None else policy_parts(pretrained, action, mask)
    terms = []
    for (output, taken), (old_output, _), (pretrained_output, _) in zip(new, old, given):
        loss, info = ppo_policy_terms(
            (output, old_output, taken, adv, batch.get("weight"), pretrained_output),
            settings.clip_ratio,
            settings.dual_clip,
            settings.kl_type,
            entropy_bonus,
            settings.reference_numerics and not isinstance(output, torch.Tensor),
        )
        terms.append(PolicyTerms(*loss, *info))
    first, *others = terms
    for other in others:
        losses = (mine + its for mine, its in zip(first[:3], other[:3]))
        changes = (torch.maximum(mine, its) for mine, its in zip(first[3:], other[3:]))
        first = PolicyTerms(*losses, *changes)
    return first


def ppo_loss(network: Network, batch: Mapping[str, Any], settings: PPOSettings) -> PPOLoss:
    """Clipped surrogate, clipped value loss, entropy bonus and distance to a pretrained policy (arXiv:1707.06347).

    Args:
        network: observations to ``logit`` and ``value`` ``[B]``.
        batch: what :func:`policy_terms` takes, and ``value, adv, return`` ``[B]`` (each ``[B, agents]`` for several);
            optionally ``factor`` ``[B]``, positive, which multiplies the surrogate (HAPPO).
    """
    output = network(batch["obs"])
    adv = batch["adv"]
    if settings.adv_norm:
        adv = normalized(adv)
    scaled = adv * batch["factor"] if "factor" in batch else adv
    terms = policy_terms(output["logit"], batch, scaled, settings)
    value = output["value"]
    value_loss = ppo_value_error((value, batch["value"], batch["return"], batch.get("weight")), settings.clip_ratio)
    total = (
        terms.policy_loss
        + settings.value_weight * value_loss
        - settings.entropy_weight * terms.entropy_loss
        + settings.kl_beta * terms.kl_div
    )
    logit = output["logit"]
    with torch.no_grad():
        statistics = (adv.max(), adv.mean(), value.mean(), value.max())
        continuous: tuple[torch.Tensor, ...] = ()
        if isinstance(logit, Mapping) and "mu" in logit:
            continuous = (batch["action"].float().mean(), logit["mu"].mean(), logit["sigma"].mean())
    return PPOLoss(
        total,
        terms.policy_loss,
        value_loss,
        terms.entropy_loss,
        *statistics,
        terms.approx_kl,
        terms.clipfrac,
        terms.kl_div,
        *continuous,
    )
