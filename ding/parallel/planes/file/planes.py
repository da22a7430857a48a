"""Both planes of the backend ``file``."""

import os

from ding.parallel.planes.file.data_plane import FileDataPlane
from ding.parallel.planes.file.weight_plane import FileWeightPlane


class FilePlanes:
    """:class:`~ding.parallel.planes.Planes` of type ``file``.

    Args:
        path_data: Folder of the chunks.
        path_policy: Folder of the policies.
    """

    def __init__(self, path_data: str, path_policy: str) -> None:
        self._path_data = path_data
        self._path_policy = path_policy
        if path_policy:
            os.makedirs(path_policy, exist_ok=True)

    @property
    def policy_folder(self) -> str:
        """Folder of the policies."""
        return self._path_policy

    def data(self, writer: "str | None" = None, max_bytes: "int | None" = None) -> FileDataPlane:
        """See :meth:`Planes.data <ding.parallel.planes.Planes.data>`."""
        return FileDataPlane(self._path_data, writer, max_bytes)

    def weights(self, policy_id: str) -> FileWeightPlane:
        """See :meth:`Planes.weights <ding.parallel.planes.Planes.weights>`."""
        return FileWeightPlane(self._path_policy, policy_id)
