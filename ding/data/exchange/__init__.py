"""What the processes of the parallel mode share beside messages: transitions by reference, and versions of weights.

* :class:`DataPlane`: ``put`` a batch, pass on its :class:`ChunkRef`, ``get`` it elsewhere, ``release`` it.
  :class:`FileDataPlane` for processes with a common folder, :class:`InprocDataPlane` for threads.
* :class:`WeightPlane`: ``publish`` a version of a policy, ``fetch`` the newest.
  :class:`FileWeightPlane` and :class:`InprocWeightPlane`.
* :func:`gather`: single rows out of many chunks.

Files are written whole, in the safetensors format, and carry a checksum; nothing in them is ever run.

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

from ding.data.exchange.errors import (
    BadFrame,
    BadId,
    ChunkBroken,
    ChunkMissing,
    ExchangeError,
    StorageDenied,
    StorageError,
    StorageFull,
)
from ding.data.exchange.file_data_plane import FileDataPlane
from ding.data.exchange.file_weight_plane import FileWeightPlane
from ding.data.exchange.gathering import gather
from ding.data.exchange.inproc_data_plane import InprocDataPlane
from ding.data.exchange.inproc_weight_plane import InprocWeightPlane, forget_inproc_planes
from ding.data.exchange.protocols import AnyRef, ChunkRef, DataPlane, PlaneStats, WeightPlane, Weights, writer_of

__all__ = [
    "AnyRef",
    "BadFrame",
    "BadId",
    "ChunkBroken",
    "ChunkMissing",
    "ChunkRef",
    "DataPlane",
    "ExchangeError",
    "FileDataPlane",
    "FileWeightPlane",
    "InprocDataPlane",
    "InprocWeightPlane",
    "PlaneStats",
    "StorageDenied",
    "StorageError",
    "StorageFull",
    "WeightPlane",
    "Weights",
    "forget_inproc_planes",
    "gather",
    "writer_of",
]
