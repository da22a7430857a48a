"""Serial mode: a single loop in one process.

* ``parts``: creates the workers from a compiled config. ``shape_check``: finds shapes that contradict the env.
* ``loop``: evaluates, collects and trains until the run ends, with the data paths of the main pipelines.
* ``offline_path``, ``expert_path``, ``level_path``, ``reward_path``: other data paths, for ``ding.entry.pipelines``.
* ``run_state``: state from which a killed run resumes exactly.
"""
