"""What people and programs see of a run, in both modes: one ``RunStatus``, and what is made of it.

* ``status``: the snapshot, its rates, ``result.json``.
* ``views``, ``live``: log lines, or a view on a terminal.
* ``access_file``: where a running parallel run can be asked (``ding status``, ``ding scale``).
* ``status_file``: the status of a run as a file in its folder.
* ``runs``, ``event_files``: which experiment folders there are, and the curves in them.
* ``callbacks``: what users have called after evaluations and passes.
* ``experiment``: what lies where in an experiment folder.
* ``plot``: learning curves as an image (``ding plot``); as a page: ``ding.entry.board``.
* ``compare``: experiments of several seeds beside each other (``ding compare``).
* ``seed_statistics``: interquartile means, bootstrap intervals, probability of improvement.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
