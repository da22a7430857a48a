"""A connection to one slave with its own master, as used by DI-engine scripts."""

from collections.abc import Callable
from enum import IntEnum, unique
from typing import Any

from ding.interaction.base.common import ControllableContext
from ding.interaction.base.token import is_loopback
from ding.interaction.config import GLOBAL_HOST, LOCAL_HOST
from ding.interaction.master.connection import Connection, Task
from ding.interaction.master.master import Master


@unique
class TaskResultType(IntEnum):
    """Outcome of a task as reported by a slave."""

    COMPLETED = 1
    FAILED = 2


class SlaveConnection(ControllableContext):
    """Connect to a slave and assign tasks to it; ``with`` connects and disconnects.

    Its master listens on a free port of this machine while it is connected. Override the hooks: ``_before_*`` return
    the data that is sent, ``_after_*`` get the answer, and what they return is the result of the method; ``_error_*``
    get the error, and raise it by default.

    Args:
        host, port: of the slave; default port 7236.
        https: whether to talk over TLS.
        channel: a number that master and slave must agree on.
        my_address: the address under which the slave reaches this process; default: what the master listens on.
        token: the token of the run; default: the environment variable ``DING_RUN_TOKEN``.
        request_retries, request_retry_waiting: how often a request without an answer is sent again, and after how many
            seconds.
    """

    def __init__(
        self,
        host: str,
        port: int | None = None,
        https: bool = False,
        channel: int | None = None,
        my_address: str | None = None,
        token: str | None = None,
        request_retries: int | None = None,
        request_retry_waiting: float | None = None,
    ) -> None:
        #: Address of the slave.
        self.host = host
        self._target = (host, port, https)
        self._options: dict[str, Any] = {
            "channel": channel,
            "my_address": my_address,
            "run_token": token,
            "request_retries": request_retries,
            "request_retry_waiting": request_retry_waiting,
        }
        self._master: Master | None = None
        self._connection: Connection | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the connection is established."""
        return self._connection is not None and self._connection.is_connected

    def connect(self) -> object:
        """Connect; return the result of ``_after_connect``.

        Raises:
            ResponseException, UnreachableError: The slave refuses or does not answer.
            ValueError: Already connected.
        """
        if self.is_connected:
            raise ValueError("the slave is connected already")
        master = self._master = _OwnMaster(self, self._options)
        master.start()
        self._connection = master.new_connection("slave", *self._target)
        try:
            return self._connection.connect()
        finally:
            self._end_master()

    def disconnect(self) -> object:
        """Disconnect; unfinished tasks fail. Returns the result of ``_after_disconnect``.

        Raises:
            ResponseException, UnreachableError: The slave refuses or does not answer.
            ValueError: Not connected.
        """
        try:
            return self._standing().disconnect()
        finally:
            self._end_master()

    def new_task(self, data: object = None) -> Task:
        """Create a task for the slave; ``start`` sends it.

        Raises:
            ValueError: Not connected.
        """
        return self._standing().new_task({} if data is None else data)

    def start(self) -> None:
        """Same as :meth:`connect`."""
        self.connect()

    def close(self) -> None:
        """Disconnect if it is connected."""
        if self.is_connected:
            self.disconnect()

    def _standing(self) -> Connection:
        if self._connection is None or not self._connection.is_connected:
            raise ValueError("the slave is not connected")
        return self._connection

    def _end_master(self) -> None:
        """End the master unless the connection is established."""
        if not self.is_connected and self._master is not None:
            self._master.close()
            self._master = None

    # Hooks.

    def _before_connect(self) -> object:
        return {}

    def _after_connect(self, status_code: int, success: bool, code: int, message: str, data: object) -> object:
        return None

    def _error_connect(self, error: Exception) -> object:
        raise error

    def _before_disconnect(self) -> object:
        return {}

    def _after_disconnect(self, status_code: int, success: bool, code: int, message: str, data: object) -> object:
        return None

    def _error_disconnect(self, error: Exception) -> object:
        raise error

    def _before_new_task(self, data: object = None) -> object:
        return data

    def _after_new_task(self, status_code: int, success: bool, code: int, message: str, data: object) -> object:
        return None

    def _error_new_task(self, error: Exception) -> object:
        raise error


class _OwnMaster(Master):
    """Forward the hooks of the master to the connection."""

    def __init__(self, owner: SlaveConnection, options: dict[str, Any]) -> None:
        # Listens on this machine only, if the slave runs on it too.
        host = LOCAL_HOST if is_loopback(owner.host) else GLOBAL_HOST
        super().__init__(host, port=0, **options)
        self._owner = owner

    def _before_connect(self, connection: Connection) -> object:
        return self._owner._before_connect()

    def _after_connect(self, connection: Connection, *values: Any) -> object:
        return self._owner._after_connect(*values)

    def _error_connect(self, connection: Connection, error: Exception) -> object:
        return self._owner._error_connect(error)

    def _before_disconnect(self, connection: Connection) -> object:
        return self._owner._before_disconnect()

    def _after_disconnect(self, connection: Connection, *values: Any) -> object:
        return self._owner._after_disconnect(*values)

    def _error_disconnect(self, connection: Connection, error: Exception) -> object:
        return self._owner._error_disconnect(error)

    def _before_new_task(self, connection: Connection, task: Any) -> object:
        return self._owner._before_new_task(task)

    def _after_new_task(self, connection: Connection, task: object, *values: Any) -> object:
        return self._owner._after_new_task(*values)

    def _error_new_task(self, connection: Connection, task: object, error: Exception) -> object:
        return self._owner._error_new_task(error)


class SlaveConnectionProxy:
    """A connection that calls functions after it has connected or disconnected.

    Args:
        connection: The wrapped connection.
        after_connect, after_disconnect: called with ``connection=`` this proxy.
    """

    def __init__(
        self,
        connection: SlaveConnection,
        after_connect: Callable[..., Any] | None = None,
        after_disconnect: Callable[..., Any] | None = None,
    ) -> None:
        self._connection = connection
        self._after = (after_connect, after_disconnect)

    @property
    def is_connected(self) -> bool:
        """Whether the connection is established."""
        return self._connection.is_connected

    def connect(self) -> object:
        """See :meth:`SlaveConnection.connect`."""
        result = self._connection.connect()
        if self._after[0] is not None:
            self._after[0](connection=self)
        return result

    def disconnect(self) -> object:
        """See :meth:`SlaveConnection.disconnect`."""
        result = self._connection.disconnect()
        if self._after[1] is not None:
            self._after[1](connection=self)
        return result

    def new_task(self, data: object = None) -> Task:
        """See :meth:`SlaveConnection.new_task`."""
        return self._connection.new_task(data)

    def start(self) -> None:
        """Same as :meth:`connect`."""
        self.connect()

    def close(self) -> None:
        """Disconnect if it is connected."""
        if self.is_connected:
            self.disconnect()

    def __enter__(self) -> "SlaveConnectionProxy":
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
