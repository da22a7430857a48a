"""Training as a task: middleware that runs once per iteration over a shared context, in one or several processes.

* ``task``: the loop. ``context``: data that the middleware reads and writes. ``middleware``: collectors, learners,
  evaluators, ...
* ``parallel``, ``message_queue``: start of and communication between the processes of a run. ``supervisor``: workers in
  child processes. ``event_loop``: listeners of named events. ``wrapper``: decorators of middleware.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
