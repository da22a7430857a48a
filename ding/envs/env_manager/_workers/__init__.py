"""Envs in worker processes, for the subprocess managers.

Modules, from the bottom up:

``protocol``
    messages between the parent and its workers.
``shared_columns``
    arrays in anonymous shared memory, one row per env.
``worker``
    the child: creates its envs and executes orders.
``process``
    the parent's view of one child. It owns the process, its pipe and its crash log.
``engine``
    all children of a manager. It owns the shared memory attached to them and the pipe on which they report, and
    handles time-outs: every order becomes exactly one event, even if its process hangs or dies.
``actions``, ``results``
    data that the parent writes to shared memory, and data that it reads from there.
``fleet``
    life cycle of the envs: which of them are building, resetting or stepping, retries and errors. It owns the engine,
    and reacts to events only while the manager calls it; there is no background thread.

They need POSIX descriptors and do not run on Windows.
"""
