"""What the board's server answers, and what it refuses."""

import json
import socket

import pytest
from tensorboardX import SummaryWriter

from ding.entry.board.server import board_app

TOKEN = "a" * 32


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "runs" / "exp" / "seed0"
    (run / "log").mkdir(parents=True)
    (run / "log" / "learner.txt").write_text("x" * 100_000 + "the end")
    (run / "log" / "secret.key").write_text("secret")
    (run / "replay.mp4").write_bytes(b"film")
    (tmp_path / "outside.txt").write_text("outside")
    (run / "log" / "link.txt").symlink_to(tmp_path / "outside.txt")
    (run / "status.json").write_text(json.dumps({"state": "ended", "last_return": float("nan")}))
    (run / "total_config.py").write_text("main_config = {'seed': 0, 'most': float('inf')}")
    return tmp_path / "runs"


@pytest.fixture
def client(folder):
    client = board_app([folder], TOKEN, ("localhost",)).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    return client


@pytest.mark.parametrize(
    "path", ["/", "/static/board.js", "/api/runs", "/api/curves", "/?token=wrong", "/api/runs?token="]
)
def test_nothing_is_answered_without_the_token(folder, path):
    answer = board_app([folder], TOKEN, ("localhost",)).test_client().get(path)
    assert answer.status_code == 403
    assert TOKEN not in answer.text


def test_the_link_leaves_the_token_in_a_cookie_and_not_in_the_address(folder):
    client = board_app([folder], TOKEN, ("localhost",)).test_client()
    answer = client.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "<title>ding board</title>" in client.get("/", buffered=True).text
    assert client.get("/static/uPlot.iife.min.js", buffered=True).status_code == 200


def test_another_name_for_the_server_is_refused(client):
    assert client.get("/api/runs", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/api/runs", headers={"Host": "localhost:8000"}).status_code == 200


def test_answers_bring_no_foreign_content(client):
    headers = client.get("/api/runs").headers
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_numbers_that_json_does_not_have_are_null(client):
    (run,) = json.loads(client.get("/api/runs").text, parse_constant=pytest.fail)["runs"]
    assert (run["name"], run["last_return"], run["seed"]) == ("exp/seed0", None, 0)
    configs = json.loads(client.get(f"/api/configs?runs={run['id']}").text, parse_constant=pytest.fail)
    assert configs[run["id"]] == {"seed": 0, "most": None}


def test_logs_and_videos_of_the_run_only(client):
    run_id = client.get("/api/runs").json["runs"][0]["id"]
    detail = client.get(f"/api/run/{run_id}").json
    assert (detail["logs"], detail["videos"]) == (["log/learner.txt"], ["replay.mp4"])
    log = client.get(f"/api/run/{run_id}/log/log/learner.txt")
    assert (len(log.data), log.text.endswith("the end"), log.mimetype) == (64 * 1024, True, "text/plain")
    assert client.get(f"/api/run/{run_id}/video/replay.mp4", buffered=True).data == b"film"
    for name in ("log/link.txt", "log/secret.key", "../../../outside.txt", "%2e%2e/%2e%2e/outside.txt", "status.json"):
        assert client.get(f"/api/run/{run_id}/log/{name}").status_code == 404, name
    assert client.get("/api/run/nothing").status_code == 404


def damaged_events(folder):
    writer = SummaryWriter(str(folder))
    for step in range(20):
        writer.add_scalar("evaluator_step/reward_mean", float(step), step)
    writer.close()
    (file,) = folder.glob("events.*")
    data = bytearray(file.read_bytes())
    data[-6] ^= 0x80
    file.write_bytes(data)
    return file


@pytest.mark.parametrize(
    "status",
    [
        {"state": "running", "host": socket.gethostname(), "pid": 10**30},
        {"state": "running", "host": "another", "time_s": 10**400},
        {"state": "running", "host": ["x"], "pid": {}, "time_s": "now"},
        {"state": ["x"], "elapsed_s": {}, "last_return": "x"},
    ],
    ids=["pid", "time", "forms", "state"],
)
def test_one_damaged_run_leaves_the_others_on_the_board(client, folder, status):
    bad = folder / "bad"
    file = damaged_events(bad / "log")
    (bad / "status.json").write_text(json.dumps(status))
    for _ in range(2):
        answer = client.get("/api/runs")
        assert answer.status_code == 200
        runs = {run["name"]: run for run in answer.json["runs"]}
        assert set(runs) == {"bad", "exp/seed0"}
        assert runs["bad"]["fault"].startswith(f"{file} is damaged: ")
        assert client.get("/api/curves?metric=evaluator/reward_mean").status_code == 200
        assert client.get(f"/api/run/{runs['bad']['id']}").status_code == 200


def test_a_run_of_a_process_that_cannot_be_is_lost(client, folder):
    status = {"state": "running", "host": socket.gethostname(), "pid": 10**30}
    (folder / "exp" / "seed0" / "status.json").write_text(json.dumps(status))
    (run,) = client.get("/api/runs").json["runs"]
    assert run["state"] == "lost"


def test_an_unknown_axis_is_said(client):
    answer = client.get("/api/curves?axis=days")
    assert answer.status_code == 400
    assert "expected one of step, iter, hours" in answer.text
