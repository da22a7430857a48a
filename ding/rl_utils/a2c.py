"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

from collections import namedtuple

from ding.rl_utils._policy_dist import Categorical, DiagonalNormal, Policy, weighted
from ding.rl_utils._types import Data

a2c_data = namedtuple("a2c_data", "logit action value adv return_ weight")
a2c_loss = namedtuple("a2c_loss", "policy_loss value_loss entropy_loss")


def _terms(policy: Policy, data: Data) -> a2c_loss:
    _, action, value, adv, return_, weight = data
    return a2c_loss(
        -weighted(policy.log_prob(action) * adv, weight).mean(),
        weighted((return_ - value).square(), weight).mean(),
        weighted(policy.entropy(), weight).mean(),
    )


def a2c_error(data: Data) -> a2c_loss:
    """Policy gradient, value loss ``mean(w (R - v)^2)`` and entropy of a discrete policy, each 0-d.

    ``data``: ``a2c_data``; logit ``[B, N]``, action int64 ``[B]``, the rest ``[B]``, weight or ``None``.
    """
    return _terms(Categorical(data[0]), data)


def a2c_error_continuous(data: Data) -> a2c_loss:
    """:func:`a2c_error` for independent normals: logit is a mapping with mu and sigma ``[B, D]``, action ``[B, D]``."""
    return _terms(DiagonalNormal(data[0]), data)
