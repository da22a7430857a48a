"""``ding board``: all runs below some folders on a local web page, finished and active ones.

* ``runs``: reads the state of a run from its folder, and follows growing files.
* ``curves``: curves of many runs, reduced for display, with mean and band over seeds.
* ``server``: the page and its JSON data. ``static``: the page itself, and uPlot for drawing.

No code of a run is executed or unpickled: configs are read as literals.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
