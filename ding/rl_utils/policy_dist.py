"""Log-probabilities and entropies of policies, by direct formulas: one or two torch calls, no argument checks."""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ding.rl_utils._types import MuSigma, PolicyOutput
from ding.torch_utils.math_helper import usable_mask

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def action_mask_of(obs: Any) -> torch.Tensor | None:
    """Return the ``action_mask`` of dict observations, None without one."""
    return obs.get("action_mask") if isinstance(obs, Mapping) else None


class Categorical:
    """Policy with logits ``[*S, N]``."""

    def __init__(self, logit: torch.Tensor) -> None:
        self.log_p = F.log_softmax(logit, dim=-1)

    def log_prob(self, action: torch.Tensor) -> torch.Tensor:
        """Return the log-probability ``[*S]`` of the actions, int64 ``[*S]``."""
        return self.log_p.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> torch.Tensor:
        """Return the entropy ``[*S]`` in nats; a class of probability 0 adds 0."""
        finite = self.log_p.clamp_min(torch.finfo(self.log_p.dtype).min)
        return -(finite.exp() * finite).sum(-1)

    def kl_to(self, other: "Categorical") -> torch.Tensor:
        """``KL(self || other)`` ``[*S]``; a class of probability 0 in both adds 0."""
        probability = self.log_p.exp()
        return torch.where(probability > 0, probability * (self.log_p - other.log_p), 0.0).sum(-1)


class DiagonalNormal:
    """Policy with independent normal action dimensions: ``mu`` and ``sigma`` ``[*S, D]``."""

    def __init__(self, mu_sigma: MuSigma) -> None:
        self.mu, self.sigma = mu_sigma["mu"], mu_sigma["sigma"]

    def log_prob(self, action: torch.Tensor) -> torch.Tensor:
        """Log-density ``[*S]`` of the actions ``[*S, D]``."""
        standard = (action - self.mu) / self.sigma
        return (-0.5 * standard.square() - self.sigma.log() - _LOG_SQRT_2PI).sum(-1)

    def entropy(self) -> torch.Tensor:
        """Differential entropy ``[*S]`` in nats."""
        return (0.5 + _LOG_SQRT_2PI + self.sigma.log()).expand_as(self.mu).sum(-1)

    def kl_to(self, other: "DiagonalNormal") -> torch.Tensor:
        """``KL(self || other)`` ``[*S]``."""
        spread = self.sigma.square() + (self.mu - other.mu).square()
        return (other.sigma.log() - self.sigma.log() + 0.5 * spread / other.sigma.square() - 0.5).sum(-1)


Policy = Categorical | DiagonalNormal


def policy_of(output: PolicyOutput) -> Policy:
    """Return the policy with logits, or of independent normals with mu and sigma; an omitted action dimension of size 1
    is restored.
    """
    if isinstance(output, torch.Tensor):
        return Categorical(output)
    if output["mu"].dim() == 1:
        output = {key: output[key].unsqueeze(-1) for key in ("mu", "sigma")}
    return DiagonalNormal(output)


def weighted(value: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """Return ``value`` times ``weight``; ``None`` counts as ones."""
    return value if weight is None else value * weight


def policy_parts(output: Any, action: Any, action_mask: Any = None) -> list[tuple[Any, torch.Tensor]]:
    """Split the output of a policy and the actions taken into parts of one kind each: ``[(output, action)]``.

    A part has logits ``[B, N]`` and int64 actions ``[B]``, or ``{'mu', 'sigma'}`` and float actions, both ``[B, D]``.
    A hybrid action has one of each; an action of several discrete choices has a part for each; any other is one part.

    Args:
        output: logits, mu and sigma, a list of logits, or ``{'action_type', 'action_args'}`` of a hybrid.
        action: Actions of the same form.
        action_mask: ``[B, N]`` (or a list of such), 0 where a discrete action is forbidden: its logit becomes minus
            infinity.
    """
    if isinstance(action, Mapping):
        kind, args = action["action_type"], action["action_args"]
        kind = kind.squeeze(1) if kind.ndim == 2 else kind
        outputs, actions, masks = [output["action_type"], output["action_args"]], [kind, args], [action_mask, None]
    elif isinstance(output, (list, tuple)):
        heads = action if isinstance(action, (list, tuple)) else action.unbind(-1)
        outputs, actions = list(output), [head.flatten() for head in heads]
        masks = list(action_mask) if isinstance(action_mask, (list, tuple)) else [action_mask] * len(outputs)
    else:
        outputs, actions, masks = [output], [action], [action_mask]
    for index, mask in enumerate(masks):
        if mask is not None and isinstance(outputs[index], torch.Tensor):
            outputs[index] = outputs[index].masked_fill(usable_mask(mask) == 0, float("-inf"))
    return list(zip(outputs, actions, strict=True))
