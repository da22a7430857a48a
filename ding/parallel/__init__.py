"""Infrastructure of the parallel mode below the workers: data and weight planes, and process supervision.

* ``ding.parallel.planes``: transitions by reference and policy versions, over a backend selected by ``type``.
* ``ding.parallel.launch``: starts, supervises and ends the processes of a run.
"""
