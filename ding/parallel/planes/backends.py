"""The backends of the planes, by the ``type`` that a config names. One more is one more folder, and a line here."""

from ding.parallel.planes.protocols import Planes
from ding.utils import Registry

PLANES_REGISTRY = Registry.named("planes")
PLANES_REGISTRY.register("file", "ding.parallel.planes.file.planes:FilePlanes")
PLANES_REGISTRY.register("inproc", "ding.parallel.planes.inproc.planes:InprocPlanes")
PLANES_REGISTRY.register("ray", "ding.parallel.planes.ray.planes:RayPlanes")


def open_planes(kind: str, path_data: str, path_policy: str) -> Planes:
    """Return the planes of a run.

    Args:
        kind: the registered ``type``.
        path_data: where the data is: a folder, or what the backend takes for one.
        path_policy: where the policies are.

    Raises:
        KeyError: ``kind`` is not registered; the message names the nearest type.
    """
    planes: Planes = PLANES_REGISTRY.build(kind, path_data, path_policy)
    return planes
