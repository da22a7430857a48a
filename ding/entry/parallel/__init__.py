"""Parallel mode above its workers: the process of each role. Planes and launch are in ``ding.parallel``.

* ``roles``: roles of a run; ``scaling``: collectors that join and leave.
* ``coordinator``, ``workers``, ``learner_group``: functions of the roles.
* ``reports``: reports of the coordinator, as a ``RunStatus`` and as ``result.json``.

These functions create workers, so they are on a higher floor; the launcher below receives them as arguments.
"""
