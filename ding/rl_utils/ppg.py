"""Phasic policy gradient, auxiliary phase (Cobbe et al. 2021, arXiv:2009.04416)."""

from collections import namedtuple

from ding.rl_utils._types import Data
from ding.rl_utils.policy_dist import policy_of, weighted
from ding.rl_utils.surrogate import clipped_value_loss

ppg_data = namedtuple("ppg_data", "logit_new logit_old action value_new value_old return_ weight")
ppg_joint_loss = namedtuple("ppg_joint_loss", "auxiliary_loss behavioral_cloning_loss")


def ppg_joint_error(data: Data, clip_ratio: float = 0.2, use_value_clip: bool = True) -> ppg_joint_loss:
    """Return the value loss of the policy network and the divergence from its old policy, each 0-d.

    ``data``: ``ppg_data``; logits ``[B, N]`` (or mu and sigma ``[B, D]``), action, the rest ``[B]``, weight or
    ``None``. The auxiliary loss is that of :func:`ding.rl_utils.ppo.ppo_value_error`; behavioural cloning is the mean
    of ``KL(old || new)``, so ``action`` is not read. Gradients flow into the new outputs.
    """
    logit_new, logit_old, _, value_new, value_old, return_, weight = data
    auxiliary = clipped_value_loss(value_new, value_old, return_, weight, clip_ratio, use_value_clip)
    divergence = policy_of(logit_old).kl_to(policy_of(logit_new))  # type: ignore[arg-type]
    return ppg_joint_loss(auxiliary, weighted(divergence, weight).mean())
