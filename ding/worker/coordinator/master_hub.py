"""Connections of a coordinator to its workers, over ``ding.interaction``."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ding.interaction import Connection, EnrolRefuse, InteractionError, Master, TaskStatus
from ding.interaction.base.addresses import split_http_address
from ding.interaction.messages import Json
from ding.utils import did_you_mean
from ding.worker.coordinator.errors import WorkerLost, WorkerTaskFailed
from ding.worker.coordinator.protocols import WorkerLink
from ding.worker.coordinator.tasks.records import Holder

log = logging.getLogger(__name__)

_LONGEST_ERROR = 4000
_ROLES = ("collector", "learner")
# Keys of the coordinator's config that are passed to the master unchanged.
_MASTER_KEYS = (
    "heartbeat_tolerance", "heartbeat_check_span", "request_retries", "request_retry_waiting", "channel", "my_address",
    "run_token", "transport", "tls", "max_body_bytes", "status",
    "scale",
)  # fmt: skip


class MasterLink:
    """:class:`~ding.worker.coordinator.protocols.WorkerLink` over a connection of a master."""

    def __init__(self, connection: Connection, name: str, role: str) -> None:
        self.name = name
        self.role = role
        self.holder = Holder(name, connection.incarnation or "unknown")
        self._connection = connection

    @property
    def alive(self) -> bool:
        """Whether the connection is open."""
        return self._connection.is_connected

    def call(self, data: Mapping[str, Any], timeout_s: float) -> Json:
        """See ``WorkerLink.call``."""
        try:
            task = self._connection.new_task(data, deadline_s=timeout_s)
            task.start().join(timeout_s + 1.0)
        except (InteractionError, TimeoutError) as error:
            raise WorkerLost(f"no answer of {self.name} to {data.get('name')}: {error}") from error
        if task.status == TaskStatus.COMPLETED:
            return task.result
        if task.error is not None:
            raise WorkerLost(f"no answer of {self.name} to {data.get('name')}: {task.error}") from task.error
        raise WorkerTaskFailed(
            f"{self.name} failed at {data.get('name')}: {_describe_failure(task.result, task.message)}", task.result
        )

    def close(self) -> None:
        """Disconnect."""
        try:
            self._connection.close()
        except InteractionError as error:
            log.info("%s did not take the disconnection: %s", self.name, error)

    def is_over(self, connection: Connection) -> bool:
        """Return whether this link uses the given connection."""
        return connection is self._connection


class MasterHub(Master):
    """:class:`~ding.worker.coordinator.protocols.WorkerHub` as a master that connects back to workers that enrol.

    Args:
        cfg: Config of the coordinator: ``host``, ``port``, ``lease_s`` and further arguments of ``Master``.
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        options = {key: cfg[key] for key in _MASTER_KEYS if cfg.get(key) is not None}
        options.setdefault("heartbeat_tolerance", float(cfg.get("lease_s", 10.0)))
        super().__init__(cfg.get("host"), cfg.get("port"), **options)
        self._on_connected: Callable[[WorkerLink], None] | None = None
        self._on_disconnected: Callable[[WorkerLink], None] | None = None
        self._on_left: Callable[[WorkerLink], None] | None = None
        self._links: dict[str, MasterLink] = {}
        self._links_lock = threading.Lock()

    def start(  # type: ignore[override]
        self,
        connected: Callable[[WorkerLink], None],
        disconnected: Callable[[WorkerLink], None],
        left: Callable[[WorkerLink], None] | None = None,
    ) -> None:
        """See ``WorkerHub.start``."""
        self._on_connected, self._on_disconnected, self._on_left = connected, disconnected, left
        super().start()

    def connect(self, name: str, role: str, host: str, port: int) -> MasterLink:
        """See ``WorkerHub.connect``."""
        return self._connect(name, role, host, port, False, None)

    def _connect(self, name: str, role: str, host: str, port: int, https: bool, incarnation: str | None) -> MasterLink:
        try:
            connection = self.new_connection(name, host, port, https, incarnation=incarnation)
            connection.connect()
        except (InteractionError, KeyError) as error:
            raise WorkerLost(f"{name} at {host}:{port} cannot be connected: {error}") from error
        link = MasterLink(connection, name, role)
        with self._links_lock:
            # A link that was lost at once may have been replaced already.
            if link.alive:
                self._links[name] = link
        return link

    def _before_enrol(self, name: str, role: str, address: str, incarnation: str, resource: dict[str, Any]) -> None:
        if role not in _ROLES:
            raise EnrolRefuse(f"unknown role {role!r}.{did_you_mean(role, _ROLES)}")

    def _enrolled(self, name: str, role: str, address: str, incarnation: str, resource: dict[str, Any]) -> None:
        if self._on_connected is None:
            return
        try:
            host, port, https, _ = split_http_address(address)
            link = self._connect(name, role, host, port, https, incarnation)
        except (WorkerLost, ValueError) as error:
            log.info("%s enrolled, but: %s", name, error)
            return
        self._on_connected(link)

    def _left(self, connection: Connection) -> None:
        link = self._links.get(connection.name)
        if link is not None and link.is_over(connection) and self._on_left is not None:
            self._on_left(link)

    def _lost_connection(self, connection: Connection, reason: str) -> None:
        link = self._links.get(connection.name)
        if link is not None and link.is_over(connection) and self._on_disconnected is not None:
            self._on_disconnected(link)


def _describe_failure(result: object, message: str) -> str:
    """Return the reason of a failure: the traceback of the worker if it sent one."""
    if isinstance(result, Mapping):
        exception = result.get("exception")
        if isinstance(exception, Mapping) and exception.get("traceback"):
            return str(exception["traceback"])[-_LONGEST_ERROR:]
        for key in ("traceback", "message"):
            if result.get(key):
                return str(result[key])[-_LONGEST_ERROR:]
    return message or "the worker gave no reason"
