"""XQL: IQL with a value function by Gumbel regression (Garg et al. 2023, arXiv:2301.02328)."""

import torch

from ding.policy.iql import IQLPolicy
from ding.utils import POLICY_REGISTRY

# The least exponent by which a batch is scaled.
_MIN_SCALE = -1.0


def gumbel_loss(difference: torch.Tensor, temperature: float, max_exponent: float) -> torch.Tensor:
    """Return ``mean(exp(z) - z - 1) / exp(m)`` with ``z = min(difference / temperature, max_exponent)`` and ``m`` the
    largest ``z``, but at least -1: 0-d. Its minimum over a constant ``v`` in ``difference = q - v`` is ``temperature
    log mean exp(q / temperature)``, a soft maximum.

    The division keeps gradients in range; no gradient flows through ``m``. A sample whose exponent is cut has none.

    Args:
        difference: ``q - v``, ``[B]``.
        temperature: of the soft maximum; lower values come nearer to the maximum.
        max_exponent: the largest exponent.
    """
    z = (difference / temperature).clamp(max=max_exponent)
    scale = z.detach().max().clamp(min=_MIN_SCALE)
    return ((z - scale).exp() - (z + 1) * (-scale).exp()).mean()


@POLICY_REGISTRY.register("xql")
class XQLPolicy(IQLPolicy):
    """Extreme Q-learning: the value of a state is a soft maximum of the critics over the actions of the data, learned
    by Gumbel regression in the place of IQL's expectile; the rest is as in :class:`~ding.policy.iql.IQLPolicy`.

    ``learn.tau`` is not read.
    """

    config = {
        "type": "xql",
        "random_collect_size": 0,
        "learn": {
            # (float) Temperature of the soft maximum, beta of the paper: typically 0.6 to 5 of the unit of the values;
            # lower values are more optimistic and less stable.
            "value_temperature": 2.0,
            # (float) Largest exponent in the loss of the values, typically 5 to 7: outliers above it have no gradient.
            "max_exponent": 7.0,
        },
    }

    def _value_loss(self, difference: torch.Tensor) -> torch.Tensor:
        learn = self._cfg.learn
        return gumbel_loss(difference, learn.value_temperature, learn.max_exponent)
