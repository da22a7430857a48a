"""Algorithms as learn, collect, eval and command modes.

Exceptions are drawn in :mod:`ding.policy.errors`.
"""

# They register policies.
from ding.policy import command_mode_policy_instance, pc, ppof_command, qgpo  # noqa: F401
from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]")
