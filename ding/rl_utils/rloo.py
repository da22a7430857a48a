"""REINFORCE leave-one-out over tokens, with PPO's clipping (RLOO; Ahmadian et al. 2024, arXiv:2402.14740)."""

from collections import namedtuple

from torch import Tensor

from ding.rl_utils._types import Data
from ding.rl_utils.log_prob_utils import LogProbFunction, efficient_method
from ding.rl_utils.token_surrogate import token_surrogate_loss

rloo_policy_data = namedtuple("rloo_policy_data", "logit_new logit_old action reward weight")
rloo_info = namedtuple("rloo_info", "approx_kl clipfrac")


def rloo_policy_error(
    data: Data,
    log_prob_fn: LogProbFunction = efficient_method,
    clip_ratio: float = 0.2,
    reference_numerics: bool = False,
) -> tuple[Tensor, rloo_info]:
    """Return the loss, 0-d, and ``rloo_info`` of two floats: the mean of ``log pi_old - log pi_new``, and the share of
    ratios outside of the clip range.

    The advantage of a sequence is its reward minus the mean reward of the other sequences of its prompt. The loss is
    that of :func:`~ding.rl_utils.grpo.grpo_policy_error` without a reference policy.

    Args:
        data: ``rloo_policy_data``: reward ``[K, N]`` of K sequences for each of N prompts; the others have a row for
            each sequence, all N prompts of the first sample before those of the second: logits of the new and the old
            policy ``[K N, S, V]``, action (the tokens) int64 ``[K N, S]``, weight ``[K N, S]`` (0 for prompt and
            padding) or None. Only the new policy gets a gradient.
        log_prob_fn: a function of :mod:`ding.rl_utils.log_prob_utils`.
        reference_numerics: Whether to count tokens of weight 0 in ``rloo_info``, as DI-engine does.

    Raises:
        ValueError: Shapes do not match, or there is only one sequence per prompt, so the baseline is undefined.
    """
    new, old, action, reward, weight = data
    if reward.ndim != 2 or reward.shape[0] < 2 or reward.numel() != action.shape[0]:
        raise ValueError(
            f"reward has the shape {tuple(reward.shape)}, expected (K, N) with at least K=2 sequences for each of N "
            f"prompts and K N={action.shape[0]}, the rows of action"
        )
    baseline = (reward.sum(0) - reward) / (reward.shape[0] - 1)
    loss, *info = token_surrogate_loss(
        new, old, action, (reward - baseline).flatten(), weight, log_prob_fn, clip_ratio, all_tokens=reference_numerics
    )
    return loss, rloo_info(*(value.item() for value in info))
