"""The guard of `tests/conftest.py`: loopback works, everything else is refused before a packet leaves."""

import socket

import pytest


@pytest.mark.parametrize("host", ["192.0.2.1", "example.invalid"])
@pytest.mark.parametrize("call", ["connect", "connect_ex"])
def test_other_machines_are_refused(host, call):
    with socket.socket() as sock, pytest.raises(AssertionError, match=f"nothing but loopback.*{host}"):
        getattr(sock, call)((host, 80))


def test_datagrams_are_refused():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(AssertionError, match="loopback"):
        sock.sendto(b"x", ("192.0.2.1", 53))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_works(host):
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection((host, server.getsockname()[1])) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(b"hi")
                assert accepted.recv(2) == b"hi"
