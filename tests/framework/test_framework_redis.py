"""The queue over a real redis server: delivery, the token, those that come later, and a whole run."""

import shutil
import socket
import subprocess
import threading

import pytest
import runner_toys as toys
from runner_notes import notes

from ding.framework import Parallel

redis = pytest.importorskip("redis", reason="the extra 'redis' is not installed")
pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server here")

if redis:
    from ding.framework.message_queue import RedisMQ


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = str(tmp_path_factory.mktemp("redis"))
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert any("Ready to accept connections" in line for line in server.stdout)
    yield port
    server.terminate()
    server.communicate(timeout=30)


@pytest.fixture
def queues(port):
    made: list[RedisMQ] = []

    def make(token: str = "secret", **kwargs) -> RedisMQ:
        mq = RedisMQ("127.0.0.1", port, token=token, **kwargs)
        made.append(mq)
        mq.listen()
        return mq

    yield make
    for mq in made:
        mq.stop()


def test_messages_arrive_in_order_and_not_at_the_sender(queues) -> None:
    a, b = queues(), queues()
    for i in range(10):
        a.publish("n", str(i).encode())
        a.publish("a:b::topic", b"\x00" * 1000)
    b.publish("back", b"x")
    got = [b.recv() for _ in range(20)]
    assert got == [one for i in range(10) for one in (("n", str(i).encode()), ("a:b::topic", b"\x00" * 1000))]
    assert a.recv() == ("back", b"x")
    assert a.wait_for_peers(1, 10)


def test_without_the_token_nothing_is_heard_or_read(queues, port, caplog) -> None:
    a, b, stranger = queues(), queues(), queues(token="other")
    stranger.publish("n", b"forged")
    channel = next(iter(redis.Redis(port=port).pubsub_channels("*")), None)
    assert channel is None  # patterns only
    b.publish("n", b"1")
    assert a.recv() == ("n", b"1")
    assert not stranger.wait_for_peers(1, 0.0)


def test_what_is_forged_is_dropped(queues, port, caplog) -> None:
    a, b = queues(), queues()
    seen = redis.Redis(port=port).pubsub()
    seen.psubscribe("*")
    b.publish("n", b"1")
    channels = (message["channel"] for message in seen.listen() if message["type"] == "pmessage")
    channel = next(one for one in channels if one.endswith(b":all:n"))
    redis.Redis(port=port).publish(channel, b"\x00" * 64 + b"forged")
    b.publish("n", b"2")
    assert [a.recv(), a.recv()] == [("n", b"1"), ("n", b"2")]
    assert "does not know the token" in caplog.text
    seen.close()


def test_one_that_comes_later_gets_what_is_kept_for_it(queues) -> None:
    a = queues(on_peer=lambda send: send("model", b"newest"))
    b = queues()
    reader = threading.Thread(target=a.recv, daemon=True)
    reader.start()
    assert b.recv() == ("model", b"newest")
    b.publish("end", b"")
    reader.join(10)
    assert not reader.is_alive()


def test_stop_ends_recv(queues) -> None:
    a = queues()
    got: list[object] = []
    reader = threading.Thread(target=lambda: got.append(a.recv()))
    reader.start()
    a.stop()
    a.stop()
    reader.join(10)
    assert got == [None]


def test_a_whole_run(tmp_path, port) -> None:
    runner = Parallel.runner(3, mq_type="redis", redis_host="127.0.0.1", redis_port=port)
    runner(toys.greets, str(tmp_path), 2)
    assert {node: one["from"] for node, one in notes(tmp_path, "heard").items()} == {0: [1, 2], 1: [0, 2], 2: [0, 1]}
