"""What a slave answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ding.interaction.base.app import ResponsibleException
from ding.interaction.base.checks import Checks
from ding.interaction.base.common import Counters
from ding.interaction.base.endpoint import Answer, Call, Endpoint
from ding.interaction.base.token import same_token
from ding.interaction.base.transport import Client
from ding.interaction.exception.protocol import ProtocolErrorCode
from ding.interaction.exception.slave import SlaveErrorCode
from ding.interaction.messages import Connect, Disconnect, NewTask
from ding.interaction.slave._link import Link, LinkState
from ding.interaction.slave._slots import Busy, TaskSlots
from ding.interaction.slave.action import ConnectionRefuse, DisconnectionRefuse, TaskRefuse


class SlaveHooks:
    """What a slave may refuse; called by threads of the server, and should not wait."""

    def _before_connection(self, data: Any) -> None:
        """A master asks to connect; raise ``ConnectionRefuse`` to refuse."""

    def _before_disconnection(self, data: Any) -> None:
        """The master asks to disconnect; raise ``DisconnectionRefuse`` to refuse."""

    def _before_task(self, task: Any) -> None:
        """A task arrived; raise ``TaskRefuse`` (or ``TaskInvalid``) to refuse it."""


class SlaveRoutes:
    """The handlers of a slave."""

    def __init__(
        self,
        hooks: SlaveHooks,
        checks: Checks,
        state: LinkState,
        slots: TaskSlots,
        counters: Counters,
        client_to: Callable[[str, str], Client],
        incarnation: str,
    ) -> None:
        self._hooks = hooks
        self._checks = checks
        self._state = state
        self._slots = slots
        self._counters = counters
        self._client_to = client_to
        self._incarnation = incarnation

    def add_to(self, endpoint: Endpoint) -> None:
        """Serve the handlers."""
        endpoint.add("POST", "/connect", self._handle_connect)
        endpoint.add("DELETE", "/disconnect", self._handle_disconnect)
        endpoint.add("POST", "/task/new", self._handle_task)

    def _link_of(self, call: Call) -> Link:
        token = self._checks.peer(call)
        link = self._state.current
        if link is None:
            raise _error(SlaveErrorCode.SLAVE_NOT_CONNECTED, "No master is connected.", 400)
        if not same_token(token, link.token):
            raise _error(SlaveErrorCode.MASTER_TOKEN_INVALID, "The token is not that of the connected master.", 403)
        return link

    def _handle_connect(self, call: Call) -> Answer:
        token = self._checks.peer(call)
        welcome = Answer("The master is connected.", {"incarnation": self._incarnation})
        link = self._state.current
        if link is not None:
            if same_token(token, link.token):  # sent again because the answer was lost
                return welcome
            raise _error(SlaveErrorCode.SLAVE_ALREADY_CONNECTED, "Another connection holds the slave.", 400)
        body = call.body(Connect)
        address = body.master.address
        try:
            client = self._client_to(address, token)
            self._hooks._before_connection(body.data)
        except ConnectionRefuse as error:
            raise _error(SlaveErrorCode.SLAVE_CONNECTION_REFUSED, error.message, 403, error.data) from error
        except ValueError as error:
            text = "The address of the master is not valid."
            raise _error(ProtocolErrorCode.BODY_INVALID, text, 400) from error
        if not self._state.set_if_free(lambda: Link(token, address, client)):
            raise _error(SlaveErrorCode.SLAVE_ALREADY_CONNECTED, "Another connection holds the slave.", 400)
        self._counters.add("connections")
        return welcome

    def _handle_disconnect(self, call: Call) -> Answer:
        link = self._link_of(call)
        body = call.body(Disconnect)
        try:
            self._hooks._before_disconnection(body.data)
        except DisconnectionRefuse as error:
            raise _error(SlaveErrorCode.SLAVE_DISCONNECTION_REFUSED, error.message, 403, error.data) from error
        self._state.drop(link)
        return Answer("The master is disconnected.")

    def _handle_task(self, call: Call) -> Answer:
        link = self._link_of(call)
        body = call.body(NewTask)
        task_id, data = body.task.id, body.data
        try:
            if not self._slots.seen(task_id):
                self._check_task(data)
            new = self._slots.take(task_id, data, link)
        except Busy as error:
            self._counters.add("tasks_busy")
            raise _error(SlaveErrorCode.TASK_ALREADY_EXIST, "The slave runs as many tasks as it may.", 400) from error
        self._counters.add("tasks_accepted" if new else "tasks_duplicate")
        return Answer("The task is accepted." if new else "The task was accepted before.")

    def _check_task(self, data: object) -> None:
        if _names_imports(data):
            self._counters.add("tasks_refused")
            raise _error(ProtocolErrorCode.BODY_INVALID, "import_names is not taken from messages.", 400)
        if not self._slots.has_free():
            raise Busy
        try:
            self._hooks._before_task(data)
        except TaskRefuse as error:
            self._counters.add("tasks_refused")
            raise _error(SlaveErrorCode.TASK_REFUSED, error.message, error.status_code, error.data) from error


def _error(code: int, message: str, status: int, data: object = None) -> ResponsibleException:
    return ResponsibleException(code, message, data, status)


def _names_imports(value: object) -> bool:
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
