"""Planes in the object store of a Ray cluster.

A frame is an object in shared memory; a reader on the store's node reads it without a copy. Ray frees an object when
the process that created it dies. Therefore an actor, the *store*, creates the objects of a run (Ray has no ``_owner``
since 2.56), so that chunks of a killed collector survive, as they do the loss of any node but the store's. Small frames
are kept in the store's own memory, and processes on its node access it through a fast path (``store_socket``). If the
store dies, its chunks are missing, as in an emptied folder; Ray restarts it, and the run continues with new chunks.
"""
