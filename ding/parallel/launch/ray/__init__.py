"""Roles as actors of a Ray cluster.

Ray places the processes of the roles, starts them again when they or their nodes die, and carries transitions and
weights (``ding.parallel.planes.ray``). Who does what, which data exists, what a lease is worth, and when the run is
over stay with the coordinator and its control plane over HTTP, which runs inside the actors as it does in processes:
the ledger, fencing, the journal and the tokens have one implementation, whose tests hold for both. The launcher is the
same, too: it lives in the driver, and an actor is one more way to start a process (``ding.parallel.launch.spawner``).

How restarts map: an actor has ``max_restarts=-1``, so a process that was killed, or whose node was lost, comes back by
Ray. Whether, and when, its role begins again in it is the role's own ``RestartRule``, which tells kills from failures
and forgets them after progress. A process that ended by itself, or that must end, is never used again: its role gets
another actor of the same name. When the driver ends, its actors end with it.
"""
