"""Many runs of one config that differ in keys chosen by Optuna (``ding sweep``, extra ``sweep``).

* ``parameters``: ``KEY=log:LOW:HIGH`` and similar forms, and the values of a trial.
* ``study``: the trials, one run each, in one or several processes; the study file, from which a sweep resumes.
* ``report``: the trials as a table and as a plot.

::

    <name of the config>_sweep/
      study.log        the study: all trials, including those of earlier sweeps
      trial<n>/        the experiment folder of a trial
      sweep.png        the return of the trials over each parameter
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
