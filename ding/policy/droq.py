"""DroQ: REDQ with two critics that dropout and layer normalisation regularise, in the place of ten."""

from ding.policy.redq import REDQPolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("droq")
class DroQPolicy(REDQPolicy):
    """Dropout Q-functions (Hiraoka et al. 2021, arXiv:2110.02034): :class:`~ding.policy.redq.REDQPolicy` with two
    critics, ``model.dropout`` between each of their layers and its layer normalisation, and other defaults.

    Masks are drawn anew in each pass, also for the target network and when the actor learns. The paper takes a dropout
    of 0.01 for most tasks, and 0.0001 (Hopper) to 0.1 (Humanoid) for some.
    """

    config = {
        "type": "droq",
        "model": {
            "ensemble_num": 2,
            # (str or None) Normalisation in the critics: 'LN'.
            "norm_type": "LN",
            # (float) Probability of dropout in the critics.
            "dropout": 0.01,
        },
    }
