"""Shared data of the processes of the parallel mode: transitions by reference, and policy versions.

* :class:`DataPlane`: ``put`` a batch, send its :class:`ChunkRef`, ``get`` the batch elsewhere, ``release`` it.
* :class:`WeightPlane`: ``publish`` a version of a policy, ``fetch`` the newest.
* :func:`open_planes`: opens both for a backend ``type``: ``file`` for processes with a shared folder, ``inproc`` for
  threads. To add a backend, add a folder here and a line in ``backends.py``.

Frames (the bytes of a chunk or of weights) are written atomically in the safetensors format with a checksum; reading
them never executes code.

Exceptions::

    ding.data.DataError
    └── ExchangeError
        ├── BadId (ValueError)          id that is not a plain name
        ├── BadFrame (ValueError)       malformed file, or data that cannot be stored in one
        │   └── ChunkBroken             chunk that has changed; it is quarantined
        ├── ChunkMissing (LookupError)  chunk that was released, or never put
        └── StorageError (OSError)      folder that cannot be written; retry later
            ├── StorageFull             no space
            └── StorageDenied           no permission
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
