"""Every check of the endpoints: status and code, on every backend."""

from __future__ import annotations

import pytest

from ding.interaction import Master, fetch_status, request_scale
from ding.interaction.exception import (
    MasterErrorCode,
    ResponseException,
    RunTokenInvalid,
    SlaveErrorCode,
    UnreachableError,
    get_master_exception_by_error,
    get_master_exception_class_by_error_code,
    get_slave_exception_by_error,
    get_slave_exception_class_by_error_code,
)
from ding.interaction.messages import ResponseValues

WAIT_S = 20.0
RUN_TOKEN = "0123456789abcdef" * 4
TOKEN = {"Channel": "0", "Token": "t" * 64}
TASK = {"task": {"id": "a"}, "data": {"name": "sum", "a": 1, "b": 1}}


@pytest.fixture
def address(network, services):
    return services(Master(port=0, transport=network)).my_address


@pytest.mark.parametrize(
    ("headers", "data", "expected"),
    [
        ({"Token": "t"}, None, (400, 201)),
        ({"Token": "t", "Channel": "1"}, None, (403, 202)),
        ({"Token": "t", "Channel": "one"}, None, (403, 202)),
        ({"Token": "t", "Channel": "--1"}, None, (403, 202)),
        ({"Token": "t", "Channel": "9" * 5000}, None, (403, 202)),
        ({"Channel": "0"}, None, (400, 301)),
        (TOKEN, None, (400, 802)),
        (TOKEN, [], (400, 802)),
        (TOKEN, {"master": {}}, (400, 802)),
        (TOKEN, {"master": {"address": 5}}, (400, 802)),
        (TOKEN, {"master": {"address": "ftp://x"}}, (400, 802)),
        (TOKEN, {"master": {"address": "http://x:99999"}}, (400, 802)),
    ],
)
def test_connect_refuses(make_worker, raw, headers, data, expected):
    worker = make_worker()
    assert raw(worker, "POST", "/connect", headers, data) == expected
    assert not worker.is_connected


def test_life_of_a_connection_by_hand(make_worker, raw, address):
    worker = make_worker()
    connect = {"master": {"address": address}, "data": {}}
    other = {"Channel": "0", "Token": "u" * 64}
    assert raw(worker, "DELETE", "/disconnect", TOKEN) == (400, 502)
    assert raw(worker, "POST", "/task/new", TOKEN, TASK) == (400, 502)
    assert raw(worker, "POST", "/connect", TOKEN, connect) == (200, 0)
    assert raw(worker, "POST", "/connect", TOKEN, connect) == (200, 0)  # the same again: the answer was lost
    assert raw(worker, "POST", "/connect", other, connect) == (400, 501)
    assert raw(worker, "POST", "/task/new", other, TASK) == (403, 302)
    assert raw(worker, "DELETE", "/disconnect", other) == (403, 302)
    assert raw(worker, "DELETE", "/disconnect", {"Channel": "0"}) == (400, 301)
    assert raw(worker, "DELETE", "/disconnect", TOKEN) == (200, 0)
    assert worker.statistics().connections == 1


def test_task_refuses(make_worker, raw, address):
    worker = make_worker()
    raw(worker, "POST", "/connect", TOKEN, {"master": {"address": address}})
    for data in (None, {"task": "a"}, {"task": {}}, {"task": {"id": 5}}, {"task": {"id": "../a"}}):
        assert raw(worker, "POST", "/task/new", TOKEN, data) == (400, 802)
    deep = value = []
    for _ in range(100):
        value.append([])
        value = value[0]
    assert raw(worker, "POST", "/task/new", TOKEN, {"task": {"id": "a"}, "data": deep}) == (400, 802)
    for imports in (["os"], "os"):
        data = {"task": {"id": "a"}, "data": {"x": [{"import_names": imports}]}}
        assert raw(worker, "POST", "/task/new", TOKEN, data) == (400, 802)
    assert worker.seen_tasks == []


@pytest.mark.parametrize("path", ["/ping", "/shutdown"])
def test_own_routes(make_worker, make_master, raw, network, path):
    for service in (make_worker(), make_master()):
        method = "GET" if path == "/ping" else "DELETE"
        assert raw(service, method, path) == (400, 401)
        assert raw(service, method, path, {"Token": "t" * 64}) == (403, 402)
        assert service.ping()
        assert raw(service, method, path, {"Token": network.tokens[service.port, "/ping"]}) == (200, 0)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/slave/heartbeat"),
        ("PUT", "/slave/task/complete"),
        ("PUT", "/slave/task/fail"),
        ("DELETE", "/slave/leave"),
    ],
)
def test_master_refuses(make_master, raw, method, path):
    master = make_master()
    assert raw(master, method, path, {"Token": "t"}) == (400, 201)
    assert raw(master, method, path, {"Token": "t", "Channel": "x"}) == (403, 202)
    assert raw(master, method, path, {"Token": "t", "Channel": "-7"}) == (403, 202)
    assert raw(master, method, path, {"Channel": "0"}) == (400, 501)
    assert raw(master, method, path, {"Channel": "0", "Token": "t"}) == (403, 502)


def test_results_by_hand(make_master, make_worker, raw, network):
    master, worker = make_master(), make_worker()
    with master.new_connection("conn", "127.0.0.1", worker.port) as connection:
        headers = {"Channel": "0", "Token": network.tokens[worker.port, "/connect"]}
        for data in (None, {}, {"task": {}}, {"task": {"id": None}}, {"task": []}):
            assert raw(master, "PUT", "/slave/task/complete", headers, data) == (400, 601)
        assert raw(master, "PUT", "/slave/task/complete", headers, {"task": {"id": "no"}, "result": {}}) == (200, 0)
        task = connection.new_task({"name": "echo", "value": 1}, task_id="a").start().join(WAIT_S)
        for path in ("complete", "fail"):
            doubled = {"task": {"id": "a"}, "result": 2}
            assert raw(master, "PUT", f"/slave/task/{path}", headers, doubled) == (200, 0)
        assert task.result == 1
        zombie = {"task": {"id": "a"}, "result": 2, "worker": {"incarnation": "other"}}
        assert raw(master, "PUT", "/slave/task/complete", headers, zombie) == (409, 902)
    counted = master.statistics()
    assert (counted.results_unknown, counted.results_duplicate, counted.results_rejected) == (1, 2, 1)
    assert counted.tasks_completed == 1


def test_enrol_refuses(make_master, raw):
    master = make_master()
    good = {"name": "w", "role": "collector", "address": "http://127.0.0.1:1", "incarnation": "i", "resource": {}}
    channel = {"Channel": "0"}
    for change in (
        {"name": "../w"},
        {"role": 1},
        {"address": "nowhere:x"},
        {"incarnation": ""},
        {"resource": []},
        {"x": 1},
    ):
        assert raw(master, "POST", "/slave/enrol", channel, {**good, **change}) == (400, 802)
    assert raw(master, "POST", "/slave/enrol", {}, good) == (400, 201)
    assert master.statistics().enrolments == 0
    assert raw(master, "POST", "/slave/enrol", channel, good) == (200, 0)


def test_unknown_routes(make_master, make_worker, raw):
    for service in (make_master(), make_worker()):
        assert raw(service, "GET", "/nowhere") == (404, 804)
        assert raw(service, "PATCH", "/ping") == (405, 805)


def test_run_token_comes_first(make_master, make_worker, raw):
    for service in (make_master(), make_worker()):
        for method, path in [*service.routes, ("GET", "/nowhere")]:
            for header, expected in ((None, (401, 701)), ("", (401, 701)), ("Bearer x", (403, 702)), ("x", (403, 702))):
                headers = {"Authorization": header, **TOKEN}
                assert raw(service, method, path, headers) == expected, (method, path)


def test_status(make_master, network):
    assert fetch_status_of(make_master(), network)["slaves"] == []
    assert fetch_status_of(make_master(status=lambda: {"x": float("inf")}), network) == {"x": float("inf")}
    with pytest.raises(RunTokenInvalid):
        fetch_status(make_master().my_address, "wrong" * 10, transport=network)
    closed = make_master()
    closed.close()
    with pytest.raises(UnreachableError):
        fetch_status_of(closed, network)


def fetch_status_of(master, network):
    return fetch_status(master.my_address, RUN_TOKEN, transport=network)


def test_a_run_is_scaled_by_who_has_its_token(make_master, network, raw):
    asked = []
    address = make_master(scale=lambda collectors: asked.append(collectors) or {"before": 2}).my_address
    assert request_scale(address, 8, RUN_TOKEN, transport=network) == {"before": 2}
    with pytest.raises(ResponseException):
        request_scale(address, 8, "wrong" * 10, transport=network)
    with pytest.raises(ResponseException):
        request_scale(address, 0, RUN_TOKEN, transport=network)
    assert asked == [8]
    # A master of anything else has no such path.
    assert raw(make_master(), "POST", "/scale", {}, {"collectors": 8})[0] == 404


def test_a_hook_that_fails_is_an_internal_error(make_master, raw, caplog):
    master = make_master(status=lambda: 1 / 0)
    assert raw(master, "GET", "/status") == (500, 1001)
    assert "ZeroDivisionError" in caplog.text


def test_every_code_has_its_class():
    assert len(MasterErrorCode) == 11
    assert len(SlaveErrorCode) == 14
    for codes, find, side in (
        (MasterErrorCode, get_master_exception_by_error, "Master"),
        (SlaveErrorCode, get_slave_exception_by_error, "Slave"),
    ):
        for code in codes:
            error = find(ResponseValues(400, False, int(code), "text", {"a": 1}))
            assert type(error).__name__ == side + "".join(part.capitalize() for part in code.name.split("_"))
            assert (error.status_code, error.success, error.code) == (400, False, int(code))
            assert (error.message, error.data) == ("text", {"a": 1})
        unknown = find(ResponseValues(400, False, 12345, "text", None))
        assert type(unknown).__name__ == f"{side}ResponseException"


@pytest.mark.parametrize(
    ("codes", "class_of", "prefix"),
    [
        (MasterErrorCode, get_master_exception_class_by_error_code, "Master"),
        (SlaveErrorCode, get_slave_exception_class_by_error_code, "Slave"),
    ],
)
def test_each_code_has_the_exception_class_of_its_name(codes, class_of, prefix):
    for code in codes:
        assert class_of(int(code)).__name__ == prefix + code.name.title().replace("_", "")
    with pytest.raises(KeyError):
        class_of(-1)
