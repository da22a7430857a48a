"""Backends of the planes by the ``type`` of a config. A new backend needs a folder and a line here."""

from ding.parallel.planes.protocols import Planes
from ding.utils import Registry

PLANES_REGISTRY = Registry.named("planes")
PLANES_REGISTRY.register("file", "ding.parallel.planes.file.planes:FilePlanes")
PLANES_REGISTRY.register("inproc", "ding.parallel.planes.inproc.planes:InprocPlanes")
PLANES_REGISTRY.register("ray", "ding.parallel.planes.ray.planes:RayPlanes")


def open_planes(kind: str, path_data: str, path_policy: str) -> Planes:
    """Return the planes of a run.

    Args:
        kind: Registered ``type``.
        path_data: Location of the data: a folder, or its equivalent in the backend.
        path_policy: Location of the policies.

    Raises:
        KeyError: ``kind`` is not registered; the message names the closest type.
    """
    planes: Planes = PLANES_REGISTRY.build(kind, path_data, path_policy)
    return planes
