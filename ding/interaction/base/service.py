"""Common base of masters and slaves: addresses, tokens, the server, ``ping`` and ``shutdown``."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypedDict, TypeVar

from ding.interaction.base.addresses import get_host_ip, join_http_address
from ding.interaction.base.common import ControllableService, Counters
from ding.interaction.base.endpoint import Answer, Call, Checks, Endpoint
from ding.interaction.base.guard import TokenGuard
from ding.interaction.base.tls import TlsConfig
from ding.interaction.base.token import check_bind, resolve_run_token
from ding.interaction.base.transport import Client, ErrorOf, Server, Target, Transport
from ding.interaction.base.transports import resolve_transport
from ding.interaction.config import (
    AUTO_PORT_TRIES,
    DEFAULT_CHANNEL,
    DEFAULT_REQUEST_RETRIES,
    DEFAULT_REQUEST_RETRY_WAITING,
    LOCAL_HOST,
    MAX_BODY_BYTES,
)
from ding.interaction.errors import PortTakenError, ServiceClosed, UnreachableError
from ding.interaction.exception.response import (
    MasterErrorCode,
    ResponseException,
    SlaveErrorCode,
    get_slave_exception_by_error,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

log = logging.getLogger(__name__)

_WILDCARDS = ("", "0.0.0.0", "::")
_PING_TIMEOUT_S = 5.0


ValueT = TypeVar("ValueT")


class NetworkOptions(TypedDict, total=False):
    """Keyword arguments that masters and slaves share."""

    run_token: str | None
    transport: Transport | str | None
    tls: TlsConfig | None
    max_body_bytes: int | None


class ServiceOptions(NetworkOptions, total=False):
    """All arguments that masters and slaves share."""

    request_retries: int | None
    request_retry_waiting: float | None
    channel: int | None
    my_address: str | None


class HttpService(ControllableService):
    """A service with routes. It can be started only once.

    Subclasses add their routes to ``_endpoint``, and implement ``_begin`` and ``_stop``.

    Arguments:
        host, port: Address to listen on; default 127.0.0.1 and ``default_port``; port 0 takes any free one, ``'auto'``
            the next free one.
        request_retries, request_retry_waiting: how often a request without an answer is sent again (default 5), and
            after how many seconds (default 1). 0 is allowed.
        channel: Number that master and slave must share; default 0.
        my_address: Address under which others reach the service; by default the listening address.
        run_token: Token of the run; by default the environment variable ``DING_RUN_TOKEN``. Without one, only loopback
            is served.
        transport: ``'http'``, ``'inproc'`` or a ``Transport``.
        tls: Certificates, to use TLS.
        max_body_bytes: Maximum size of a task or result; default 16 MiB. Other messages: 1 MiB.

    Raises:
        UnsafeBindError: ``host`` is not a loopback address and there is no run token.
    """

    def __init__(
        self,
        host: str | None,
        port: int | str | None,
        default_port: int,
        codes: type[MasterErrorCode] | type[SlaveErrorCode],
        **options: Unpack[ServiceOptions],
    ) -> None:
        self._host = LOCAL_HOST if host is None else host
        self._configured_port = default_port if port is None else port
        self._default_port = default_port
        if isinstance(self._configured_port, str) and self._configured_port != "auto":
            raise ValueError(f"port must be a number, 0 for any free one, or 'auto', got {port!r}")
        self._retries = _given(options.get("request_retries"), DEFAULT_REQUEST_RETRIES)
        self._retry_waiting = _given(options.get("request_retry_waiting"), DEFAULT_REQUEST_RETRY_WAITING)
        self._channel = int(_given(options.get("channel"), DEFAULT_CHANNEL))
        self._configured_address = options.get("my_address")
        run_token = resolve_run_token(options.get("run_token"))
        self._transport = resolve_transport(options.get("transport"), options.get("tls"))
        if self._transport.exposed:
            check_bind(self._host, run_token)
        self._guard = TokenGuard(run_token)
        self._endpoint = Endpoint(self._guard, _given(options.get("max_body_bytes"), MAX_BODY_BYTES))
        self._checks = Checks(codes, self._channel)
        self._counters = Counters()
        self._server: Server | None = None
        self._life = threading.Lock()
        self._ended = threading.Event()
        self._endpoint.add("GET", "/ping", lambda _: Answer("PONG!"), self._checks.own)
        self._endpoint.add("DELETE", "/shutdown", self._handle_shutdown, self._checks.own)

    # Defined by subclasses.

    def _begin(self) -> None:
        """Start the threads; the server is already listening."""

    def _stop(self) -> None:
        """End the threads; the server still listens, but refuses every request."""

    # Life.

    @property
    def host(self) -> str:
        """Address that the service listens on."""
        return self._host

    @property
    def port(self) -> int:
        """Port that the service listens on.

        Raises:
            ServiceClosed: The port is chosen at the start of the service, which has not happened yet.
        """
        if self._server is not None:
            return self._server.port
        if isinstance(self._configured_port, int) and self._configured_port != 0:
            return self._configured_port
        raise ServiceClosed("the port is known once the service has started")

    @property
    def routes(self) -> tuple[tuple[str, str], ...]:
        """Method and path of all requests answered by the service."""
        return tuple(self._endpoint.routes)

    @property
    def my_address(self) -> str:
        """The address under which others reach the service."""
        if self._configured_address is not None:
            return self._configured_address
        host = get_host_ip() if self._host in _WILDCARDS else self._host
        return join_http_address(host, self.port, self._transport.https)

    def start(self) -> None:
        """Start listening and working.

        Raises:
            PortTakenError: The port is in use; the message names it.
            ServiceClosed: The service was started before.
        """
        with self._life:
            if self._server is not None or self._checks.shutting_down.is_set():
                raise ServiceClosed(f"a {type(self).__name__} is started once; make another one")
            self._server = self._listen()
        self._begin()

    def shutdown(self) -> None:
        """Request the end of the service without waiting. From now on requests are refused (code 101)."""
        with self._life:
            first = not self._checks.shutting_down.is_set()
            self._checks.shutting_down.set()
            if not first:
                return
            if self._server is None:
                self._ended.set()
                return
        threading.Thread(target=self._end, name="shutdown", daemon=True).start()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the service has ended, for up to ``timeout_s`` seconds.

        Raises:
            TimeoutError: The service has not ended in time.
        """
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"the {type(self).__name__} has not ended within {timeout_s} s")

    def ping(self) -> bool:
        """Return whether this service's own server answers at its address."""
        host = LOCAL_HOST if self._host in _WILDCARDS else self._host
        target = (host, self.port, self._transport.https, None)
        client = self._client_to(target, self._checks.self_token, get_slave_exception_by_error, retries=0)
        try:
            client.request("GET", "/ping", timeout_s=_PING_TIMEOUT_S)
        except (UnreachableError, ResponseException) as error:
            log.info("ping: %s", error)
            return False
        finally:
            client.close()
        return True

    def _listen(self) -> Server:
        if self._configured_port != "auto":
            return self._transport.serve(self._endpoint, self._host, int(self._configured_port))
        last = self._default_port + AUTO_PORT_TRIES - 1
        for port in range(self._default_port, last + 1):
            try:
                return self._transport.serve(self._endpoint, self._host, port)
            except PortTakenError:
                log.info("port %d is taken, trying the next one", port)
        raise PortTakenError(f"all ports from {self._default_port} to {last} are taken")

    def _end(self) -> None:
        try:
            self._stop()
        except Exception:
            log.exception("ending the %s", type(self).__name__)
        try:
            if self._server is not None:
                self._server.close()
        finally:
            self._ended.set()

    def _client_to(
        self, target: Target, token: str | None, error_of: ErrorOf, retries: int | None = None, name: str | None = None
    ) -> Client:
        """Return a client of another service, or of this one with its own token; ``name``: of an enrolled process."""
        headers = {"Channel": str(self._channel), **self._guard.headers(name)}
        if token is not None:
            headers["Token"] = token
        retries = self._retries if retries is None else retries
        return Client(self._transport.open(*target), headers, error_of, retries, self._retry_waiting)

    def _handle_shutdown(self, _call: Call) -> Answer:
        self.shutdown()
        return Answer("The service shuts down.")


def _given(value: ValueT | None, default: ValueT) -> ValueT:
    return default if value is None else value
