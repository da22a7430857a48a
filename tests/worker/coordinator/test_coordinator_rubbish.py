"""Workers that answer rubbish are quarantined, with the name of the field, and others do their tasks (R23)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from parallel_fakes import FakeCollector, FakeLearner, wait_until
from test_coordinator_faults import Run

from ding.worker.coordinator.errors import TaskGaveUp, WorkerTaskFailed
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.session import checked_answer


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


GOOD = {
    "collector_data_task": {
        "seq": 1,
        "refs": [{"chunk": "c-1.0", "rows": 4, "seq": 1}],
        "info": None,
        "buffer_id": "b",
    },
    "collector_close_task": {
        "seq": 0,
        "refs": [],
        "eval_flag": False,
        "step_count": 8,
        "reward_mean": 1.5,
        "own": object,
    },
    "learner_learn_task": {
        "demand": [{"batch_size": 4, "cur_learner_iter": 0}],
        "infos": [{"seq": 1, "info": {"learner_step": 0, "learner_done": False, "priority_info": {}}}],
        "loaded": 1,
        "broken_chunks": [],
        "policy_version": 3,
        "done": False,
        "final": {},
    },
    "resource": {"gpu": 1, "task_id": "t"},
}
# Message, path of the field, and what stands there.
RUBBISH = [
    *(("collector_data_task", "seq", value) for value in (None, "1", -1, 1.5, [], {}, 10**30)),
    *(("collector_data_task", "refs", value) for value in ("x", 5, {}, [5], [None], [[]], ["c-1.0"], [{"rows": 4}])),
    *(("collector_data_task", "refs.0.chunk", value) for value in (None, 5, [], {})),
    *(("collector_data_task", "refs.0.seq", value) for value in (None, "1", -1, 0.5, 10**30)),
    *(("collector_data_task", "info", value) for value in ("x", 5, [])),
    *(("collector_data_task", "buffer_id", value) for value in (5, [], "another")),
    *(("collector_close_task", "step_count", value) for value in ("8", -1, float("nan"), [], 10**30)),
    *(("collector_close_task", "reward_mean", value) for value in ("1", [], {})),
    ("collector_close_task", "eval_flag", "yes"),
    *(("learner_learn_task", "demand", value) for value in ("x", 5, {}, [5], [{}], [{"batch_size": 4}] * 5000)),
    *(("learner_learn_task", "demand.0.batch_size", value) for value in (0, -1, "4", 10**12, None)),
    *(("learner_learn_task", "infos.0.seq", value) for value in (None, "1", -1)),
    *(("learner_learn_task", "infos.0.info", value) for value in (None, "x", [])),
    *(("learner_learn_task", "infos.0.info.learner_step", value) for value in ("x", -5, [])),
    *(("learner_learn_task", "loaded", value) for value in ("1", -1, None)),
    *(("learner_learn_task", "broken_chunks", value) for value in ("x", [5])),
    ("learner_learn_task", "done", "yes"),
    ("learner_learn_task", "final", []),
    ("resource", "task_id", 5),
]


def with_rubbish(name, path, value):
    """A good answer with ``value`` at the end of the path."""

    def changed(node, keys):
        if not keys:
            return value
        if isinstance(node, list):
            return [changed(node[0], keys[1:]), *node[1:]]
        return {**node, keys[0]: changed(node[keys[0]], keys[1:])}

    return changed(GOOD[name], path.split("."))


@pytest.mark.parametrize("name", GOOD)
def test_good_answers_pass_unchanged(name):
    assert checked_answer(GOOD[name], name, "w", "b") is GOOD[name]


@pytest.mark.parametrize(("name", "path", "value"), RUBBISH)
def test_rubbish_is_refused_with_the_name_of_the_field(name, path, value):
    field = path.split(".")[-1] if not path.split(".")[-1].isdigit() else path.split(".")[-2]
    with pytest.raises(WorkerTaskFailed, match=rf"w answered {name}.*{field}"):
        checked_answer(with_rubbish(name, path, value), name, "w", "b")


@pytest.mark.parametrize("answer", [None, 5, "x", [], [{}], True])
def test_what_is_no_dict_is_refused(answer):
    with pytest.raises(WorkerTaskFailed, match="expected a dict"):
        checked_answer(answer, "collector_data_task", "w")


class BadCollector(FakeCollector):
    """Answers each message but the first ones with what it was given."""

    def __init__(self, name, rubbish, at="collector_data_task"):
        super().__init__(name)
        self.rubbish, self.at = rubbish, at

    def handle(self, data):
        answer = super().handle(data)
        return self.rubbish if data["name"] == self.at else answer


@pytest.mark.parametrize(
    ("rubbish", "at"),
    [
        ([], "collector_data_task"),
        ({"seq": 1, "refs": [{"chunk": "../x", "rows": 4, "seq": 1}]}, "collector_data_task"),
        ({"seq": 1, "refs": [{"chunk": "x", "rows": 10**9, "seq": 1}]}, "collector_data_task"),
        ("x", "resource"),
    ],
)
def test_a_worker_that_answers_rubbish_is_quarantined_and_others_do_its_tasks(rubbish, at):
    with Run(collector_tasks=6) as run:
        run.hub.join(FakeLearner(iterations=10**6))
        bad = BadCollector("c0", rubbish, at)
        run.hub.join(FakeCollector("c1"))
        while run.coordinator.status()["workers"].get("c0", {}).get("state") != "quarantined":
            if run.coordinator.status()["workers"].get("c0") is None:
                run.hub.join(bad)
            assert run.coordinator.exception is None
            if len(run.commander.finished) == 6:
                run.commander.left["collector"] += 6
                run.commander.finished.clear()
                run.coordinator.workers_changed()
        run.commander.left["collector"] += 1
        begun = bad.log.count("collector_start_task")
        done = len(run.commander.finished)
        run.coordinator.workers_changed()
        wait_until(lambda: len(run.commander.finished) > done)
        assert bad.log.count("collector_start_task") == begun
        assert run.coordinator.status()["workers"]["c0"]["error"]
        assert run.coordinator.exception is None


def test_a_task_that_fails_everywhere_fails():
    with Run(collector_tasks=4) as run:
        run.hub.join(FakeLearner(iterations=10**6))
        for number in range(3):
            run.hub.join(BadCollector(f"c{number}", {"seq": "x"}))
        wait_until(lambda: run.coordinator.system_shutdown_flag)
        error = run.coordinator.exception
    assert isinstance(error, TaskGaveUp)
    assert "seq" in str(error)
    assert "Expected `int`" in str(error)


def test_a_bad_worker_that_is_alone_ends_the_run():
    with Run() as run:
        run.hub.join(FakeLearner(iterations=10**6))
        run.hub.join(BadCollector("c0", {"seq": "x"}))
        wait_until(lambda: run.coordinator.system_shutdown_flag)
    assert isinstance(run.coordinator.exception, TaskGaveUp)


def test_a_quarantine_outlives_the_coordinator(tmp_path):
    path = str(tmp_path / "coordinator.sqlite")
    bad = BadCollector("c0", "x", "resource")
    with Run(journal=Journal(path)) as run:
        while run.coordinator.status()["workers"].get("c0", {}).get("state") != "quarantined":
            run.hub.join(bad)
    bad.rubbish, bad.at, bad.link = None, "nothing", None
    with Run(journal=Journal(path), collector_tasks=0) as run:
        run.hub.join(bad)
        wait_until(lambda: "c0" in run.coordinator.status()["workers"])
        assert run.coordinator.status()["workers"]["c0"]["state"] == "quarantined"
        assert "expected a dict" in run.coordinator.status()["workers"]["c0"]["error"]
