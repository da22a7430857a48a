"""Planes in the object store of a Ray cluster.

A frame is an object in shared memory, and a reader on the node of the store reads it there, without a copy. Ray frees
an object when the process that made it dies: so the *store*, an actor of its own, makes the objects of a run (Ray's
``_owner`` is gone since 2.56), and what a killed collector put stays. It also survives the loss of any node but the
store's. Small frames lie in its own memory, and processes on its node reach it by a short way (``store_socket``). When
the store dies, its chunks are missing, as those of a folder that somebody emptied; Ray starts it again, and the run
goes on with new ones.
"""
