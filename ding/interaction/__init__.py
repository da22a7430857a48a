"""Floor 2: the control plane of the parallel mode.

A `Master` gives tasks to `Slave`s; JSON over HTTP in both directions, never data. `docs/architecture.md` shows where it
stands, ``ding.interaction.errors`` draws the tree of errors, ``ding.interaction.messages`` has the messages,
``ding.interaction.base.inproc`` is the same within one process.

The HTTP server is imported when a service starts to listen over HTTP.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
