"""Comm learners: what they ask, publish and report, and how they go on after an end."""

import threading
import time

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch, batched
from ding.interaction import InprocTransport, TaskFail
from ding.parallel.messages import pack_batches, unpack_infos
from ding.parallel.planes import ChunkMissing, FileDataPlane, InprocDataPlane, InprocWeightPlane, open_planes
from ding.utils import POLICY_REGISTRY
from ding.worker.learner.comm import FlaskFileSystemLearner, InprocLearner, create_comm_learner
from ding.worker.testing import BatchedScriptedPolicy


class CountingPolicy(BatchedScriptedPolicy):
    """Its weights are the number of updates; its priorities are the rewards of the batch."""

    fail_at = None

    def __init__(self, cfg, enable_field=None):
        super().__init__(attributes={"batch_size": cfg.get("batch_size", 4), "cfg": cfg})
        self._cfg = cfg

    @batched
    def _forward_learn(self, data, **kwargs):
        self.weights["weight"] = self.weights["weight"] + 1
        if self._cfg.get("fail_at") == int(self.weights["weight"][0]):
            raise ZeroDivisionError("the policy fails here")
        self.learned.append(data)
        return {"cur_lr": 0.1, "total_loss": 0.5, "priority": torch.cat([row["reward"] for row in data])}


@pytest.fixture(autouse=True)
def _setup(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "counting" not in POLICY_REGISTRY:
        POLICY_REGISTRY.register("counting", CountingPolicy)
    made.clear()
    yield
    for learner in made:
        learner.close()


made = []
names = iter(range(10**6))


def make(name, **cfg):
    cfg = {"type": "inproc", "path_data": name, "path_policy": name, "transport": InprocTransport(),
           "publish_interval_s": 0.0, "prefetch_batches": 3, **cfg}  # fmt: skip
    learner = create_comm_learner(EasyDict(cfg))
    learner.start()
    made.append(learner)
    return learner


def task(name, iterations=5, policy=None, **cfg):
    return {
        "task_id": "t1",
        "policy_id": "p1",
        "buffer_id": "b1",
        "replay_buffer_size": 100,
        "learner_cfg": {"type": "base", "train_iterations": iterations, "exp_name": "exp", **cfg},
        "policy": {"type": "counting", **(policy or {})},
    }


def chunk(plane, first, rows=6):
    columns = {
        "obs": torch.arange(first, first + rows, dtype=torch.float32).reshape(rows, 1),
        "reward": torch.arange(first, first + rows, dtype=torch.float32).reshape(rows, 1),
        "done": np.zeros(rows, dtype=np.bool_),
    }
    return plane.put(TransitionBatch(columns), {})["chunk"]


def batch(number, chunks, rows):
    size = len(rows)
    ids = {"unique_id": list(range(size)), "buffer_idx": list(range(size))}
    weights = {"IS": [1.0] * size, "staleness": [0] * size, "use": [1] * size, "priority": [1.0] * size}
    return pack_batches([{"batch": number, "chunks": chunks, "rows": rows, **ids, **weights}])[0]


def feed(learner, chunks, number=0, ack=0, until=None):
    """Play the coordinator until the learner is done, or ``until(report)``; returns infos and the last report."""
    infos, report = [], learner.deal_with_get_data(2.0)
    deadline = time.monotonic() + 20
    while True:
        assert time.monotonic() < deadline
        new = [info for info in unpack_infos(report) if info["seq"] > ack]
        infos += [info["info"] for info in new]
        ack = new[-1]["seq"] if new else ack
        if report["done"] or (until is not None and until(report)):
            return infos, report
        batches = []
        for _ in report["demand"]:
            number += 1
            batches.append(batch(number, chunks, [[number % len(chunks), row] for row in range(4)]))
        report = learner.deal_with_learner_learn(batches, 0.5, ack)


def test_a_task_runs_to_its_end(planes_kind, new_root):
    name = new_root()
    planes = open_planes(planes_kind, name, name)
    learner, plane = make(name, planes=planes_kind), planes.data()
    assert learner.deal_with_resource() == {"gpu": 1}
    learner.deal_with_learner_start(task(name))
    learner.deal_with_learner_start(task(name))
    assert learner.deal_with_resource() == {"gpu": 1, "task_id": "t1"}
    first = learner.deal_with_get_data(5.0)
    assert first["demand"] == [{"batch_size": 4, "cur_learner_iter": number} for number in range(3)]
    chunks = [chunk(plane, 0), chunk(plane, 100)]
    infos, report = feed(learner, chunks)
    assert [info["learner_step"] for info in infos] == [0, 1, 2, 3, 4, 5]
    assert [info["learner_done"] for info in infos] == [False] * 5 + [True]
    assert {key: value.tolist() for key, value in infos[0]["priority_info"].items()} == {
        "priority": [100.0, 101.0, 102.0, 103.0], "replay_buffer_idx": [0, 1, 2, 3], "replay_unique_id": [0, 1, 2, 3]
    }  # fmt: skip
    assert report["final"]["learner_done"]
    assert report["demand"] == []
    policy = learner.learner.policy.forward.__self__
    columns = policy.learned[1].columns
    assert columns["obs"].tolist() == [[0.0], [1.0], [2.0], [3.0]]
    assert columns["IS"].tolist() == [1.0] * 4
    assert columns["staleness"].dtype == np.int64
    assert learner.deal_with_learner_close() == {
        "task_id": "t1", "buffer_id": "b1", "learner_step": 5, "learner_done": True
    }  # fmt: skip
    weights = planes.weights("p1").fetch()
    assert weights.version == 5
    assert weights.state["model"]["weight"].tolist() == [5.0, 5.0]


def test_a_subclass_that_overrides_get_data_changes_what_is_trained_on():
    class Halved(InprocLearner):
        def get_data(self, batch_size):
            return [
                lambda load=load: {**load(), "reward": 0.5 * load()["reward"]} for load in super().get_data(batch_size)
            ]

    name = f"run{next(names)}"
    plane = InprocDataPlane(name)
    learner = Halved(EasyDict(path_data=name, path_policy=name, transport=InprocTransport()))
    made.append(learner)
    learner.start()
    learner.deal_with_learner_start(task(name, iterations=2))
    infos, report = feed(learner, [chunk(plane, 100)])
    assert report["final"]["learner_done"]
    assert infos[0]["priority_info"]["priority"].tolist() == [50.0, 50.5, 51.0, 51.5]


def test_samples_of_a_chunk_are_read_as_a_script_does(tmp_path):
    plane = FileDataPlane(tmp_path)
    path = str(tmp_path / chunk(plane, 7, rows=3))
    one = FlaskFileSystemLearner.load_data_fn(path, {"unroll_split_begin": 1, "unroll_len": 1, "IS": 2.0}, None)
    assert {key: one[key] for key in ("obs", "done", "IS")} == {"obs": torch.tensor([8.0]), "done": False, "IS": 2.0}
    several = FlaskFileSystemLearner.load_data_fn(f"{path}.chunk", {"unroll_split_begin": 1, "unroll_len": 2}, None)
    assert [float(row["reward"]) for row in several] == [8.0, 9.0]
    assert len(FlaskFileSystemLearner.load_data_fn(path, {}, None)) == 3
    with pytest.raises(ChunkMissing):
        FlaskFileSystemLearner.load_data_fn(str(tmp_path / "none.01234567"), {}, None)


def test_a_subclass_that_overrides_load_data_fn_is_refused():
    with pytest.raises(TypeError, match="override get_data"):
        type("Own", (FlaskFileSystemLearner,), {"load_data_fn": staticmethod(lambda path, meta, decompressor: None)})


@pytest.mark.parametrize(
    ("queue", "method"),
    [
        ("_data_demand_queue", "get_data"),
        ("_data_result_queue", "get_data"),
        ("_learn_info_queue", "send_learn_info"),
    ],
)
def test_queues_of_the_original_name_the_method_to_override(queue, method, tmp_path):
    class Own(FlaskFileSystemLearner):
        def own_queue(self):
            return getattr(self, queue)

    learner = Own(EasyDict(host="127.0.0.1", port=0, path_data=str(tmp_path), path_policy=str(tmp_path)))
    made.append(learner)
    with pytest.raises(AttributeError, match=rf"^Own has no {queue}: .*override {method}\("):
        learner.own_queue()
    setattr(learner, queue, "its own")
    assert learner.own_queue() == "its own"


def test_policies_are_published_as_often_as_the_config_says():
    name = f"run{next(names)}"
    learner, plane = make(name), InprocDataPlane(name)
    versions = []
    original = learner.send_policy
    learner.send_policy = lambda state: (versions.append(state["iter"]), original(state))
    learner.deal_with_learner_start(task(name, iterations=7, send_policy_freq=3))
    feed(learner, [chunk(plane, 0)])
    assert versions == [0, 0, 3, 6, 7]


def test_within_the_interval_only_the_first_and_the_last_version_are_published():
    name = f"run{next(names)}"
    learner, plane = make(name, publish_interval_s=3600.0), InprocDataPlane(name)
    versions = []
    original = learner.send_policy
    learner.send_policy = lambda state: (versions.append(state["iter"]), original(state))
    learner.deal_with_learner_start(task(name, iterations=7))
    feed(learner, [chunk(plane, 0)])
    assert versions == [0, 7]


def test_a_league_player_is_published_too():
    name = f"run{next(names)}"
    learner, plane = make(name), InprocDataPlane(name)
    learner.deal_with_learner_start({**task(name, 2), "league_save_checkpoint_path": "player_0_ckpt.pth"})
    feed(learner, [chunk(plane, 0)])
    learner.deal_with_learner_close()
    assert InprocWeightPlane(name, "player_0_ckpt.pth").fetch().version == 2


def test_what_a_policy_fails_with_is_told():
    name = f"run{next(names)}"
    learner, plane = make(name), InprocDataPlane(name)
    learner.deal_with_learner_start(task(name, policy={"fail_at": 2}))
    with pytest.raises(ZeroDivisionError, match="fails here"):
        feed(learner, [chunk(plane, 0)])
    assert learner.deal_with_learner_close()["learner_done"] is False
    assert learner.deal_with_resource() == {"gpu": 1}


def test_a_learner_that_was_closed_goes_on_where_it_was(tmp_path):
    name = f"run{next(names)}"
    first, plane = make(name), InprocDataPlane(name)
    first.deal_with_learner_start(task(name, iterations=30))
    chunks = [chunk(plane, 0)]
    feed(first, chunks, until=lambda report: any(info["info"]["learner_step"] >= 9 for info in report["infos"]))
    policy = first.learner
    first.close()
    saved = policy.train_iter
    assert 10 <= saved < 30
    second = make(name)
    second.deal_with_learner_start(task(name, iterations=30))
    assert second.learner.train_iter >= saved
    infos, report = feed(second, chunks)
    assert infos[0]["learner_step"] == saved
    assert report["final"]["learner_step"] == 30
    weights = second.learner.policy.state_dict()["model"]["weight"]
    assert weights.tolist() == [30.0, 30.0]
    second.deal_with_learner_close()
    assert not list(tmp_path.glob("exp/ckpt/resume_*"))


def test_resume_points_are_saved_by_iterations(tmp_path):
    name = f"run{next(names)}"
    learner, plane = make(name, resume_ckpt_freq=4), InprocDataPlane(name)
    learner.deal_with_learner_start(task(name, iterations=11))
    for env_step in (400, 8):
        learner.note_env_step(env_step)
    feed(learner, [chunk(plane, 0)])
    state = torch.load(tmp_path / "exp" / "ckpt" / "resume_t1.pth.tar", weights_only=True)
    assert (state["last_iter"], state["last_step"]) == (8, 400)
    assert state["model"]["weight"].tolist() == [8.0, 8.0]


def test_a_chunk_that_is_gone_is_reported_and_its_batch_left_out():
    name = f"run{next(names)}"
    learner, plane = make(name), InprocDataPlane(name)
    good, bad = chunk(plane, 0), chunk(plane, 50)
    plane.release([bad])
    learner.deal_with_learner_start(task(name, iterations=2))
    learner.deal_with_get_data(2.0)
    rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    report = learner.deal_with_learner_learn([batch(1, [good, bad], rows)], 0.0)
    broken = list(report["broken_chunks"])
    deadline = time.monotonic() + 10
    while not broken and time.monotonic() < deadline:
        broken += learner.deal_with_get_data(0.05)["broken_chunks"]
    assert broken == [bad]
    infos, report = feed(learner, [good], number=1)
    assert len(infos) == 3


def test_batches_of_another_form_are_refused():
    name = f"run{next(names)}"
    learner = make(name)
    learner.deal_with_learner_start(task(name))
    for bad in ({}, {"batch": 1, "chunks": ["c"], "rows": [[0, 0]]}, {**batch(1, ["c"], [[0, 0]] * 4), "IS": [1.0]}):
        with pytest.raises(ValueError, match="batch"):
            learner.deal_with_learner_learn([bad])


def test_another_task_ends_the_one_before():
    name = f"run{next(names)}"
    learner = make(name)
    learner.deal_with_learner_start(task(name))
    before = learner.learner
    learner.deal_with_learner_start({**task(name), "task_id": "t2"})
    assert learner.deal_with_resource()["task_id"] == "t2"
    assert before is not learner.learner
    assert "learner-t1" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(KeyError, match="learner_cfg"):
        learner.deal_with_learner_start({"task_id": "t3", "policy_id": "p"})
    assert learner.deal_with_resource() == {"gpu": 1}


def test_get_data_gives_one_function_per_sample():
    name = f"run{next(names)}"
    learner, plane = make(name), InprocDataPlane(name)
    learner.deal_with_learner_start(task(name, iterations=1))
    feed(learner, [chunk(plane, 7)])
    learner.deal_with_learner_learn([batch(99, [chunk(plane, 7)], [[0, row] for row in range(4)])])
    samples = [load() for load in learner.get_data(4)]
    assert [sample["reward"].item() for sample in samples] == [7.0, 8.0, 9.0, 10.0]
    with pytest.raises(ValueError, match="not 3"):
        learner.get_data(3)


def ask(slave, task):
    """What a message of the coordinator makes the slave do."""
    return slave._process_task(task)


def test_the_slave_knows_its_tasks_and_ends_one_twice_without_harm():
    name = f"run{next(names)}"
    learner, plane = make(name), InprocDataPlane(name)
    slave = learner.slave
    assert ask(slave, {"name": "resource"}) == {"gpu": 1}
    with pytest.raises(TaskFail, match="illegal learner task 'collector_data_task'"):
        ask(slave, {"name": "collector_data_task"})
    for bad in ({"name": "learner_learn_task"}, {"name": "learner_start_task"},
                {"name": "learner_get_data_task", "max_wait_s": 10**9}):  # fmt: skip
        with pytest.raises(TaskFail):
            ask(slave, bad)
    ask(slave, {"name": "learner_start_task", "task_info": task(name, 1)})
    feed(learner, [chunk(plane, 0)])
    report = ask(slave, {"name": "learner_get_data_task", "max_wait_s": 0.0})
    assert (report["done"], report["task_id"], report["buffer_id"]) == (True, "t1", "b1")
    end = {"name": "learner_close_task", "task_id": "t1"}
    assert ask(slave, end) == ask(slave, end)
    with pytest.raises(TaskFail, match="task 't2' does not run here, but None"):
        ask(slave, {"name": "learner_close_task", "task_id": "t2"})
    ask(slave, {"name": "learner_start_task", "task_info": {**task(name, 1), "task_id": "t3"}})
    with pytest.raises(TaskFail, match="task 't2' does not run here, but 't3'"):
        ask(slave, {"name": "learner_get_data_task", "task_id": "t2"})
    ask(slave, {"name": "learner_close_task"})
    with pytest.raises(RuntimeError, match="no task"):
        ask(slave, {"name": "learner_close_task"})


def test_what_a_learner_sends_without_a_task_goes_nowhere():
    learner = make(f"run{next(names)}")
    learner.send_learn_info({"learner_step": 1})
    learner.send_policy({"model": {}, "iter": 0})
    assert [hook.position for hook in learner.hooks4call] == [
        *("before_run", "after_iter", "after_run"),
        *("after_iter", "after_run"),
    ]


def test_unknown_types_are_told():
    with pytest.raises(KeyError):
        create_comm_learner(EasyDict(type="flask_sf"))
    assert (
        FlaskFileSystemLearner.default_config().prefetch_batches
        == InprocLearner.default_config().prefetch_batches
        == 16
    )


def test_a_subclass_has_a_timer():
    class Timed(InprocLearner):
        def timed(self, work):
            with self._timer:
                work()
            return self._timer.value

    cfg = {"path_data": "timed", "path_policy": "timed", "transport": InprocTransport()}
    learner = Timed(EasyDict(cfg))
    made.append(learner)
    ran = []
    assert learner.timed(lambda: ran.append(1)) >= 0.0
    assert ran == [1]
