"""Transports by their names in a config."""

from ding.interaction.base.inproc import default_network
from ding.interaction.base.tls import TlsConfig
from ding.interaction.base.transport import Transport


def resolve_transport(transport: Transport | str | None, tls: TlsConfig | None) -> Transport:
    """Return a transport object for ``None`` or ``'http'``, ``'inproc'``, or a transport object.

    Raises:
        ValueError: The name is unknown, or ``tls`` is used without HTTP.
    """
    if transport is None or transport == "http":
        from ding.interaction.base.http import HttpTransport  # start-up time: brings requests

        return HttpTransport(tls)
    if tls is not None:
        raise ValueError("tls can be given for the transport 'http' only")
    if isinstance(transport, Transport):
        return transport
    if transport == "inproc":
        return default_network()
    raise ValueError(f"transport must be 'http', 'inproc' or a Transport, got {transport!r}")
