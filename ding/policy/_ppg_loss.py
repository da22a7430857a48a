"""The losses of the phases of PPG (Cobbe et al. 2021, arXiv:2009.04416)."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ding.policy._policy_parts import action_mask_of, policy_parts
from ding.policy._ppo_loss import PolicyTerms, PPOSettings, normalized, policy_terms
from ding.rl_utils.ppg import ppg_data, ppg_joint_error, ppg_joint_loss
from ding.rl_utils.ppo import ppo_value_error

Network = Callable[..., Mapping[str, Any]]


class PPGPolicyLoss(NamedTuple):
    """What :func:`ppg_policy_loss` returns, each 0-d; only ``total_loss`` carries gradients that are used."""

    total_loss: torch.Tensor
    terms: PolicyTerms
    adv_abs_max: torch.Tensor


def ppg_policy_loss(network: Network, batch: Mapping[str, Any], settings: PPOSettings) -> PPGPolicyLoss:
    """The policy phase: clipped surrogate with an entropy bonus.

    Args:
        network: ``(obs, mode)`` to outputs, see :class:`ding.model.PPG`.
        batch: what :func:`policy_terms` takes, and ``adv`` ``[B]``.
    """
    adv = normalized(batch["adv"]) if settings.adv_norm else batch["adv"]
    terms = policy_terms(network(batch["obs"], mode="compute_actor")["logit"], batch, adv, settings)
    return PPGPolicyLoss(terms.policy_loss - settings.entropy_weight * terms.entropy_loss, terms, adv.abs().max())


def ppg_value_loss(network: Network, batch: Mapping[str, Any], settings: PPOSettings) -> torch.Tensor:
    """The clipped value loss of the separate critic, 0-d. ``batch``: ``obs``; ``value, return, weight`` ``[B]``."""
    value = network(batch["obs"], mode="compute_critic")["value"]
    return ppo_value_error((value, batch["value"], batch["return"], batch.get("weight")), settings.clip_ratio)


def ppg_auxiliary_loss(network: Network, batch: Mapping[str, Any], settings: PPOSettings) -> ppg_joint_loss:
    """The auxiliary phase: the value loss of the policy's own value head, and the divergence from the policy before it.

    Args:
        batch: as in :func:`ppg_value_loss`, with ``action``, and ``logit`` of the policy before the phase.
    """
    output = network(batch["obs"], mode="compute_actor_critic")
    mask = None if settings.reference_numerics else action_mask_of(batch["obs"])
    new, old = (policy_parts(logit, batch["action"], mask) for logit in (output["logit"], batch["logit"]))
    values = (output["value"], batch["value"], batch["return"], batch.get("weight"))
    # The values of the samples are those of the separate critic, which would hold this head back.
    clips = settings.reference_numerics
    losses = [
        ppg_joint_error(ppg_data(new_output, old_output, action, *values), settings.clip_ratio, clips)
        for (new_output, action), (old_output, _) in zip(new, old)
    ]
    return ppg_joint_loss(losses[0].auxiliary_loss, sum(loss.behavioral_cloning_loss for loss in losses))
