"""Counterfactual multi-agent policy gradients (Foerster et al. 2018, arXiv:1705.08926)."""

from collections import namedtuple

import torch

from ding.rl_utils._td_values import PerStep, generalized_lambda_returns, select
from ding.rl_utils._types import Data
from ding.rl_utils.policy_dist import Categorical, weighted

coma_data = namedtuple("coma_data", "logit action q_value target_q_value reward weight")
coma_loss = namedtuple("coma_loss", "policy_loss q_value_loss entropy_loss")


def coma_error(data: Data, gamma: float, lambda_: PerStep, value_weight: torch.Tensor | None = None) -> coma_loss:
    """Policy, action value and entropy losses, each 0-d.

    ``data``: ``coma_data``; logit, q_value and target_q_value ``[T, B, A, N]``, action int64 ``[T, B, A]``, reward
    ``[T, B]`` shared by the agents, weight ``[T, B, A]`` or ``None``. The baseline of an agent is its expected value
    over its own actions. ``lambda_`` is a number, or ``[T - 1, B, 1]``.

    With ``value_weight`` ``[T, B, A]``, the weight of the value loss alone, the last step counts, too: its return is
    its reward, as at the end of an episode. ``lambda_`` is ``[T, B, 1]`` then.
    """
    logit, action, q_value, target_q_value, reward, weight = data
    policy, q = Categorical(logit), select(q_value, action)
    with torch.no_grad():
        baseline = (policy.log_p.exp() * q_value).sum(-1)
        advantage = q - baseline
        target_q = select(target_q_value, action)
        reward = reward.unsqueeze(-1).expand_as(target_q)
        if value_weight is None:
            reward, value_weight = reward[:-1], None if weight is None else weight[:-1]
        else:
            target_q = torch.cat([target_q, torch.zeros_like(target_q[:1])])
        returns = generalized_lambda_returns(target_q, reward, gamma, lambda_)
    policy_loss = -weighted(policy.log_prob(action) * advantage, weight).mean()
    q_value_loss = weighted((q[: len(returns)] - returns).square(), value_weight).mean()
    return coma_loss(policy_loss, q_value_loss, weighted(policy.entropy(), weight).mean())
