"""The parts below masters and slaves: wire, schema, addresses, HTTP client, answers, tokens, events."""

from __future__ import annotations

import json
import math
import os
import threading

import flask
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from ding.interaction import inproc, read_run_token, write_run_token
from ding.interaction.base import (
    ControllableContext,
    ControllableService,
    DblEvent,
    HttpEngine,
    ResponsibleException,
    TlsConfig,
    default_func,
    failure_response,
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
from ding.interaction.base.server import HttpServer
from ding.interaction.base.token import TokenGuard
from ding.interaction.base.transport import Client, HttpTransport, resolve_transport
from ding.interaction.exception import (
    InteractionError,
    ResponseException,
    SchemaError,
    ServiceClosed,
    TokenFileError,
    UnreachableError,
    WireError,
    get_slave_exception_by_error,
)
from ding.interaction.schema import (
    Boolean,
    Identifier,
    Integer,
    ListOf,
    Nullable,
    Number,
    ObjectOf,
    OneOf,
    Record,
    Text,
    check,
)
from ding.interaction.wire import dumps, loads

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
    for body in (b"[" * 65 + b"]" * 65, b"[" * 1_000_000, b'{"a":' * 65 + b"1" + b"}" * 65):
        with pytest.raises(WireError, match="deeper than 64"):
            loads(body)
    wide = [["[{"]] * 100
    assert loads(dumps(wide)) == wide
    hostile = b'"' + b"[" * 100 + b'\\"' * 500_000
    with pytest.raises(WireError, match="no JSON"):
        loads(hostile)


def test_what_cannot_be_sent():
    circle: list = []
    circle.append(circle)
    for value in (object(), {1, 2}, circle, {(1, 2): 3}):
        with pytest.raises(WireError):
            dumps(value)


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        (1, Text(), "body: expected a text, got int"),
        ("abc", Text(max_length=2), "at most 2 characters, got 3"),
        ("a/b", Identifier(), "an identifier that matches"),
        ("..", Identifier(), "an identifier"),
        ("", Identifier(), "an identifier"),
        ("a\n", Identifier(), "an identifier"),
        (True, Integer(), "expected an integer, got bool"),
        (5, Integer(maximum=4), "at most 4"),
        (-1, Number(minimum=0), "at least 0"),
        (math.nan, Number(minimum=0), "at least 0"),
        (1, Boolean(), "a boolean"),
        ("colector", OneOf(("collector", "learner")), "Did you mean 'collector'"),
        (True, OneOf((1, 2)), "one of"),
        ([1, "x"], ListOf(Integer()), r"body\[1\]: expected an integer"),
        ([1, 2], ListOf(max_length=1), "at most 1 items"),
        ({"a": "x"}, ObjectOf(Integer()), "body.'a': expected an integer"),
        ({}, Record({"id": Text()}), "the key 'id' is missing"),
        ({"id": "x", "dta": 1}, Record({"id": Text()}, {"data": Integer()}), "Did you mean 'data'"),
        ({"a": {"b": 1}}, Record({"a": Record({"b": Text()})}), "body.a.b: expected a text"),
        ("x", Nullable(Integer()), "an integer"),
    ],
)
def test_what_does_not_fit(value, schema, message):
    with pytest.raises(SchemaError, match=message):
        check(value, schema)


def test_what_fits():
    for value, schema in (
        ("a-1_b.c", Identifier()),
        (None, Nullable(Integer())),
        (3, Number(0, 3)),
        ([], ListOf(Integer())),
        ({"id": 1, "more": 2}, Record({"id": Integer()}, extra=True)),
        ("a", OneOf(("a",))),
    ):
        assert check(value, schema) is value


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
    endpoint.add("POST", "/echo", lambda call: Answer("echo", {"body": call.body(ObjectOf()), "x": call.header("X")}))
    endpoint.add("GET", "/refuse", lambda call: refuse())
    server = HttpServer(endpoint, "127.0.0.1", 0)
    yield server
    server.close()
    server.close()


def refuse():
    raise ResponsibleException(233, "no", {"a": 1}, 404)


def test_http_engine(server):
    engine = HttpEngine("127.0.0.1", server.port)
    response = engine.request("POST", "echo", {"a": math.inf}, {"X": "1"})
    assert get_values_from_response(response) == (200, True, 0, "echo", {"body": {"a": math.inf}, "x": "1"})
    with pytest.raises(requests.HTTPError):
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
    port = server.port
    server.close()
    engine = HttpEngine("127.0.0.1", port)
    sent = []
    send = engine._send
    engine._send = lambda *args: sent.append(1) or send(*args)
    for retries in (0, 2):
        sent.clear()
        with pytest.raises(requests.ConnectionError):
            engine.request("GET", "ping", retries=retries, retry_waiting=0.0)
        assert len(sent) == retries + 1
    engine.close()


def test_an_answer_that_is_no_json_is_no_answer():
    app_server = HttpServer(Endpoint(TokenGuard(None)), "127.0.0.1", 0)
    app_server._server.application = lambda environ, start: start("200 OK", [("Content-Length", "2")]) or [b"hi"]
    wire = HttpTransport().open("127.0.0.1", app_server.port)
    with pytest.raises(UnreachableError, match="no JSON"):
        wire.send("GET", "/x", None, {}, WAIT_S)
    wire.close()
    app_server.close()


def test_client_gives_up_when_closed():
    wire = inproc.InprocTransport().open("127.0.0.1", 1)
    client = Client(wire, dict, get_slave_exception_by_error, retries=10**6, retry_waiting_s=WAIT_S)
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
    assert resolve_transport("inproc", None) is inproc.default_network()
    for bad in ("carrier pigeon", 5):
        with pytest.raises(ValueError, match="transport must be"):
            resolve_transport(bad, None)
    with pytest.raises(ValueError, match="tls"):
        resolve_transport("inproc", TlsConfig(cafile="x"))
    for bad in ({}, {"certfile": "x", "mutual": True}):
        with pytest.raises(ValueError):
            TlsConfig(**bad)


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
    response = requests.get(f"http://127.0.0.1:{server.port}/refuse", timeout=WAIT_S)
    error = ResponseException(requests.HTTPError(response=response))
    assert (error.status_code, error.success, error.code) == (404, False, 233)
    assert (error.message, error.data) == ("no", {"a": 1})
    assert isinstance(error, InteractionError)
    with pytest.raises(ValueError, match="without a response"):
        ResponseException(requests.HTTPError())


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
