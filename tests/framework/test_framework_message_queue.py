"""The socket queue: delivery, order, the token, broken peers, late starters, and its end."""

import os
import socket
import threading

import pytest

from ding.framework.message_queue.socket_mq import SocketMQ


@pytest.fixture
def queues(tmp_path):
    made: list[SocketMQ] = []

    def make(name: str, *attach_to: str, token: str = "secret", **kwargs) -> SocketMQ:
        address = name if "://" in name else f"ipc://{tmp_path}/{name}"
        mq = SocketMQ(address, [f"ipc://{tmp_path}/{other}" for other in attach_to], token=token, **kwargs)
        made.append(mq)
        mq.listen()
        return mq

    yield make
    for mq in made:
        mq.stop()


def connected(mq: SocketMQ, other: SocketMQ) -> None:
    """Both have greeted each other: each has received a message of the other."""
    joined = threading.Event()

    def greet() -> None:
        while not joined.wait(0.01):
            other.publish("hello", b"")

    greeter = threading.Thread(target=greet)
    greeter.start()
    assert mq.recv() == ("hello", b"")
    joined.set()
    greeter.join()


def next_of(mq: SocketMQ, topic: str) -> bytes:
    while True:
        got, data = mq.recv()
        if got == topic:
            return data


def test_messages_arrive_whole_and_in_order_both_ways(queues) -> None:
    a = queues("a")
    b = queues("b", "a")
    connected(a, b)
    big = os.urandom(3_000_000)
    for i in range(100):
        b.publish("n", str(i).encode())
    b.publish("a::topic/with anything", big)
    assert [next_of(a, "n") for _ in range(100)] == [str(i).encode() for i in range(100)]
    assert next_of(a, "a::topic/with anything") == big
    a.publish("back", b"x")
    assert next_of(b, "back") == b"x"


def test_the_one_that_is_dialled_may_start_later(queues) -> None:
    b = queues("b", "a")
    b.publish("lost", b"nobody is there")
    a = queues("a")
    connected(a, b)
    b.publish("n", b"1")
    assert next_of(a, "n") == b"1"


def test_without_the_token_nothing_is_read(queues, caplog, tmp_path) -> None:
    a, stranger = queues("a"), queues("s", "a", token="other")
    b = queues("b", "a")
    connected(a, b)
    stranger.publish("n", b"forged")
    b.publish("n", b"1")
    assert next_of(a, "n") == b"1"
    assert "does not know the token" in caplog.text
    assert stranger.num_peers == 0


@pytest.mark.parametrize(
    "rubbish",
    [b"", b"GET / HTTP/1.1\r\n\r\n" + b"x" * 100, b"\x00" * 64, os.urandom(200)],
    ids=["none", "http", "0", "random"],
)
def test_rubbish_harms_nobody(queues, tmp_path, rubbish: bytes) -> None:
    a = queues("a")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"{tmp_path}/a")
        sock.sendall(rubbish)
    b = queues("b", "a")
    connected(a, b)


def test_a_new_peer_gets_what_is_retained_first(queues) -> None:
    queues("a", on_peer=lambda send: send("model", b"newest"))
    b = queues("b", "a")
    assert b.recv() == ("model", b"newest")


def test_tcp_and_a_taken_port(queues) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    a = queues(address)
    b = SocketMQ("ipc:///nowhere/x", [address], token="secret")
    with pytest.raises(OSError, match="cannot listen on ipc:///nowhere/x"):
        b.listen()
    with pytest.raises(OSError, match=f"cannot listen on {address}"):
        queues(address)
    assert a.num_peers == 0


def test_stop_ends_recv_and_removes_the_socket_file(queues, tmp_path) -> None:
    a = queues("a")
    got = []
    receiver = threading.Thread(target=lambda: got.append(a.recv()))
    receiver.start()
    a.stop()
    a.stop()
    receiver.join(10)
    assert got == [None]
    assert a.recv() is None
    assert not (tmp_path / "a").exists()


def test_the_socket_file_is_for_the_user_alone(queues, tmp_path) -> None:
    queues("a")
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0


def test_a_peer_that_came_and_left_was_there(queues) -> None:
    a = queues("a")
    b = queues("b", "a")
    connected(a, b)
    b.stop()
    while a.num_peers:
        threading.Event().wait(0.001)
    assert a.wait_for_peers(1, 0.0)


def test_no_thread_is_left(queues) -> None:
    before = set(threading.enumerate())
    a = queues("a")
    b = queues("b", "a")
    connected(a, b)
    started = set(threading.enumerate()) - before
    for mq in (a, b):
        mq.stop()
    for thread in started:
        thread.join(10.0)
    assert [thread.name for thread in started if thread.is_alive()] == []
