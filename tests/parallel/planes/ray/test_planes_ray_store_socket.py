"""The socket of the store of a Ray cluster, without Ray; what goes through it is in the tests of all planes."""

import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from ding.parallel.planes.frames import pack
from ding.parallel.planes.ray.store import StoreClient, start_store
from ding.parallel.planes.ray.store_socket import StoreSocket
from ding.parallel.ray_cluster import SMALL_BYTES, new_namespace

FRAME = b"\0\1\2" * 50_000


SERVER = """
import asyncio, sys
from ding.parallel.planes.ray.store_socket import serve

async def answer(method, args, frame):
    if method == "slow":
        await asyncio.sleep(60.0)
    return {"double": ([2 * number for number in args], frame + frame), "large": None}[method]

async def main():
    server = await serve(sys.argv[1], answer)
    print("ready", flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


class Server:
    """A process that listens at a path."""

    def __init__(self, path):
        self.path = str(path)
        self.begun = threading.Event()
        self.begin()

    def begin(self):
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, self.path], stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        self.begun.set()

    def find(self):
        return self.path if self.begun.wait(30.0) else None

    def kill(self):
        self.begun.clear()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def server(tmp_path):
    found = Server(tmp_path / "store.sock")
    yield found
    found.kill()


@pytest.fixture
def connection(server):
    found = StoreSocket(server.find)
    connected(found)
    return found


def connected(connection):
    """Wait until a connection answers."""
    deadline_s = time.monotonic() + 10.0
    while connection.begin("double", [1]).result(10.0) is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_calls_of_several_threads_get_their_own_answers(connection):
    found = {}

    def ask(first):
        for number in range(first, first + 50):
            value, frame = connection.begin("double", [number], FRAME).result(10.0)
            found[number] = (value, bytes(frame) == FRAME + FRAME)

    threads = [threading.Thread(target=ask, args=(first,)) for first in (0, 50, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert found == {number: ([2 * number], True) for number in range(150)}


def test_a_call_that_waits_keeps_no_other_waiting(connection):
    slow = connection.begin("slow", [])
    assert connection.begin("double", [3]).result(10.0)[0] == [6]
    assert not slow.done()


@pytest.mark.parametrize("method", ["large", "unknown"])
def test_what_the_socket_cannot_do_is_for_the_actor(connection, method):
    assert connection.begin(method, []).result(10.0) is None
    assert connection.begin("double", [3]).result(10.0)[0] == [6]


def test_a_lost_connection_answers_with_nothing_and_comes_back(server, connection):
    slow = connection.begin("slow", [])
    server.kill()
    assert slow.result(10.0) is None
    assert connection.begin("double", [3]).result(10.0) is None
    server.begin()
    connected(connection)


@pytest.mark.parametrize("path", [None, "missing"])
def test_without_a_socket_there_is_no_line(tmp_path, path):
    asked = threading.Event()
    connection = StoreSocket(lambda: asked.set() or (path and str(tmp_path / path)))
    assert asked.wait(10.0)
    assert connection.begin("double", [1]).result(10.0) is None


@pytest.mark.slow
@pytest.mark.parametrize("with_line", [True, False])
def test_a_store_answers_the_same_with_and_without_a_line(ray_connection, tmp_path, with_line):
    namespace = new_namespace()
    store = start_store(namespace, str(tmp_path) if with_line else None)
    client = StoreClient(namespace)
    small = np.frombuffer(pack({"w": np.ones(9)}, "chunk"), np.uint8)
    large = np.frombuffer(pack({"w": np.ones(SMALL_BYTES)}, "chunk"), np.uint8)
    deadline_s = time.monotonic() + 30.0
    while with_line and not list(tmp_path.iterdir()) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    for chunk, frame in (("one", small), ("two", large)):
        client.call("write", chunk, frame)
        assert bytes(client.frame(client.call("read", chunk), chunk)) == frame.tobytes()
        assert client.call("head", chunk).nbytes == len(frame)
        client.call("publish", chunk, 5, 7, frame)
        answer = client.begin("fetch", chunk, 4, 10.0)
        assert answer.result(10.0)[:2] == (5, 7)
        assert bytes(client.frame(client.result(answer).held, chunk)) == frame.tobytes()
    assert client.call("read", "three") is None
    assert client.call("delete", ["one", "two", "three"]) == 2
    del client, store
    gc.collect()
