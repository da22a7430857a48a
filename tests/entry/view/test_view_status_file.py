"""The status of a run as a file."""

import json

from ding.entry.view.status import RunStatus, finite
from ding.entry.view.status_file import StatusFile
from ding.parallel.launch import ProcessStatus


class Heard:
    """A view that notes its calls."""

    def __init__(self):
        self.calls = []

    def start(self, status):
        self.calls.append("start")

    def update(self, status):
        self.calls.append("update")

    def stopping(self):
        self.calls.append("stopping")

    def finish(self, sentence, ok):
        self.calls.append(("finish", sentence, ok))


def test_it_is_written_at_both_ends_and_now_and_then_between(tmp_path):
    now_s, heard = [0.0], Heard()
    view = StatusFile(heard, interval_s=2.0, clock=lambda: now_s[0])
    name, path = str(tmp_path / "run"), tmp_path / "run" / "status.json"
    path.parent.mkdir()

    def at(second, env_step):
        now_s[0] = second
        view.update(RunStatus(name, env_step=env_step, max_env_step=100))
        return json.loads(path.read_text())["env_step"]

    view.start(RunStatus(name))
    assert json.loads(path.read_text())["state"] == "running"
    assert [at(1.0, 10), at(2.0, 20), at(3.5, 35), at(4.0, 40), at(5.0, 50)] == [0, 20, 20, 40, 40]
    view.stopping()
    view.finish("stopped; nothing is lost", ok=False)
    last = json.loads(path.read_text())
    assert (last["state"], last["sentence"], last["env_step"]) == ("stopped", "stopped; nothing is lost", 50)
    assert (last["share"], last["rates"]["env_step"]) == (0.5, 10.0)
    assert heard.calls == ["start", *["update"] * 5, "stopping", ("finish", "stopped; nothing is lost", False)]


def test_a_run_goes_on_without_the_file_and_says_so_once(tmp_path, caplog):
    heard, name = Heard(), str(tmp_path / "gone" / "run")
    view = StatusFile(heard, interval_s=0.0, clock=lambda: 0.0)
    view.start(RunStatus(name))
    view.update(RunStatus(name, env_step=8))
    (tmp_path / "gone" / "run").mkdir(parents=True)
    view.finish("ended", ok=True)
    assert [record.getMessage().count("is not written") for record in caplog.records] == [1]
    assert json.loads((tmp_path / "gone" / "run" / "status.json").read_text())["state"] == "ended"
    assert heard.calls == ["start", "update", ("finish", "ended", True)]


def test_processes_and_numbers_that_json_does_not_have(tmp_path):
    view = StatusFile(Heard())
    processes = {"learner0": ProcessStatus("running", pid=7)}
    status = RunStatus(str(tmp_path), last_return=float("nan"), stop_value=float("inf"), processes=processes)
    view.start(status)
    view.finish("solved", ok=True)
    last = json.loads((tmp_path / "status.json").read_text())
    assert (last["last_return"], last["stop_value"], last["state"]) == (None, None, "ended")
    assert last["processes"]["learner0"]["pid"] == 7
    assert finite({"a": [1.0, float("inf"), "inf"], "b": (2, None)}) == {"a": [1.0, None, "inf"], "b": (2, None)}


def test_a_run_that_never_began_leaves_no_file(tmp_path):
    StatusFile(Heard()).finish("ended by an error", ok=False)
    assert not list(tmp_path.iterdir())
