"""The parts below masters and slaves: wire, messages, addresses, HTTP client, answers, tokens, events."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time

import flask
import pytest
import requests
import responses
from hypothesis import given
from hypothesis import strategies as st

from ding.interaction import InprocTransport, messages, read_run_token, write_run_token
from ding.interaction.base import (
    ControllableContext,
    ControllableService,
    DblEvent,
    HttpEngine,
    ResponsibleException,
    TlsConfig,
    default_func,
    failure_response,
    flask_response,
    get_host_ip,
    get_http_engine_class,
    get_values_from_response,
    join_http_address,
    random_token,
    responsible,
    split_http_address,
    success_response,
    translate_dict_func,
)
from ding.interaction.base.endpoint import Answer, Endpoint
from ding.interaction.base.guard import TokenGuard
from ding.interaction.base.http import HttpTransport
from ding.interaction.base.transport import Client
from ding.interaction.base.transports import resolve_transport
from ding.interaction.exception import (
    HTTPError,
    InteractionError,
    ResponseException,
    SchemaError,
    ServiceClosed,
    TokenFileError,
    UnreachableError,
    WireError,
    get_slave_exception_by_error,
)
from ding.interaction.messages import dumps, loads

WAIT_S = 20.0

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_values_come_back(value):
    body = dumps(value)
    assert loads(body) == value
    assert b"Infinity" not in body.replace(json.dumps("Infinity").encode(), b"") or "Infinity" in str(value)
    json.loads(body, parse_constant=pytest.fail)


def test_floats_that_are_not_finite():
    assert dumps([math.inf, -math.inf]) == b'[{"$float":"inf"},{"$float":"-inf"}]'
    assert math.isnan(loads(dumps({"x": math.nan}))["x"])
    assert loads(b'{"$float":"many"}') == {"$float": "many"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e999",
        b"-1e999",
        b"1" * 400 + b".0",
        b"{",
        b"\xff",
        b"[1,]",
        b"{'a':1}",
    ],
)
def test_what_is_no_json(body):
    with pytest.raises(WireError):
        loads(body)


def test_depth():
    assert loads(b"[" * 64 + b"]" * 64) is not None
    for body in (b"[" * 65 + b"]" * 65, b"[" * 500_000, b'{"a":' * 65 + b"1" + b"}" * 65):
        with pytest.raises(WireError, match="deeper than 64"):
            loads(body)
    wide = [["[{"]] * 100
    assert loads(dumps(wide)) == wide
    hostile = b'"' + b"[" * 100 + b'\\"' * 500_000
    with pytest.raises(WireError, match="no JSON"):
        loads(hostile)


@pytest.mark.parametrize("body", [b"[" + b"[]," * 5_000_000 + b"1]", b"[" * 15_000_000, b'"",' * 5_000_000])
def test_a_body_of_many_values_is_refused_before_they_are_made(body):
    """S11: what takes time is their number; 15 MB of ``[],`` took seconds."""
    with pytest.raises(WireError, match="too many values"):
        loads(body)


def test_a_large_array_is_one_value():
    text = "x" * 15_000_000
    assert loads(dumps({"b64": text}))["b64"] == text


def test_what_cannot_be_sent():
    circle: list = []
    circle.append(circle)
    for value in (object(), {1, 2}, circle, {(1, 2): 3}):
        with pytest.raises(WireError):
            dumps(value)


TASK = {"task": {"id": "a"}}
ENROL = {"name": "w", "role": "collector", "address": "http://127.0.0.1:1", "incarnation": "i"}


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ([], messages.NewTask, "expected `object`, got `array`"),
        ({}, messages.NewTask, "missing required field `task`"),
        ({"task": {}}, messages.NewTask, r"missing required field `id` - at `\$.task`"),
        ({"task": {"id": 5}}, messages.NewTask, r"expected `str`, got `int` - at `\$.task.id`"),
        *[({"task": {"id": bad}}, messages.NewTask, r"at `\$.task.id`") for bad in ("a/b", "..", "", "a\n", "x" * 121)],
        ({**TASK, "message": "x" * 1_000_001}, messages.Result, r"at `\$.message`"),
        ({**TASK, "worker": {"pid": 1}}, messages.Result, r"unknown field `pid` - at `\$.worker`"),
        ({"master": {"address": "x" * 513}}, messages.Connect, "length <= 512"),
        ({**ENROL, "resorce": {}}, messages.Enrol, "unknown field `resorce`"),
        ({**ENROL, "resource": []}, messages.Enrol, r"expected `object`, got `array` - at `\$.resource`"),
        ({**ENROL, "\ud800": 1}, messages.Enrol, "surrogates"),
        (True, int, "expected `int`, got `bool`"),
        ("1", int, "expected `int`, got `str`"),
    ],
)
def test_messages_of_the_wrong_shape(value, kind, message):
    with pytest.raises(SchemaError, match=f"(?i)^body: .*{message}"):
        messages.convert(value, kind)


def test_messages():
    result = messages.convert({**TASK, "result": [1], "unknown": 1}, messages.Result)
    assert (result.task.id, result.result, result.message, result.worker.incarnation) == ("a", [1], "", None)
    for message in (result, messages.convert(ENROL, messages.Enrol)):
        assert messages.convert(loads(dumps(message)), type(message)) == message


def test_addresses():
    assert split_http_address("https://1.2.3.4:8787/p") == ("1.2.3.4", 8787, True, "/p")
    assert split_http_address("http://1.2.3.4") == ("1.2.3.4", 80, False, "")
    assert split_http_address("https://example") == ("example", 443, True, "")
    assert split_http_address("worker:7236") == ("worker", 7236, False, "")
    assert split_http_address("worker", 7236) == ("worker", 7236, False, "")
    assert split_http_address("http://[::1]:5/") == ("::1", 5, False, "/")
    assert join_http_address("::1", 5, True, "/p/") == "https://[::1]:5/p"
    for bad in ("ftp://x", "http://", "http://x:y", "http://x:70000"):
        with pytest.raises(ValueError):
            split_http_address(bad)
    assert get_host_ip().count(".") == 3


@pytest.fixture
def server():
    endpoint = Endpoint(TokenGuard(None))
    endpoint.add("POST", "/echo", lambda call: Answer("echo", {"body": call.body(dict), "x": call.header("X")}))
    endpoint.add("GET", "/refuse", lambda call: refuse())
    server = HttpTransport().serve(endpoint, "127.0.0.1", 0)
    yield server
    server.close()
    server.close()


def refuse():
    raise ResponsibleException(233, "no", {"a": 1}, 404)


def test_http_engine(server):
    engine = HttpEngine("127.0.0.1", server.port)
    response = engine.request("POST", "echo", {"a": math.inf}, {"X": "1"})
    assert get_values_from_response(response) == (200, True, 0, "echo", {"body": {"a": math.inf}, "x": "1"})
    with pytest.raises(HTTPError):
        engine.request("GET", "refuse")
    response = engine.request("GET", "/refuse", raise_for_status=False)
    assert get_values_from_response(response) == (404, False, 233, "no", {"a": 1})
    engine.close()


def test_http_engine_class(server):
    seen = []
    make = get_http_engine_class(
        headers={"X": lambda token: token * 2},
        data_processor=lambda data: {**data, "more": 1},
        http_error_gene=get_slave_exception_by_error,
    )
    engine = make("t")("127.0.0.1", server.port)
    assert isinstance(engine, HttpEngine)
    values = get_values_from_response(engine.request("POST", "echo", {"a": 1}))
    assert values.data == {"body": {"a": 1, "more": 1}, "x": "tt"}
    values = get_values_from_response(engine.request("POST", "echo", headers={"X": "own"}))
    assert values.data == {"body": {"more": 1}, "x": "own"}
    with pytest.raises(ResponseException, match="no") as caught:
        engine.request("GET", "refuse")
    seen.append(caught.value.code)
    assert seen == [233]
    engine.close()


def test_http_engine_tries_again(server):
    engine = HttpEngine("127.0.0.1", server.port)
    assert engine.request("POST", "echo", {"a": 1}).json()["data"]["body"] == {"a": 1}
    server.close()
    begin = time.monotonic()
    with pytest.raises(UnreachableError, match=r"POST http://127\.0\.0\.1"):
        engine.request("POST", "echo", retries=0, retry_waiting=WAIT_S)
    with pytest.raises(UnreachableError):
        engine.request("POST", "echo", retries=2, retry_waiting=0.1)
    assert 0.2 <= time.monotonic() - begin < WAIT_S
    engine.close()


@responses.activate
def test_mocks_of_requests_work_for_the_engine():
    responses.post("http://worker:5/api/echo", json={"success": True, "code": 0, "message": "", "data": 7})
    responses.get("http://worker:5/api/gone", body=requests.ConnectionError("mocked"))
    responses.get("http://worker:5/api/refused", status=403, json={"success": False, "code": 9, "message": "no"})
    engine = HttpEngine("worker", 5, path="/api")
    answer = engine.request("POST", "echo", {"a": 1}, params={"x": "y"})
    assert isinstance(answer, requests.Response)
    assert get_values_from_response(answer).data == 7
    assert responses.calls[0].request.url == engine.get_url("echo") + "?x=y"
    assert json.loads(responses.calls[0].request.body) == {"a": 1}
    with pytest.raises(requests.RequestException, match="mocked") as caught:
        engine.request("GET", "gone", retries=1, retry_waiting=0.0)
    assert isinstance(caught.value, UnreachableError)
    assert len(responses.calls) == 3
    with pytest.raises(requests.HTTPError) as refused:
        engine.request("GET", "refused")
    assert refused.value.response.status_code == 403


@responses.activate
def test_an_engine_of_ones_own_adds_headers_and_handles_errors():
    class Engine(HttpEngine):
        def _base_headers(self):
            return {"X": "1"}

        def _data_process(self, data):
            return {"wrapped": data}

        def _error_handler(self, error):
            raise KeyError(str(error)) from error

    responses.get("http://worker:5/a", status=500)
    with pytest.raises(KeyError, match="500"):
        Engine("worker", 5).request("GET", "a", "text")
    sent = responses.calls[0].request
    assert (sent.headers["X"], json.loads(sent.body)) == ("1", {"wrapped": "text"})


class ScriptedServer:
    """Answers each request with the next of some texts, as they are."""

    def __init__(self, *answers):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = 0
        self.thread = threading.Thread(target=self.serve, args=(list(answers),), daemon=True)
        self.thread.start()

    def serve(self, answers):
        while answers:
            connection, _ = self.listener.accept()
            self.connections += 1
            with connection:
                while answers and self.receive(connection):
                    connection.sendall(answers.pop(0))
                    if b"close" in answers[:1]:
                        answers.pop(0)
                        break

    @staticmethod
    def receive(connection):
        """A request, which ends with its empty object; False at the end of the connection."""
        request = b""
        while not request.endswith(b"{}"):
            part = connection.recv(65536)
            if not part:
                return False
            request += part
        return True

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.listener.close()
        self.thread.join(WAIT_S)


def answer(body):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize("text", [answer(b"hi"), answer(b"[]"), b"HTTP/1.1 what\r\n\r\n", b"nothing\r\n\r\n"])
def test_an_answer_that_is_no_json_is_no_answer(text):
    with ScriptedServer(text, b"close") as scripted:
        wire = HttpTransport().open("127.0.0.1", scripted.port)
        with pytest.raises(UnreachableError):
            wire.send("GET", "/x", None, {}, WAIT_S)
        wire.close()


def test_connections_are_kept_and_replaced_when_the_server_has_closed_them():
    with ScriptedServer(answer(b"{}"), answer(b"{}"), b"close", answer(b"{}")) as scripted:
        wire = HttpTransport().open("127.0.0.1", scripted.port)
        for _ in range(2):
            assert wire.send("GET", "/x", None, {}, WAIT_S).status_code == 200
        assert scripted.connections == 1
        time.sleep(0.1)  # until the end of the connection has arrived
        assert wire.send("GET", "/x", None, {}, WAIT_S).status_code == 200
        assert scripted.connections == 2
        wire.close()


def test_a_silent_server_is_given_up_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        wire = HttpTransport().open("127.0.0.1", silent.getsockname()[1])
        with pytest.raises(UnreachableError, match="timed out"):
            wire.send("GET", "/x", None, {}, 0.1)
        wire.close()


def test_client_gives_up_when_closed():
    wire = InprocTransport().open("127.0.0.1", 1)
    client = Client(wire, {}, get_slave_exception_by_error, retries=10**6, retry_waiting_s=WAIT_S)
    failed = []

    def work():
        try:
            client.request("GET", "/x")
        except ServiceClosed as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    client.close()
    thread.join(WAIT_S)
    assert len(failed) == 1


def test_transports_by_name():
    assert isinstance(resolve_transport(None, None), HttpTransport)
    assert isinstance(resolve_transport("inproc", None), InprocTransport)
    assert resolve_transport("inproc", None) is resolve_transport("inproc", None)
    for bad in ("carrier pigeon", 5):
        with pytest.raises(ValueError, match="transport must be"):
            resolve_transport(bad, None)
    with pytest.raises(ValueError, match="tls"):
        resolve_transport("inproc", TlsConfig(cafile="x"))
    for bad in ({}, {"certfile": "x", "mutual": True}):
        with pytest.raises(ValueError):
            TlsConfig(**bad)


def test_flask_response():
    with flask.Flask("test").app_context():
        fine, failed = flask_response(True, data=1), flask_response(False, code=0)
    assert fine.get_json() == {"success": True, "code": 0, "message": "Success.", "data": 1}
    assert failed.get_json() == {"success": False, "code": 1, "message": "Failed.", "data": None}


def test_answers_of_flask_views():
    app = flask.Flask("test")

    class Special(ResponsibleException):
        pass

    @app.route("/success")
    def success():
        return success_response(data={"a": 1}, message="fine")

    @app.route("/fail")
    def fail():
        return failure_response(code=233, message="not fine", data={"b": 2}), 404

    @app.route("/raise")
    @responsible()
    def raising():
        raise ResponsibleException(34, "raised", {"c": 3}, 403)

    @app.route("/special")
    @responsible([Special])
    def special():
        raise Special()

    client = app.test_client()
    assert get_values_from_response(client.get("/success")) == (200, True, 0, "fine", {"a": 1})
    assert get_values_from_response(client.get("/fail")) == (404, False, 233, "not fine", {"b": 2})
    assert get_values_from_response(client.get("/raise")) == (403, False, 34, "raised", {"c": 3})
    assert get_values_from_response(client.get("/special")) == (400, False, 1, "", None)


def test_response_exception_of_an_http_error(server):
    engine = HttpEngine("127.0.0.1", server.port)
    with pytest.raises(HTTPError) as caught:
        engine.request("GET", "refuse")
    engine.close()
    error = ResponseException(caught.value)
    assert (error.status_code, error.success, error.code) == (404, False, 233)
    assert (error.message, error.data) == ("no", {"a": 1})
    assert isinstance(error, InteractionError)
    with pytest.raises(ValueError, match="without a response"):
        ResponseException(HTTPError())


def test_run_token_files(tmp_path):
    path = tmp_path / "token"
    token = random_token()
    write_run_token(path, token)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_run_token(path) == token
    with pytest.raises(FileExistsError):
        write_run_token(path, token)
    path.chmod(0o640)
    with pytest.raises(TokenFileError, match="0640"):
        read_run_token(path)
    other = tmp_path / "other"
    other.write_text("short")
    os.chmod(other, 0o600)
    with pytest.raises(TokenFileError, match="no token"):
        read_run_token(other)


def test_tokens_are_not_predictable():
    import random

    tokens = []
    for _ in range(2):
        random.seed(0)
        tokens.append(random_token())
    assert tokens[0] != tokens[1]
    assert [len(random_token(length)) for length in (64, 1, 7)] == [64, 1, 7]
    assert set(random_token(1000)) <= set("0123456789abcdef")
    with pytest.raises(ValueError):
        random_token(0)


def test_function_helpers():
    assert translate_dict_func({"a": lambda x: x + 1, "b": lambda x: x * 2})(5) == {"a": 6, "b": 10}
    assert default_func(3)(None)(1, x=2) == 3
    assert default_func()(None)() is None
    assert default_func(3)(lambda a, x: a + x)(1, x=5) == 6


def test_double_event():
    event = DblEvent()
    assert event.is_close()
    assert not event.is_open()
    assert not event.wait_for_open(0)
    assert event.wait_for_close(0)
    waiter = threading.Thread(target=lambda: event.wait_for_open(WAIT_S) and event.close())
    waiter.start()
    event.open()
    assert event.wait_for_close(WAIT_S)
    waiter.join(WAIT_S)
    assert DblEvent(True).is_open()


def test_life_cycles():
    calls = []

    class Context(ControllableContext):
        def start(self):
            calls.append("start")

        def close(self):
            calls.append("close")

    class Service(ControllableService):
        def start(self):
            calls.append("start")

        def shutdown(self):
            calls.append("shutdown")

        def join(self):
            calls.append("join")

    with Context() as context:
        assert isinstance(context, Context)
    with Service():
        pass
    assert calls == ["start", "close", "start", "shutdown", "join"]
