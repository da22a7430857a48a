"""Floor 2: the control plane of the parallel mode.

A `Master` assigns tasks to `Slave`s, with JSON over HTTP in both directions; data takes another way. See
`docs/architecture.md` for its place in a run, ``ding.interaction.errors`` for the errors, ``ding.interaction.messages``
for the messages, and ``ding.interaction.base.inproc`` for an in-process variant.

The HTTP server is imported when a service starts listening over HTTP.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
