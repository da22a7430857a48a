"""The weight plane in the memory of one process: for tests, debugging and notebooks."""

import json
import threading
from collections.abc import Mapping
from typing import Any

from ding.data.exchange._frame import pack
from ding.data.exchange.file_weight_plane import require_version
from ding.data.exchange.inproc_data_plane import copied_tree
from ding.data.exchange.protocols import Weights


class InprocWeightPlane:
    """A :class:`~ding.data.exchange.WeightPlane` that holds the newest version of one policy."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._newest: Weights | None = None
        self._closed = False

    def publish(self, state: "Mapping[str, Any]", version: int, meta: "Mapping[str, Any] | None" = None) -> None:
        """See :meth:`WeightPlane.publish <ding.data.exchange.WeightPlane.publish>`."""
        require_version(version)
        # Packed for its checks only: what a file could not carry is refused here too.
        pack(dict(state), "weights", meta or {})
        weights = Weights(version, copied_tree(dict(state)), json.loads(json.dumps(dict(meta or {}))))
        with self._changed:
            self._newest = weights
            self._changed.notify_all()

    def fetch(self, newer_than: int = -1, timeout_s: float = 0.0) -> "Weights | None":
        """See :meth:`WeightPlane.fetch <ding.data.exchange.WeightPlane.fetch>`."""

        def found() -> bool:
            return self._newest is not None and self._newest.version != newer_than

        with self._changed:
            self._changed.wait_for(lambda: self._closed or found(), timeout_s)
            weights = self._newest if found() else None
        return None if weights is None else Weights(weights.version, copied_tree(weights.state), dict(weights.meta))

    def newest(self) -> "int | None":
        """See :meth:`WeightPlane.newest <ding.data.exchange.WeightPlane.newest>`."""
        weights = self._newest
        return None if weights is None else weights.version

    def hint(self) -> None:
        """See :meth:`WeightPlane.hint <ding.data.exchange.WeightPlane.hint>`; here publishing wakes the waiters."""

    def close(self) -> None:
        """See :meth:`WeightPlane.close <ding.data.exchange.WeightPlane.close>`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
