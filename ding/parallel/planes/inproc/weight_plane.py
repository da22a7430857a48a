"""Weight plane in the memory of one process."""

import threading
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from ding.parallel.planes.data_plane import check_id
from ding.parallel.planes.frames import pack, unpack
from ding.parallel.planes.inproc.shared import SharedByName
from ding.parallel.planes.protocols import Weights, check_version


class _Version(NamedTuple):
    number: int
    frame: bytes


class _Board:
    """Newest version of one policy."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.newest: _Version | None = None


class _Boards(SharedByName[_Board]):
    """Boards of all policies of one root."""

    def __init__(self) -> None:
        super().__init__(_Board)


_roots: SharedByName[_Boards] = SharedByName(_Boards)


class InprocWeightPlane:
    """:class:`~ding.parallel.planes.WeightPlane` that holds the newest version of one policy.

    Args:
        root: Planes with the same root and policy share their versions, as in a common folder, until
            :func:`forget_inproc_planes`. ``None``: the plane is not shared.
        policy_id: Plain name of the policy.

    Raises:
        BadId: ``policy_id`` is not a plain name.
    """

    def __init__(self, root: "str | None" = None, policy_id: str = "policy") -> None:
        check_id(policy_id, "a policy id")
        self._board = _Board() if root is None else _roots.get(root).get(policy_id)
        self._closed = False

    def publish(self, state: "Mapping[str, Any]", version: int, meta: "Mapping[str, Any] | None" = None) -> None:
        """See :meth:`WeightPlane.publish <ding.parallel.planes.WeightPlane.publish>`."""
        check_version(version)
        newest = _Version(version, pack(dict(state), "weights", meta))
        with self._board.changed:
            self._board.newest = newest
            self._board.changed.notify_all()

    def fetch(self, newer_than: int = -1, timeout_s: float = 0.0) -> "Weights | None":
        """See :meth:`WeightPlane.fetch <ding.parallel.planes.WeightPlane.fetch>`."""
        board = self._board

        def found() -> bool:
            return board.newest is not None and board.newest.number != newer_than

        with board.changed:
            board.changed.wait_for(lambda: self._closed or found(), timeout_s)
            newest = board.newest if found() else None
        if newest is None:
            return None
        return Weights(newest.number, *unpack(newest.frame, "weights", zlib.crc32(newest.frame)))

    def newest(self) -> "int | None":
        """See :meth:`WeightPlane.newest <ding.parallel.planes.WeightPlane.newest>`."""
        newest = self._board.newest
        return None if newest is None else newest.number

    def hint(self) -> None:
        """See :meth:`WeightPlane.hint <ding.parallel.planes.WeightPlane.hint>`; publishing wakes the waiters anyway."""

    def close(self) -> None:
        """See :meth:`WeightPlane.close <ding.parallel.planes.WeightPlane.close>`; other planes stay open."""
        with self._board.changed:
            self._closed = True
            self._board.changed.notify_all()


def forget_policies(root: str) -> None:
    """Discard the policies of the planes named ``root``."""
    _roots.forget(root)
