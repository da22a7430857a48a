"""How many calls the readers of a policy make of the store of a Ray cluster; the rest is in the tests of all planes."""

import threading
import zlib
from concurrent.futures import Future

import numpy as np
import pytest

from ding.parallel.planes.frames import pack
from ding.parallel.planes.ray import planes as ray_planes
from ding.parallel.planes.ray.store import Version

FRAME = np.frombuffer(pack({"w": np.ones(2)}, "weights"), np.uint8)


class Store:
    """In the place of a `StoreClient`; the test gives the answers."""

    def __init__(self, namespace):
        self.asked, self.answers = [], []

    def begin(self, method, policy_id, newer_than, wait_s):
        self.asked.append((method, policy_id, newer_than))
        self.answers.append(Future())
        return self.answers[-1]

    def result(self, answer):
        return answer.result(0.0)

    def frame(self, held, what):
        return held.data

    def publish(self, number):
        """Answer the newest call."""
        self.answers[-1].set_result(Version(number, zlib.crc32(FRAME), FRAME))


@pytest.fixture
def store(monkeypatch):
    store = Store("run")
    monkeypatch.setattr(ray_planes, "StoreClient", lambda namespace: store)
    return store


@pytest.fixture
def planes(store):
    return ray_planes.RayPlanes("run", "run")


def test_readers_who_look_about_themselves_have_one_call_waiting(planes, store):
    weights = planes.weights("policy")
    for _ in range(3):
        assert weights.fetch(4, timeout_s=0.01) is None
    assert store.asked == [("fetch", "policy", 4)]
    store.publish(5)
    # That answer was there before this reader asked; what came since, only the store knows.
    assert weights.fetch(4, timeout_s=0.01) is None
    assert len(store.asked) == 2
    store.publish(6)


def test_the_next_task_goes_on_with_the_call_of_the_one_before(planes, store):
    before = planes.weights("policy")
    assert before.fetch(4, timeout_s=0.01) is None
    before.close()
    found = []
    reader = threading.Thread(target=lambda: found.append(planes.weights("policy").fetch(4, timeout_s=30.0)))
    reader.start()
    reader.join(0.05)
    store.publish(5)
    reader.join(10.0)
    assert [weights.version for weights in found] == [5]
    assert found[0].state["w"].tolist() == [1.0, 1.0]
    assert len(store.asked) == 1


def test_readers_with_other_versions_or_policies_have_calls_of_their_own(planes, store):
    for policy, version in (("one", 4), ("one", 3), ("two", 3)):
        assert planes.weights(policy).fetch(version, timeout_s=0.01) is None
    assert store.asked == [("fetch", "one", 4), ("fetch", "one", 3), ("fetch", "two", 3)]


def test_a_store_that_has_nothing_for_long_is_asked_again(planes, store):
    found = []
    reader = threading.Thread(target=lambda: found.append(planes.weights("policy").fetch(4, timeout_s=30.0)))
    reader.start()
    deadline = threading.Event()
    while not store.answers:
        deadline.wait(0.001)
    store.answers[0].set_result(None)
    while len(store.answers) < 2:
        deadline.wait(0.001)
    store.publish(5)
    reader.join(10.0)
    assert [weights.version for weights in found] == [5]
