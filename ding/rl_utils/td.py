"""TD errors by family. Returns ``(loss, per-sample)`` unless a docstring says otherwise; every target is detached.

Notation: B batch, N actions, A agents, n steps, T time. ``weight=None`` counts as ones.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
