"""Phasic policy gradient, auxiliary phase (Cobbe et al. 2021, arXiv:2009.04416)."""

from collections import namedtuple

import torch

from ding.rl_utils._policy_dist import Categorical, weighted
from ding.rl_utils._surrogate import clipped_value_loss
from ding.rl_utils._types import Data

ppg_data = namedtuple("ppg_data", "logit_new logit_old action value_new value_old return_ weight")
ppg_joint_loss = namedtuple("ppg_joint_loss", "auxiliary_loss behavioral_cloning_loss")


def ppg_joint_error(data: Data, clip_ratio: float = 0.2, use_value_clip: bool = True) -> ppg_joint_loss:
    """Value loss of the policy network and the divergence that keeps its policy where it was, each 0-d.

    ``data``: ``ppg_data``; logits ``[B, N]``, action ``[B]``, the rest ``[B]``, weight or ``None``. The auxiliary loss
    is that of :func:`ding.rl_utils.ppo.ppo_value_error`; behavioural cloning is the mean of ``KL(old || new)`` over all
    actions, so ``action`` is not read.
    """
    logit_new, logit_old, _, value_new, value_old, return_, weight = data
    auxiliary = clipped_value_loss(value_new, value_old, return_, weight, clip_ratio, use_value_clip)
    new, old = Categorical(logit_new), Categorical(logit_old.detach())
    probability = old.log_p.exp()
    # A masked action has probability 0 in both policies and adds nothing.
    terms = torch.where(probability > 0, probability * (old.log_p - new.log_p), 0.0)
    divergence = terms.sum(-1)
    return ppg_joint_loss(auxiliary, weighted(divergence, weight).mean())
