"""What holds for every test: no network but loopback, and no verdict that depends on how busy the machine is."""

import ipaddress
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
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


@pytest.fixture(autouse=True, scope="session")
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the key of own runs out of the home of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def ray_connection() -> Iterator[None]:
    """A cluster of one node, to which this process is connected."""
    pytest.importorskip("ray", reason="Ray is the extra 'ray'")
    from ding.parallel.ray_cluster import ray_cluster

    init = {"num_cpus": 4, "object_store_memory": 200 * 2**20, "_node_ip_address": "127.0.0.1"}
    with ray_cluster(None, init):
        yield


@pytest.fixture(scope="session")
def ray_roots(ray_connection: None) -> list[str]:
    """Names of stores without chunks; a store takes seconds to start."""
    return []


@pytest.fixture(params=["file", "inproc", pytest.param("ray", marks=pytest.mark.slow)])
def planes_kind(request: pytest.FixtureRequest) -> str:
    """Each kind of planes of a parallel run: what holds on one backend holds on all."""
    return str(request.param)


@pytest.fixture
def new_root(request: pytest.FixtureRequest, planes_kind: str, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes the places of data and of policies, one for each run; a policy should have a name of its own."""
    made: list[str] = []

    def make() -> str:
        if planes_kind == "ray":
            folder = request.getfixturevalue("tmp_path_factory").mktemp("store")
            made.append(_ray_root(request.getfixturevalue("ray_roots"), str(folder)))
        else:
            made.append(str(tmp_path / f"planes{len(made)}"))
            Path(made[-1]).mkdir()
        return made[-1]

    yield make
    from ding.parallel.planes import forget_inproc_planes, open_planes

    for root in made:
        if planes_kind == "ray":
            plane = open_planes("ray", root, "").data()
            plane.release(plane.chunks())
            request.getfixturevalue("ray_roots").append(root)
        else:
            forget_inproc_planes(root)


def _ray_root(free: list[str], folder: str) -> str:
    from ding.parallel.planes.ray.store import start_store
    from ding.parallel.ray_cluster import new_namespace

    if not free:
        free.append(new_namespace())
        _stores.append(start_store(free[0], folder))
    return free.pop()


_stores: list[Any] = []  # it lives while its handle does
