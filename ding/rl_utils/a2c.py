"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

from collections import namedtuple

from ding.rl_utils._types import Data
from ding.rl_utils.policy_dist import policy_of, weighted

a2c_data = namedtuple("a2c_data", "logit action value adv return_ weight")
a2c_loss = namedtuple("a2c_loss", "policy_loss value_loss entropy_loss")


def a2c_error(data: Data) -> a2c_loss:
    """Policy gradient, value loss ``mean(w (R - v)^2)`` and entropy, each 0-d.

    ``data``: ``a2c_data``; logit ``[B, N]`` and action int64 ``[B]``, or for independent normals a mapping with mu and
    sigma ``[B, D]`` and action ``[B, D]``; the rest ``[B]``, weight or ``None``.
    """
    output, action, value, adv, return_, weight = data
    policy = policy_of(output)
    return a2c_loss(
        -weighted(policy.log_prob(action) * adv, weight).mean(),
        weighted((return_ - value).square(), weight).mean(),
        weighted(policy.entropy(), weight).mean(),
    )


#: The output determines the kind of policy.
a2c_error_continuous = a2c_error
