"""The parallel mode below its workers: planes for data and weights, and the launch of processes.

* ``ding.parallel.planes``: transitions by reference and versions of policies, over a backend that ``type`` chooses.
* ``ding.parallel.launch``: starts, watches and ends the processes of a run.
"""
