"""What the processes of the parallel mode share beside messages: transitions by reference, and versions of weights.

* :class:`DataPlane`: ``put`` a batch, pass on its :class:`ChunkRef`, ``get`` it elsewhere, ``release`` it.
* :class:`WeightPlane`: ``publish`` a version of a policy, ``fetch`` the newest.
* :func:`open_planes`: both, from the backend that ``type`` names: ``file`` for processes with a common folder,
  ``inproc`` for threads. Another backend is one more folder here and a line in ``backends.py``.

Frames (the bytes of a chunk or of weights) are written whole, in the safetensors format, and carry a checksum; nothing
in them is ever run.

Exceptions::

    ding.data.DataError
    └── ExchangeError
        ├── BadId (ValueError)          an id that is no plain name
        ├── BadFrame (ValueError)       a file, or data for one, that is not what it should be
        │   └── ChunkBroken             a chunk that changed; it lies in quarantine
        ├── ChunkMissing (LookupError)  released, or never put
        └── StorageError (OSError)      the folder cannot be written; try again later
            ├── StorageFull             no space
            └── StorageDenied           no right
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
