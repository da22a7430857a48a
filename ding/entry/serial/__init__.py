"""The serial mode: one loop in one process.

* ``parts``: from a compiled config to the workers. ``shape_check``: shapes that contradict the env.
* ``loop``: evaluate, collect, train, until the run is over.
* ``data_path``: where the batches of a loop come from.
* ``run_state``: all that a killed run needs to go on exactly.
"""
