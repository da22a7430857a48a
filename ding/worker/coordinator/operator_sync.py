"""Connections to workers with known addresses: from the config, or from an operator that starts and stops them."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ding.worker.coordinator.errors import OperatorError, WorkersMissing
from ding.worker.coordinator.operator_server import OperatorServer, server_of
from ding.worker.coordinator.protocols import CoordinatorCallbacks

_LOOK_EVERY_S = 1.0
_CONNECT_PAUSE_S = 0.2


class Connects(Protocol):
    """Object with connections to workers: a ``CommCoordinator`` or a learner aggregator."""

    def connect_worker(self, name: str, role: str, host: str, port: int) -> bool:
        """Connect to a worker; return whether it answered."""

    def drop_worker(self, name: str, role: str, reason: str) -> None:
        """Remove a worker that will not return."""


def connect_until(
    connects: Connects, worker: tuple[str, str, str, int], closing: threading.Event, deadline: float
) -> bool:
    """Retry to connect to a worker (name, role, host, port) until ``deadline`` (of ``time.monotonic()``)."""
    while not closing.is_set():
        if connects.connect_worker(*worker):
            return True
        if time.monotonic() >= deadline:
            return False
        closing.wait(_CONNECT_PAUSE_S)
    return False


class OperatorSync:
    """Requests workers from the operator, connects to those it lists, and drops those it no longer lists.

    Args:
        cfg: ``system_addr`` (``host:port`` or a URL), ``api_version``, ``init_replicas_request``,
            ``collector_target_num`` and ``learner_target_num``.
        comm: Connects to and drops workers.
        callbacks: Notified when collectors are added or removed.
        logger: Text logger.
        server: Client of the operator; by default created from ``cfg``.
        roles: Roles of the required workers; other workers of the list are ignored.
    """

    def __init__(
        self,
        cfg: Mapping[str, Any],
        comm: Connects,
        callbacks: CoordinatorCallbacks,
        logger: logging.Logger,
        server: OperatorServer | None = None,
        roles: Sequence[str] = ("learner", "collector"),
    ) -> None:
        self._cfg = cfg
        self._comm = comm
        self._callbacks = callbacks
        self._logger = logger
        self._server = server or server_of(str(cfg["system_addr"]), str(cfg.get("api_version", "v1alpha1")))
        self._known: dict[str, set[str]] = {role: set() for role in roles}
        self._failed: dict[str, set[str]] = {role: set() for role in roles}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operator-sync", daemon=True)

    def start(self, deadline: float) -> None:
        """Request workers, and wait for the required number.

        Args:
            deadline: Time limit, of ``time.monotonic()``.

        Raises:
            WorkersMissing: There were too few workers at the deadline.
        """
        request = self._cfg.get("init_replicas_request")
        while request and not self._try(lambda: self._server.post_replicas(request)):
            if time.monotonic() >= deadline or self._closing.wait(_LOOK_EVERY_S):
                raise WorkersMissing("the operator took no request for workers")
        while True:
            self._try(self.look)
            if self._enough():
                break
            if time.monotonic() >= deadline or self._closing.wait(_LOOK_EVERY_S):
                found = {role: len(names) for role, names in self._known.items()}
                raise WorkersMissing(f"the operator gave too few workers: {found}, wanted {self._targets()}")
        self._thread.start()

    def close(self) -> None:
        """Stop, after a running update has finished."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(2 * _LOOK_EVERY_S)
        self._server.close()

    def _targets(self) -> dict[str, int]:
        return {role: int(self._cfg.get(f"{role}_target_num", 0)) for role in self._known}

    def _enough(self) -> bool:
        return all(len(self._known[role]) >= target for role, target in self._targets().items())

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_EVERY_S):
            self._try(self.look)

    def _try(self, action: Callable[[], Any]) -> bool:
        try:
            action()
        except OperatorError as error:
            self._logger.warning("the operator cannot be asked: %s", error)
            return False
        return True

    def look(self) -> None:
        """Report failed workers, and synchronise with the operator's list.

        Raises:
            OperatorError: The operator cannot be reached.
        """
        if any(self._failed.values()):
            self._server.post_replicas_failed(
                **{f"{role}s": [_pod_of(name) for name in sorted(names)] for role, names in self._failed.items()}
            )
            for names in self._failed.values():
                names.clear()
        answer = self._server.get_replicas()
        if not answer.success:
            raise OperatorError(f"code {answer.code}: {answer.message}")
        for role, names in self._lists(answer.data).items():
            self._follow(role, names)

    def _lists(self, data: object) -> dict[str, set[str]]:
        """Return the names of the workers by role."""
        if data is not None and not isinstance(data, dict):
            raise OperatorError(f"expected lists of workers, got {type(data).__name__}")
        lists = {}
        for role in self._known:
            names = (data or {}).get(f"{role}s") or []
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise OperatorError(f"the {role}s must be a list of texts")
            lists[role] = set(names)
        return lists

    def _follow(self, role: str, names: set[str]) -> None:
        for name in sorted(names - self._known[role]):
            host, _, port = name.rpartition(":")
            if not host or not port.isdecimal() or not self._comm.connect_worker(name, role, host, int(port)):
                self._failed[role].add(name)
                continue
            self._known[role].add(name)
            if role == "collector":
                self._callbacks.deal_with_increase_collector()
        for name in sorted(self._known[role] - names):
            self._known[role].discard(name)
            self._comm.drop_worker(name, role, "the operator ended it")
            if role == "collector":
                self._callbacks.deal_with_decrease_collector()


def _pod_of(name: str) -> str:
    """Return the pod name of ``pod.service.namespace:port``: all labels of the host but the last."""
    labels = name.rpartition(":")[0].split(".")
    return ".".join(labels[:-1]) if len(labels) > 1 else labels[0]
