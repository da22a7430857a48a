"""Both planes of the backend ``inproc``."""

from ding.parallel.planes.inproc.data_plane import InprocDataPlane, forget_chunks
from ding.parallel.planes.inproc.weight_plane import InprocWeightPlane, forget_policies


class InprocPlanes:
    """:class:`~ding.parallel.planes.Planes` of type ``inproc``.

    Args:
        path_data: Name shared by the users of the same chunks.
        path_policy: Name shared by the users of the same policies.
    """

    policy_folder = None

    def __init__(self, path_data: str, path_policy: str) -> None:
        self._path_data = path_data
        self._path_policy = path_policy

    def data(self, writer: "str | None" = None, max_bytes: "int | None" = None) -> InprocDataPlane:
        """See :meth:`Planes.data <ding.parallel.planes.Planes.data>`."""
        return InprocDataPlane(self._path_data, writer, max_bytes)

    def weights(self, policy_id: str) -> InprocWeightPlane:
        """See :meth:`Planes.weights <ding.parallel.planes.Planes.weights>`."""
        return InprocWeightPlane(self._path_policy, policy_id)


def forget_inproc_planes(root: str) -> None:
    """Discard the chunks and policies of the in-process planes named ``root``, at the end of a run."""
    forget_chunks(root)
    forget_policies(root)
