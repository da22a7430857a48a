"""The weight plane in the memory of one process: for tests, debugging and notebooks."""

import json
import threading
from collections.abc import Mapping
from typing import Any

from ding.data.exchange._frame import pack
from ding.data.exchange._ids import check_id
from ding.data.exchange._shared import SharedByName
from ding.data.exchange.file_weight_plane import require_version
from ding.data.exchange.inproc_data_plane import copied_tree, forget_shelf
from ding.data.exchange.protocols import Weights


class _Board:
    """The newest version of one policy."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.newest: Weights | None = None


class _Boards:
    """The boards of all policies of one root."""

    def __init__(self) -> None:
        self.by_policy: SharedByName[_Board] = SharedByName(_Board)


_roots: SharedByName[_Boards] = SharedByName(_Boards)


class InprocWeightPlane:
    """A :class:`~ding.data.exchange.WeightPlane` that holds the newest version of one policy.

    Args:
        root: planes of the same root and policy share their versions, as those of one folder do, until
            :func:`forget_inproc_planes`. ``None``: this plane is alone.
        policy_id: a plain name.

    Raises:
        BadId: ``policy_id`` is no plain name.
    """

    def __init__(self, root: "str | None" = None, policy_id: str = "policy") -> None:
        check_id(policy_id, "a policy id")
        self._board = _Board() if root is None else _roots.get(root).by_policy.get(policy_id)
        self._closed = False

    def publish(self, state: "Mapping[str, Any]", version: int, meta: "Mapping[str, Any] | None" = None) -> None:
        """See :meth:`WeightPlane.publish <ding.data.exchange.WeightPlane.publish>`."""
        require_version(version)
        # Packed for its checks only: what a file could not carry is refused here too.
        pack(dict(state), "weights", meta or {})
        weights = Weights(version, copied_tree(dict(state)), json.loads(json.dumps(dict(meta or {}))))
        with self._board.changed:
            self._board.newest = weights
            self._board.changed.notify_all()

    def fetch(self, newer_than: int = -1, timeout_s: float = 0.0) -> "Weights | None":
        """See :meth:`WeightPlane.fetch <ding.data.exchange.WeightPlane.fetch>`."""
        board = self._board

        def found() -> bool:
            return board.newest is not None and board.newest.version != newer_than

        with board.changed:
            board.changed.wait_for(lambda: self._closed or found(), timeout_s)
            weights = board.newest if found() else None
        return None if weights is None else Weights(weights.version, copied_tree(weights.state), dict(weights.meta))

    def newest(self) -> "int | None":
        """See :meth:`WeightPlane.newest <ding.data.exchange.WeightPlane.newest>`."""
        weights = self._board.newest
        return None if weights is None else weights.version

    def hint(self) -> None:
        """See :meth:`WeightPlane.hint <ding.data.exchange.WeightPlane.hint>`; here publishing wakes the waiters."""

    def close(self) -> None:
        """See :meth:`WeightPlane.close <ding.data.exchange.WeightPlane.close>`; other planes of the policy go on."""
        with self._board.changed:
            self._closed = True
            self._board.changed.notify_all()


def forget_inproc_planes(root: str) -> None:
    """Forget the chunks and the policies of the in-process planes named ``root``: the run is over."""
    forget_shelf(root)
    _roots.forget(root)
