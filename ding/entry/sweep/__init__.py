"""Many runs of one config that differ in some keys, which Optuna chooses (``ding sweep``, extra ``sweep``).

* ``parameters``: ``KEY=log:LOW:HIGH`` and the like, and what a trial makes of them.
* ``study``: the trials, one run each, in one or several processes; the study file, with which a sweep goes on.
* ``report``: the trials as a table and as a picture.

::

    <name of the config>_sweep/
      study.log        the study: every trial, also of sweeps before
      trial<n>/        the experiment folder of a trial
      sweep.png        the return of the trials over each parameter
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
