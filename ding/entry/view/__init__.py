"""Displays and outputs of a run, in both modes, based on a common ``RunStatus``.

* ``status``: the status, its rates, ``result.json``.
* ``views``, ``live``: log lines, or a live view on a terminal.
* ``access_file``: address of an active parallel run (``ding status``, ``ding scale``).
* ``status_file``: the status of a run as a file in its folder.
* ``runs``, ``event_files``: experiment folders, and the curves in them.
* ``callbacks``: user callbacks after evaluations and passes.
* ``experiment``: layout of an experiment folder.
* ``plot``: learning curves as an image (``ding plot``); for the web page see ``ding.entry.board``.
* ``compare``: comparison of experiments of several seeds (``ding compare``).
* ``seed_statistics``: interquartile means, bootstrap intervals, probability of improvement.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
