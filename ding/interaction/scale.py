"""Ask a running master to change the number of collectors."""

from ding.interaction.base.tls import TlsConfig
from ding.interaction.base.transport import Transport
from ding.interaction.messages import Json, Scale
from ding.interaction.status import master_client


def request_scale(
    address: str,
    collectors: int,
    run_token: str | None = None,
    timeout_s: float = 5.0,
    *,
    tls: TlsConfig | None = None,
    transport: Transport | str | None = None,
) -> Json:
    """Ask the run of the master at ``address`` to use this number of collectors (``POST /scale``).

    The arguments and errors are those of :func:`fetch_status`; a number out of range raises a ``ResponseException``.

    Returns:
        The result of the master's ``scale`` function.
    """
    with master_client(address, run_token, tls, transport) as client:
        return client.request("POST", "/scale", Scale(collectors), timeout_s=timeout_s).data
