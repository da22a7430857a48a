"""Source of the policies of a run: the weight plane, or a checkpoint in its folder."""

import logging
import os
import threading
from typing import Any

from ding.parallel.planes import Planes, WeightPlane, check_id
from ding.torch_utils.weight_checks import nonfinite_entry
from ding.utils.file_helper import read_file

log = logging.getLogger(__name__)


class PolicySource:
    """Resolves the ``policy_update_path`` of a task.

    A name refers to the versions published by a learner. The path of a plain file inside the policy folder (a
    historical player of a league) is read as a checkpoint, which may hold only tensors and plain values.

    Args:
        planes: Planes that store the policies.
    """

    def __init__(self, planes: Planes) -> None:
        root = planes.policy_folder
        self._root = None if root is None else os.path.realpath(root)
        self._make_plane = planes.weights
        self._lock = threading.Lock()
        self._planes: dict[str, WeightPlane] = {}
        # Name -> version with non-finite weights.
        self._refused: dict[str, int] = {}
        self._closed = threading.Event()

    def get(self, path: str, newer_than: int = -1, timeout_s: float = 0.0) -> "dict[str, Any] | None":
        """Return the newest version as a state dict with the key ``iter``.

        Return ``None`` if its number is ``newer_than`` or its weights are not finite.

        Raises:
            BadId: ``path`` is neither a plain name nor a path inside the folder.
        """
        name = self._name_of(path)
        file = None if self._root is None else os.path.join(self._root, name)
        if file is not None and os.path.isfile(file) and not os.path.islink(file):
            return self._read_checkpoint(file, newer_than, timeout_s)
        plane = self._plane_of(name)
        weights = plane.fetch(self._refused.get(name, newer_than), timeout_s)
        if weights is None:
            return None
        state = weights.state
        if not isinstance(state.get("model"), dict):
            state = {"model": state}
        bad = nonfinite_entry(state["model"])
        if bad is not None:
            self._refused[name] = weights.version
            log.error("version %d of %s is not taken: its weight %s is NaN or infinite", weights.version, name, bad)
            return None
        self._refused.pop(name, None)
        return {**state, "iter": weights.version}

    def _name_of(self, path: str) -> str:
        """Return the id in ``path``, which may start with the folder itself."""
        if isinstance(path, str) and self._root is not None and os.sep in path:
            folder, name = os.path.split(path)
            if os.path.realpath(folder) == self._root:
                path = name
        return check_id(path, "policy_update_path")

    def _plane_of(self, name: str) -> WeightPlane:
        with self._lock:
            plane = self._planes.get(name)
            if plane is None:
                plane = self._planes[name] = self._make_plane(name)
                if self._closed.is_set():
                    plane.close()
            return plane

    def _read_checkpoint(self, file: str, newer_than: int, timeout_s: float) -> "dict[str, Any] | None":
        """Read a checkpoint, which is replaced atomically; without a number of its own it is version 0."""
        state = dict(read_file(file))
        iteration = int(state.pop("iter", state.pop("last_iter", 0)))
        if iteration == newer_than:
            # New checkpoints are not announced, so wait for the next poll.
            self._closed.wait(timeout_s)
            return None
        return {**state, "iter": iteration}

    def hint(self) -> None:
        """Wake waiting calls because there is a new version."""
        with self._lock:
            planes = list(self._planes.values())
        for plane in planes:
            plane.hint()

    def close(self) -> None:
        """Wake all blocked callers."""
        with self._lock:
            self._closed.set()
            planes = list(self._planes.values())
        for plane in planes:
            plane.close()
