"""Envs in worker processes, for the subprocess managers.

What lies where, from the inside out:

``protocol``
    what the parent and its workers say to each other.
``shared_columns``
    arrays in anonymous shared memory, one row per env.
``worker``
    the child: builds its envs and carries out orders.
``process``
    one child as the parent sees it. It owns the process, its pipe and its crash log.
``engine``
    all children of a manager. It owns the shared memory that was attached to them and the pipe on which they report,
    and it is where orders time out: every order becomes exactly one event, also when its process hangs or dies.
``actions``, ``results``
    what is written to shared memory by the parent, and what is read from it.
``fleet``
    the life of the envs: which of them are building, resetting or stepping, what is tried again and what is an error.
    It owns the engine, and reacts to events only while the manager calls it; there is no background thread.

They need POSIX descriptors, so there is no Windows.
"""
