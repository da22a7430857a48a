"""What holds for every test: no network but loopback, and no verdict that depends on how busy the machine is."""

import ipaddress
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A deadline per example, or a limit of the time that drawing may take, would fail on a busy machine.
settings.register_profile("ding", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ding")


class NetworkAccessError(AssertionError):
    """A test tried to reach something else than this machine."""


def _refuse_remote(sock: socket.socket, address: Any) -> None:
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return
    host = address[0]
    if host in ("localhost", ""):
        return
    try:
        local = ipaddress.ip_address(host.partition("%")[0]).is_loopback or host in ("0.0.0.0", "::")
    except ValueError:
        local = False  # a name that would have to be looked up
    if not local:
        raise NetworkAccessError(f"tests reach nothing but loopback; this one connects to {host!r}")


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    """Refuse connections and datagrams of this process, and of what it forks, to other machines."""
    plain = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}

    def guarded(name: str) -> Any:
        def call(self: socket.socket, *args: Any) -> Any:
            # To connect a datagram socket sends nothing: it asks which of the own addresses has the route.
            if name == "sendto" or self.type != socket.SOCK_DGRAM:
                _refuse_remote(self, args[-1])
            return plain[name](self, *args)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in plain:
            patch.setattr(socket.socket, name, guarded(name))
        yield
