"""``ding board``: all runs below some folders on a local web page, finished ones and those that last.

* ``runs``: what a run is and does, read from its folder; it follows files that grow.
* ``curves``: the curves of many runs, thinned for a screen, with mean and band over seeds.
* ``server``: the page, and the JSON that it asks for. ``static``: the page itself, and uPlot, which draws.

Nothing of a run is executed or unpickled: configs are read as literals.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
