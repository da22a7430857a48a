"""Training as a task: middleware that run once per iteration over one context, in one process or in several.

* ``task``: the loop. ``context``: what middleware read and write. ``middleware``: collectors, learners, evaluators, ...
* ``parallel``, ``message_queue``: the messenger between the processes of a run, and its start. ``supervisor``: workers
  as children. ``event_loop``: listeners of named events. ``wrapper``: what goes around each middleware.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
