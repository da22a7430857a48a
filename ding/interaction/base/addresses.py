"""Addresses of services."""

import socket
from urllib.parse import urlsplit

from ding.interaction.config import LOCAL_HOST


def get_host_ip() -> str:
    """Return the address from which this host reaches others, or loopback where there is no route. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation: only the choice of the route matters
            return str(probe.getsockname()[0])
        except OSError:
            return LOCAL_HOST


def split_http_address(address: str, default_port: int | None = None) -> tuple[str, int, bool, str]:
    """``'https://1.2.3.4:8787/p'`` -> ``('1.2.3.4', 8787, True, '/p')``: host, port, whether https, path.

    The scheme defaults to http, the port to ``default_port``, else 80 or 443.

    Raises:
        ValueError: The scheme is unknown, the host is missing, or the port is invalid.
    """
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{address!r}: expected an address with http or https, got {parts.scheme!r}")
    if not parts.hostname:
        raise ValueError(f"{address!r}: expected a host")
    https = parts.scheme == "https"
    port = parts.port
    if port is None:
        port = default_port if default_port is not None else (443 if https else 80)
    return parts.hostname, port, https, parts.path


def join_http_address(host: str, port: int, https: bool = False, path: str | None = None) -> str:
    """Return the address of ``host`` and ``port``; an IPv6 host is put in brackets."""
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    suffix = "" if not path or path == "/" else "/" + path.strip("/")
    return f"{'https' if https else 'http'}://{name}:{port}{suffix}"
