"""Group relative policy optimization over tokens (GRPO; Shao et al. 2024, DeepSeekMath, arXiv:2402.03300)."""

from collections import namedtuple

from torch import Tensor

from ding.rl_utils._types import Data
from ding.rl_utils.log_prob_utils import LogProbFunction, efficient_method
from ding.rl_utils.token_surrogate import token_surrogate_loss

grpo_policy_data = namedtuple("grpo_policy_data", "logit_new logit_old logit_ref action adv weight")
grpo_info = namedtuple("grpo_info", "approx_kl clipfrac")


def grpo_policy_error(
    data: Data,
    log_prob_fn: LogProbFunction = efficient_method,
    clip_ratio: float = 0.2,
    beta: float = 0.1,
    reference_numerics: bool = False,
) -> tuple[Tensor, grpo_info]:
    """Return the loss, 0-d, and ``grpo_info`` of two floats: the mean of ``log pi_old - log pi_new``, and the share of
    ratios outside of the clip range.

    The loss of a token is the clipped surrogate of PPO plus ``beta`` times an estimate of the KL divergence from the
    reference policy; it is averaged over the tokens of each sequence, then over the sequences. The advantage of a
    sequence is usually its reward minus the mean of its group, the sequences of one prompt, divided by their standard
    deviation.

    Args:
        data: ``grpo_policy_data``: logits of the new, the old and the reference policy ``[B, S, V]``, action (the
            tokens) int64 ``[B, S]``, adv ``[B]``, weight ``[B, S]`` (0 for prompt and padding) or None. Only the new
            policy gets a gradient.
        log_prob_fn: a function of :mod:`ding.rl_utils.log_prob_utils`.
        beta: Weight of the KL divergence, typically 0 to 0.1; higher values keep the policy closer to the reference.
        reference_numerics: Whether to count tokens of weight 0 in ``grpo_info``, as DI-engine does.

    Raises:
        ValueError: Shapes do not match.
    """
    new, old, reference, action, adv, weight = data
    loss, *info = token_surrogate_loss(
        new, old, action, adv, weight, log_prob_fn, clip_ratio,
        reference=reference, beta=beta, all_tokens=reference_numerics,
    )  # fmt: skip
    return loss, grpo_info(*(value.item() for value in info))
