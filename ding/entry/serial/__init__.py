"""The serial mode: one loop in one process.

* ``parts``: from a compiled config to the workers. ``shape_check``: shapes that contradict the env.
* ``loop``: evaluate, collect, train, until the run is over; and where its batches come from.
* ``offline_path``, ``expert_path``, ``level_path``, ``reward_path``: other such places, for ``ding.entry.pipelines``.
* ``run_state``: all that a killed run needs to go on exactly.
"""
