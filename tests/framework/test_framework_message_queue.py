"""The socket queue: delivery, order, the token, broken peers, strangers, late starters, and its end."""

import contextlib
import hmac
import logging
import os
import resource
import socket
import threading

import pytest

from ding.framework.message_queue import socket_mq
from ding.framework.message_queue.socket_mq import SocketMQ
from ding.utils.system_helper import find_free_port


@pytest.fixture
def queues(tmp_path):
    made: list[SocketMQ] = []

    def make(name: str, *attach_to: str, token: str = "secret", **kwargs) -> SocketMQ:
        address = name if "://" in name else f"ipc://{tmp_path}/{name}"
        others = [other if "://" in other else f"ipc://{tmp_path}/{other}" for other in attach_to]
        mq = SocketMQ(address, others, token=token, **kwargs)
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


@pytest.fixture
def stranger():
    """Connects to a port of this machine; ``read(connection, n)`` returns fewer bytes where the connection ends."""
    with contextlib.ExitStack() as opened:

        def connect(port: int) -> socket.socket:
            return opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))

        yield connect


def read(connection: socket.socket, length: int) -> bytes:
    got = b""
    with contextlib.suppress(ConnectionError):
        while len(got) < length and (more := connection.recv(length - len(got))):
            got += more
    return got


def send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)


def greeting(send_to_peer) -> None:
    send_to_peer("model", b"of the run")


def test_two_connections_do_not_prove_the_token_for_each_other(queues, stranger, monkeypatch) -> None:
    monkeypatch.setattr(socket_mq, "HANDSHAKE_TIMEOUT_S", 1.0)
    port = find_free_port("127.0.0.1")
    mq = queues(f"tcp://127.0.0.1:{port}", on_peer=greeting)
    a, b = stranger(port), stranger(port)
    nonces = read(a, 32), read(b, 32)
    send(a, nonces[1])
    send(b, nonces[0])
    proofs = read(a, 32), read(b, 32)
    send(a, proofs[1])
    send(b, proofs[0])
    assert (read(a, 1), read(b, 1)) == (b"", b"")
    assert mq.num_peers == 0


def test_a_process_that_dials_a_stranger_is_not_connected_with_itself(queues, stranger, monkeypatch) -> None:
    monkeypatch.setattr(socket_mq, "HANDSHAKE_TIMEOUT_S", 1.0)
    port = find_free_port("127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        queues(f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{server.getsockname()[1]}", on_peer=greeting)
        dialled, dialling = server.accept()[0], stranger(port)
        with dialled:
            nonces = read(dialled, 32), read(dialling, 32)
            send(dialled, nonces[1])
            send(dialling, nonces[0])
            send(dialling, read(dialled, 32))
            send(dialled, read(dialling, 32))
            assert (read(dialled, 1), read(dialling, 1)) == (b"", b"")


@pytest.mark.parametrize(("side", "is_admitted"), [(b"dial", True), (b"accept", False), (b"", False)])
def test_only_the_proof_of_the_dialling_side_admits_it(queues, stranger, side: bytes, is_admitted: bool) -> None:
    port = find_free_port("127.0.0.1")
    queues(f"tcp://127.0.0.1:{port}", on_peer=greeting)
    connection, own = stranger(port), os.urandom(32)
    theirs = read(connection, 32)
    send(connection, own + hmac.digest(b"secret", side + own + theirs, "sha256"))
    answer = hmac.digest(b"secret", b"accept" + own + theirs, "sha256")
    assert read(connection, 33) == (answer + b"\0" if is_admitted else b"")


def test_a_proof_is_not_accepted_by_the_side_that_made_it(queues) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        queues("a", f"tcp://127.0.0.1:{server.getsockname()[1]}", on_peer=greeting)
        connection, _ = server.accept()
        with connection:
            read(connection, 32)
            send(connection, os.urandom(32))
            send(connection, read(connection, 32))
            assert read(connection, 1) == b""


def test_a_handshake_has_one_deadline(queues, stranger, monkeypatch) -> None:
    monkeypatch.setattr(socket_mq, "HANDSHAKE_TIMEOUT_S", 0.5)
    port = find_free_port("127.0.0.1")
    queues(f"tcp://127.0.0.1:{port}")
    connection = stranger(port)
    assert len(read(connection, 32)) == 32
    connection.settimeout(0.1)  # the time between two bytes
    for _ in range(60):
        try:
            assert read(connection, 1) == b""
            return
        except TimeoutError:
            send(connection, b"x")
    pytest.fail("the connection is open after twelve times the deadline")


def test_strangers_are_few_and_keep_nobody_out(queues, stranger, monkeypatch) -> None:
    monkeypatch.setattr(socket_mq, "HANDSHAKE_TIMEOUT_S", 600.0)
    monkeypatch.setattr(socket_mq, "MAX_STRANGERS", 4)
    port = find_free_port("127.0.0.1")
    mq = queues(f"tcp://127.0.0.1:{port}")
    strangers = [stranger(port) for _ in range(12)]
    assert [len(read(connection, 32)) for connection in strangers] == [32] * 12
    assert [read(connection, 1) for connection in strangers[:8]] == [b""] * 8
    assert sum(thread.name == "mq-peer" for thread in threading.enumerate()) <= 5  # one is just ending
    queues("b", f"tcp://127.0.0.1:{port}")
    assert mq.wait_for_peers(1, 30)
    mq.stop()
    assert [read(connection, 1) for connection in strangers[8:]] == [b""] * 4


def test_a_lack_of_file_descriptors_does_not_end_listening(queues, stranger) -> None:
    port = find_free_port("127.0.0.1")
    mq = queues(f"tcp://127.0.0.1:{port}")
    connection = socket.socket()
    failed = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "cannot accept" in record.getMessage():
                failed.set()

    listener = Listener()
    logger = logging.getLogger(socket_mq.__name__)
    logger.addHandler(listener)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        # New descriptors are refused, those that are open go on. The accept that waits already has one.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        connection.connect(("127.0.0.1", port))
        failed.wait(30)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        logger.removeHandler(listener)
        connection.close()
    assert failed.is_set()
    queues("b", f"tcp://127.0.0.1:{port}")
    assert mq.wait_for_peers(1, 30)
