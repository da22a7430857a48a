"""Roles as actors of a Ray cluster.

Ray places the processes of the roles, restarts them when they or their nodes die, and transfers transitions and weights
(``ding.parallel.planes.ray``). Task assignment, the index of the data, leases and the end of the run stay with the
coordinator and its control plane over HTTP, which runs in actors as it does in processes. Thus the ledger, fencing, the
journal and the tokens have a single implementation with one set of tests. The launcher is also the same: it runs in the
driver, and an actor is another way to start a process (``ding.parallel.launch.spawner``).

Restarts: an actor has ``max_restarts=-1``, so Ray restores a process that was killed, or whose node was lost. The
role's own ``RestartRule`` decides whether and when the role starts in it again; it distinguishes kills from failures
and resets the counts after progress. A process that has ended by itself, or that must end, is not reused: its role gets
a new actor with the same name. The actors end with the driver.
"""
