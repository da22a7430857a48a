"""What a slave answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ding.interaction.base.addresses import split_http_address
from ding.interaction.base.app import ResponsibleException
from ding.interaction.base.endpoint import Answer, Call
from ding.interaction.base.service import HttpService
from ding.interaction.base.token import same_token
from ding.interaction.base.transport import Client
from ding.interaction.config import DEFAULT_MASTER_PORT
from ding.interaction.exception.master import get_master_exception_by_error
from ding.interaction.exception.protocol import ProtocolErrorCode
from ding.interaction.exception.slave import SlaveErrorCode
from ding.interaction.messages import Connect, Disconnect, NewTask
from ding.interaction.slave._link import Link, LinkState
from ding.interaction.slave._slots import Busy, TaskSlots
from ding.interaction.slave.action import ConnectionRefuse, DisconnectionRefuse, TaskRefuse


class SlaveRoutes(HttpService):
    """The handlers, and the hooks that they call."""

    _state: LinkState
    _slots: TaskSlots
    _incarnation: str

    def _before_connection(self, data: Any) -> None:
        """A master asks to connect; raise ``ConnectionRefuse`` to refuse."""

    def _before_disconnection(self, data: Any) -> None:
        """The master asks to disconnect; raise ``DisconnectionRefuse`` to refuse."""

    def _before_task(self, task: Any) -> None:
        """A task came; raise ``TaskRefuse`` (or ``TaskInvalid``) to refuse it."""

    def _routes(self) -> list[tuple[str, str, Callable[[Call], Answer]]]:
        return [
            ("POST", "/connect", self._handle_connect),
            ("DELETE", "/disconnect", self._handle_disconnect),
            ("POST", "/task/new", self._handle_task),
        ]

    def _token_of(self, call: Call) -> str:
        self._check_alive()
        self._check_channel(call)
        token = call.header("Token")
        if not token:
            raise _error(SlaveErrorCode.MASTER_TOKEN_NOT_FOUND, "The request has no token.", 400)
        return token

    def _link_of(self, call: Call) -> Link:
        token = self._token_of(call)
        link = self._state.current
        if link is None:
            raise _error(SlaveErrorCode.SLAVE_NOT_CONNECTED, "No master is connected.", 400)
        if not same_token(token, link.token):
            raise _error(SlaveErrorCode.MASTER_TOKEN_INVALID, "The token is not that of the connected master.", 403)
        return link

    def _handle_connect(self, call: Call) -> Answer:
        token = self._token_of(call)
        welcome = Answer("The master is connected.", {"incarnation": self._incarnation})
        link = self._state.current
        if link is not None:
            if same_token(token, link.token):  # sent again because the answer was lost
                return welcome
            raise _error(SlaveErrorCode.SLAVE_ALREADY_CONNECTED, "Another connection holds the slave.", 400)
        body = call.body(Connect)
        address = body.master.address
        client = self._master_client(address, token)
        try:
            self._before_connection(body.data)
        except ConnectionRefuse as error:
            raise _error(SlaveErrorCode.SLAVE_CONNECTION_REFUSED, error.message, 403, error.data) from error
        if not self._state.set_if_free(lambda: Link(token, address, client)):
            raise _error(SlaveErrorCode.SLAVE_ALREADY_CONNECTED, "Another connection holds the slave.", 400)
        self._counters.add("connections")
        return welcome

    def _handle_disconnect(self, call: Call) -> Answer:
        link = self._link_of(call)
        body = call.body(Disconnect)
        try:
            self._before_disconnection(body.data)
        except DisconnectionRefuse as error:
            raise _error(SlaveErrorCode.SLAVE_DISCONNECTION_REFUSED, error.message, 403, error.data) from error
        self._state.drop(link)
        return Answer("The master is disconnected.")

    def _handle_task(self, call: Call) -> Answer:
        link = self._link_of(call)
        body = call.body(NewTask)
        task_id, data = body.task.id, body.data
        if not self._slots.seen(task_id):
            self._check_task(data)
        try:
            new = self._slots.take(task_id, data, link)
        except Busy as error:
            self._counters.add("tasks_busy")
            raise _error(SlaveErrorCode.TASK_ALREADY_EXIST, "The slave runs as many tasks as it may.", 400) from error
        self._counters.add("tasks_accepted" if new else "tasks_duplicate")
        return Answer("The task is accepted." if new else "The task was accepted before.")

    def _check_task(self, data: Any) -> None:
        try:
            if _names_imports(data):
                raise _error(ProtocolErrorCode.BODY_INVALID, "import_names is not taken from messages.", 400)
            if not self._slots.has_room():
                raise Busy
            self._before_task(data)
        except TaskRefuse as error:
            self._counters.add("tasks_refused")
            raise _error(SlaveErrorCode.TASK_REFUSED, error.message, error.status_code, error.data) from error
        except ResponsibleException:
            self._counters.add("tasks_refused")
            raise
        except Busy as error:
            self._counters.add("tasks_busy")
            raise _error(SlaveErrorCode.TASK_ALREADY_EXIST, "The slave runs as many tasks as it may.", 400) from error

    def _master_client(self, address: str, token: str) -> Client:
        try:
            return self._client_to(address, {"Token": token, **self._guard.headers()}, self._retries)
        except ValueError as error:
            text = "The address of the master is not valid."
            raise _error(ProtocolErrorCode.BODY_INVALID, text, 400) from error

    def _client_to(self, address: str, headers: Mapping[str, str], retries: int) -> Client:
        host, port, https, path = split_http_address(address, DEFAULT_MASTER_PORT)
        if self._transport.https and not https:
            raise ValueError(f"{address!r}: the token must not be sent without TLS")
        all_headers = {"Channel": str(self._channel), **headers}
        wire = self._transport.open(host, port, https, path)
        return Client(wire, lambda: all_headers, get_master_exception_by_error, retries, self._retry_waiting)


def _error(code: int, message: str, status: int, data: Any = None) -> ResponsibleException:
    return ResponsibleException(code, message, data, status)


def _names_imports(value: Any) -> bool:
    """Whether ``import_names`` with something in it stands anywhere in a message."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if node.get("import_names"):
                return True
            stack.extend(child for child in node.values() if isinstance(child, (dict, list)))
        elif isinstance(node, list):
            stack.extend(child for child in node if isinstance(child, (dict, list)))
    return False
