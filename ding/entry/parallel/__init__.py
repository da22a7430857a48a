"""The parallel mode above its workers: what each process does. Planes and launch are in ``ding.parallel``.

* ``roles``: which processes a run has; ``scaling``: collectors that join and leave.
* ``coordinator``, ``workers``, ``learner_group``: the bodies of the roles.
* ``reports``: what the coordinator reports of a run, as a ``RunStatus`` and as ``result.json``.

The bodies make workers, and so lie above them; the launcher below gets them as functions.
"""
