"""The router: messages between nodes, those without a listener yet, those for nodes that come later."""

import queue

import numpy as np
import pytest
import torch

from ding.framework.parallel import Parallel
from ding.utils import SingletonMetaclass


@pytest.fixture
def nodes(tmp_path):
    """Makes routers of several nodes within this process."""
    made: list[Parallel] = []

    def make(node_id: int, *dials: int, num_peers: int = 0, token: str = "t") -> Parallel:
        router = object.__new__(Parallel)
        router.__init__()
        made.append(router)
        return router.start(
            node_id,
            listen_to=f"ipc://{tmp_path}/{node_id}",
            attach_to=[f"ipc://{tmp_path}/{other}" for other in dials],
            num_peers=num_peers,
            token=token,
        )

    yield make
    for router in made:
        router.stop()


def heard_by(router: Parallel, topic: str) -> "queue.Queue[tuple]":
    heard: queue.Queue[tuple] = queue.Queue()
    router.on(topic, lambda *args, **kwargs: heard.put((args, kwargs)))
    return heard


def test_there_is_one_router_per_process_and_it_is_inactive() -> None:
    router = Parallel()
    assert router is Parallel()
    assert not router.is_active
    router.emit("anything", 1)
    router.stop()
    assert SingletonMetaclass.instances[Parallel] is router


def test_values_arrive_as_they_were_sent_and_not_at_the_sender(nodes) -> None:
    a, b = nodes(0), None
    b = nodes(1, 0, num_peers=1)
    at_a, at_b = heard_by(a, "data"), heard_by(b, "data")
    tree = {"w": torch.arange(6.0).view(2, 3), "n": [1, 2.5, None, "x"], "a": np.arange(3, dtype=np.int16)}
    b.emit("data", tree, key=(1, 2))
    ((got,), kwargs) = at_a.get(timeout=10)
    assert torch.equal(got["w"], tree["w"])
    assert got["n"] == tree["n"]
    np.testing.assert_array_equal(got["a"], tree["a"])
    assert kwargs == {"key": (1, 2)}
    a.emit("data", 1)
    assert at_b.get(timeout=10) == ((1,), {})


def test_what_comes_before_its_first_listener_waits_for_it(nodes) -> None:
    a = nodes(0)
    b = nodes(1, 0, num_peers=1)
    marker = heard_by(a, "marker")
    for i in range(3):
        b.emit("early", i)
    b.emit("marker")
    marker.get(timeout=10)
    early = heard_by(a, "early")
    assert [early.get(timeout=10)[0][0] for _ in range(3)] == [0, 1, 2]


def test_a_late_node_gets_the_newest_retained_message(nodes) -> None:
    a = nodes(0)
    for version in range(3):
        a.emit("model", version, retain=True)
    b = nodes(1, 0, num_peers=1)
    assert heard_by(b, "model").get(timeout=10) == ((2,), {})


def test_once_and_off(nodes) -> None:
    a = nodes(0)
    b = nodes(1, 0, num_peers=1)
    got = []
    a.once("x", got.append)
    a.on("y", got.append)
    a.off("y*")
    at_x, at_y = heard_by(a, "x"), heard_by(a, "y")
    for i in range(2):
        b.emit("x", i)
        b.emit("y", i)
    for i in range(2):
        assert at_x.get(timeout=10) == at_y.get(timeout=10) == ((i,), {})
    assert got == [0]


def test_what_cannot_be_sent_is_refused_at_the_sender(nodes) -> None:
    a = nodes(0)
    with pytest.raises((TypeError, ValueError), match="object"):
        a.emit("x", object())


def test_a_router_starts_again_after_its_stop(nodes, tmp_path) -> None:
    a = nodes(0)
    a.stop()
    a.start(0, listen_to=f"ipc://{tmp_path}/0", token="t")
    b = nodes(1, 0, num_peers=1)
    heard = heard_by(a, "x")
    b.emit("x", 1)
    assert heard.get(timeout=10) == ((1,), {})


def test_a_node_that_does_not_come_is_named(nodes, monkeypatch) -> None:
    monkeypatch.setattr("ding.framework.parallel.CONNECT_TIMEOUT_S", 0.05)
    with pytest.raises(TimeoutError, match="node 1: fewer than 1 nodes"):
        nodes(1, 0, num_peers=1)
