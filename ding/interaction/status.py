"""Ask a running master for its status."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from ding.interaction.base.addresses import split_http_address
from ding.interaction.base.guard import TokenGuard
from ding.interaction.base.tls import TlsConfig
from ding.interaction.base.token import resolve_run_token
from ding.interaction.base.transport import Client, Transport
from ding.interaction.base.transports import resolve_transport
from ding.interaction.config import DEFAULT_MASTER_PORT
from ding.interaction.exception.response import get_master_exception_by_error
from ding.interaction.messages import Json


def fetch_status(
    address: str,
    run_token: str | None = None,
    timeout_s: float = 5.0,
    *,
    tls: TlsConfig | None = None,
    transport: Transport | str | None = None,
) -> Json:
    """Return the result of the ``status`` function of the master at ``address`` (``GET /status``).

    Args:
        address: ``http://host:port``.
        run_token: Token of the run; by default the environment variable ``DING_RUN_TOKEN``.

    Raises:
        ResponseException: The token is missing or wrong, or the master is shutting down.
        UnreachableError: No answer arrived within ``timeout_s`` seconds.
        ValueError: The address is not valid.
    """
    with master_client(address, run_token, tls, transport) as client:
        return client.request("GET", "/status", timeout_s=timeout_s).data


@contextmanager
def master_client(
    address: str, run_token: str | None, tls: TlsConfig | None, transport: Transport | str | None
) -> Iterator[Client]:
    """Return a client for single requests to the master at ``address``; arguments as for :func:`fetch_status`."""
    host, port, https, path = split_http_address(address, DEFAULT_MASTER_PORT)
    headers = TokenGuard(resolve_run_token(run_token)).headers()
    wire = resolve_transport(transport, tls).open(host, port, https, path)
    with closing(Client(wire, headers, get_master_exception_by_error, retries=0)) as client:
        yield client
