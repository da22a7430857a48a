"""Exceptions of :mod:`ding.policy`.

::

    PolicyError
    ├── PolicyConfigError (RuntimeError)            a config key that does not fit, or keys that contradict each other
    ├── PolicyUsageError (AssertionError)           an argument outside the public contract of DI-engine
    ├── PolicyDataError (ValueError)                a batch whose fields do not fit the algorithm
    ├── PolicyStateError (KeyError)                 a state dict with missing or unknown keys
    │   └── PolicyWeightsError (RuntimeError)       the parameters in it are not those of the network
    ├── PolicyAttributeError (NotImplementedError)  ``get_attribute`` of a name the policy does not have
    └── PolicyMemberError (AttributeError)          ``policy.name`` of a name the policy does not have
"""

from ding.utils.errors import UserMistake
from ding.utils.names import did_you_mean


class PolicyError(Exception):
    """Base class of the errors of :mod:`ding.policy`."""


class PolicyConfigError(PolicyError, RuntimeError, UserMistake):
    """A config key that does not fit, or keys that contradict each other."""


class PolicyUsageError(PolicyError, AssertionError):
    """An argument outside the public contract (DI-engine promises an ``AssertionError``)."""


class PolicyDataError(PolicyError, ValueError):
    """A batch whose fields or shapes do not fit the algorithm."""


class PolicyStateError(PolicyError, KeyError):
    """A state dict with missing or unknown keys. ``str()`` is the plain message, without the quotes of ``KeyError``."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class PolicyWeightsError(PolicyStateError, RuntimeError, UserMistake):
    """Saved parameters that are missing, unknown or of another shape; the message lists them."""


class PolicyAttributeError(PolicyError, NotImplementedError):
    """``get_attribute`` of a name that the policy does not have."""


class PolicyMemberError(PolicyError, AttributeError):
    """An attribute that a policy does not have. The message is made when it is read: ``hasattr`` needs none.

    Args:
        policy: the name of its class.
        member: the name of the attribute.
        known: the names that there are.
        reason: why there is no value, for a name that is known.
    """

    def __init__(self, policy: str, member: str, known: tuple[str, ...] = (), reason: str = "") -> None:
        super().__init__(policy, member, known, reason)

    def __str__(self) -> str:
        policy, member, known, reason = self.args
        ending = f": {reason}" if reason else f".{did_you_mean(member, known)}"
        return f"{policy} has no attribute {member!r}{ending}"
