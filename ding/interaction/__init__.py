"""Floor 6: the control plane of the parallel mode.

A `Master` gives tasks to `Slave`s; JSON over HTTP in both directions, never data. `docs/architecture.md` shows where it
stands, ``ding.interaction.exception.base`` draws the tree of errors, ``ding.interaction.inproc`` is the same within one
process.

Flask and waitress are imported when a service starts to listen over HTTP.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
