"""S2, S6, S7, S8: who gets in, how much is read, where a service listens, what a message may name."""

from __future__ import annotations

import json
import logging
import socket
import sys

import pytest

from ding.interaction import Master, Slave, TaskInvalid
from ding.interaction.base.common import random_token
from ding.interaction.base.endpoint import Call
from ding.interaction.base.http import HttpTransport
from ding.interaction.config import GLOBAL_HOST
from ding.interaction.exception import BodyInvalid, SlaveTaskRefused, UnsafeBindError
from ding.utils import did_you_mean
from ding.utils.credentials import RUN_TOKEN_VARIABLE

WAIT_S = 20.0
RUN_TOKEN = random_token()


class Worker(Slave):
    def _before_task(self, task):
        if task.get("type") not in ("collector", "learner"):
            raise TaskInvalid(message=f"unknown type.{did_you_mean(task.get('type'), ['collector', 'learner'])}")

    def _process_task(self, task):
        return {}


class Recorder(HttpTransport):
    """Notes the tokens of all requests."""

    def __init__(self):
        super().__init__()
        self.tokens = set()

    def open(self, *target):
        wire = super().open(*target)
        send = wire.send
        wire.send = lambda method, path, data, headers, timeout_s: (
            self.tokens.add(headers["Token"]) or send(method, path, data, headers, timeout_s)
        )
        return wire


@pytest.fixture(params=["master", "slave"])
def service(request):
    service = Master(port=0, run_token=RUN_TOKEN) if request.param == "master" else Worker(port=0, run_token=RUN_TOKEN)
    with service:
        yield service


def exchange(port: int, request: bytes) -> tuple[int, dict]:
    """Send the bytes of a request, not all of it perhaps, and return status and body of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            read = connection.recv(65536)
            assert read, "the server closed the connection without an answer"
            answer = (answer + read).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += connection.recv(65536)
    # What the server itself refuses is no JSON.
    return int(head.split()[1]), json.loads(body) if b"application/json" in head else {}


@pytest.mark.parametrize(
    ("header", "status", "code"),
    [
        (b"", 401, 701),
        (b"Authorization:\r\n", 401, 701),
        (b"Expect: 100-continue\r\n", 401, 701),
        (b"Authorization: Bearer\r\n", 403, 702),
        (b"Authorization: Bearer " + random_token().encode() + b"\r\n", 403, 702),
        (b"Authorization: Basic " + RUN_TOKEN.encode() + b"\r\n", 403, 702),
        (b"Authorization: Bearer " + RUN_TOKEN[:-1].encode() + b"\r\n", 403, 702),
        (b"Authorization: Bearer " + RUN_TOKEN.encode() + b"\r\n" * 1 + b"Authorization: x\r\n", 403, 702),
        (b"Authorization: Bearer \xff\xfe\r\n", 403, 702),
        (b"Token: " + RUN_TOKEN.encode() + b"\r\n", 401, 701),
    ],
    ids=[
        *("none", "empty", "expect", "bearer-empty", "bearer-wrong", "basic", "bearer-short", "twice", "not-ascii"),
        "other-header",
    ],
)
def test_no_token_no_body(service, monkeypatch, header, status, code):
    monkeypatch.setattr(Call, "body", lambda *_: pytest.fail("the body was looked at"))
    for method, path in service.routes:
        line = f"{method} {path} HTTP/1.1\r\nContent-Length: 1000\r\nChannel: 0\r\n".encode()
        got, body = exchange(service.port, line + header + b"\r\n" + b"{" * 1000)
        assert (got, body["success"], body["code"]) == (status, False, code), path


def test_no_token_in_any_log(service, caplog):
    caplog.set_level(logging.DEBUG)
    network = Recorder()
    options = {"port": 0, "run_token": RUN_TOKEN, "transport": network}
    with Master(**options) as master, Worker(**options) as worker:
        assert master.ping()
        assert worker.ping()
        with master.new_connection("w", "127.0.0.1", worker.port) as connection:
            connection.new_task({"type": "collector"}).start().join(WAIT_S)
            with pytest.raises(SlaveTaskRefused):
                connection.new_task({"type": "nothing"}).start()
            texts = [repr(connection), repr(master), repr(worker), str(vars(master.statistics()))]
        master.lose("w", "over")
        exchange(service.port, b"GET /ping HTTP/1.1\r\nAuthorization: Bearer " + RUN_TOKEN.encode() + b"x\r\n\r\n")
    for text in [caplog.text, *texts]:
        for secret in (RUN_TOKEN, *network.tokens):
            assert secret not in text
    assert len(network.tokens) == 3


def test_a_body_that_is_too_large_is_not_read(service):
    head = b"PUT /slave/task/complete HTTP/1.1\r\nAuthorization: Bearer " + RUN_TOKEN.encode()
    assert exchange(service.port, head + b"\r\nContent-Length: 1000000000\r\n\r\n")[0] == 413


def test_a_large_body_is_refused_as_soon_as_it_is_known(service):
    head = b"PUT /ping HTTP/1.1\r\nAuthorization: Bearer " + RUN_TOKEN.encode()
    assert exchange(service.port, head + b"\r\nContent-Length: 33554432\r\n\r\n")[0] == 413
    path = b"/connect" if isinstance(service, Slave) else b"/slave/enrol"
    head = head.replace(b"PUT /ping", b"POST " + path) + b"\r\nChannel: 0\r\nToken: x\r\nTransfer-Encoding: chunked"
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    assert exchange(service.port, head + b"\r\n\r\n" + chunk * 16 + b"100000\r\n")[0] == 413


def test_only_a_task_or_a_result_may_be_larger_than_a_mebibyte(service):
    """And these are for peers: without a connection, a body is not even read."""
    head = (
        b"Authorization: Bearer "
        + RUN_TOKEN.encode()
        + b"\r\nChannel: 0\r\nToken: x\r\nContent-Length: 2000000\r\n\r\n"
    )
    path = b"POST /connect" if isinstance(service, Slave) else b"POST /slave/enrol"
    assert exchange(service.port, path + b" HTTP/1.1\r\n" + head + b" " * 2_000_000)[0] == 413
    path = b"POST /task/new" if isinstance(service, Slave) else b"PUT /slave/task/complete"
    assert exchange(service.port, path + b" HTTP/1.1\r\n" + head + b" " * 2_000_000)[0] in (400, 403)


def test_a_connection_is_kept(service):
    request = b"GET /ping HTTP/1.1\r\nChannel: 0\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=WAIT_S) as known:
        for _ in range(2):
            known.sendall(request + b"Authorization: Bearer " + RUN_TOKEN.encode() + b"\r\n\r\n")
            assert b"close" not in known.recv(65536)


def test_a_refusal_of_the_server_itself_is_the_error_of_the_protocol(service):
    """It is no JSON, as that of a reverse proxy."""
    wire = HttpTransport().open("127.0.0.1", service.port)
    headers = {"Authorization": f"Bearer {RUN_TOKEN}", "Channel": "0", "Token": "x"}
    values = wire.send("POST", "/connect", {"x": "y" * 2 * 2**24}, headers, WAIT_S)
    assert (values.status_code, values.success, values.code) == (413, False, 803)
    values = wire.send("GET", "/ping", None, {**headers, "X": "y" * 2**15}, WAIT_S)
    assert (values.status_code, values.success, values.code) == (431, False, 807)
    wire.close()


def test_a_body_of_the_largest_size_is_taken():
    with Master(port=0, run_token=RUN_TOKEN, max_body_bytes=1000) as master:
        head = b"PUT /ping HTTP/1.1\r\nAuthorization: Bearer " + RUN_TOKEN.encode()
        assert exchange(master.port, head + b"\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000)[0] == 405
        assert exchange(master.port, head + b"\r\nContent-Length: 1001\r\n\r\n")[0] == 413


@pytest.mark.parametrize("host", [GLOBAL_HOST, "", "::", "192.0.2.1", "example.invalid"])
def test_no_token_no_listening_to_others(host, monkeypatch):
    monkeypatch.delenv(RUN_TOKEN_VARIABLE, raising=False)
    for cls in (Master, Worker):
        with pytest.raises(UnsafeBindError, match=RUN_TOKEN_VARIABLE):
            cls(host, 0)
        cls(host, 0, run_token=RUN_TOKEN)
    with pytest.raises(ValueError, match="16 to 512"):
        Master(host, 0, run_token="short")


def test_loopback_needs_no_token_and_the_environment_gives_one(monkeypatch):
    monkeypatch.delenv(RUN_TOKEN_VARIABLE, raising=False)
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        Master(host, 0)
    monkeypatch.setenv(RUN_TOKEN_VARIABLE, RUN_TOKEN)
    with Master(port=0) as master:
        assert exchange(master.port, b"GET /status HTTP/1.1\r\n\r\n")[0] == 401
        good = b"GET /status HTTP/1.1\r\nAuthorization: Bearer " + RUN_TOKEN.encode() + b"\r\n\r\n"
        assert exchange(master.port, good)[0] == 200


def test_listening_to_others_with_a_token():
    with Master(GLOBAL_HOST, 0, run_token=RUN_TOKEN) as master:
        assert master.ping()
        assert "0.0.0.0" not in master.my_address


def test_names_in_messages_import_nothing():
    with Master(port=0, run_token=RUN_TOKEN) as master, Worker(port=0, run_token=RUN_TOKEN) as worker:
        with master.new_connection("w", "127.0.0.1", worker.port) as connection:
            before = set(sys.modules)
            task = {"type": "collector", "cfg": {"import_names": ["antigravity"]}}
            with pytest.raises(BodyInvalid) as caught:
                connection.new_task(task).start()
            assert caught.value.status_code == 400
            with pytest.raises(SlaveTaskRefused, match="Did you mean 'collector'") as caught:
                connection.new_task({"type": "colector"}).start()
            assert caught.value.status_code == 400
            assert set(sys.modules) == before
    assert worker.statistics().tasks_accepted == 0
