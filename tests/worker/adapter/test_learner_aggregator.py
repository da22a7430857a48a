import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from easydict import EasyDict

sys.path.insert(0, str(Path(__file__).parents[1] / "coordinator"))
from parallel_fakes import wait_until

from ding.interaction import InprocTransport, Master, Slave, TaskFail
from ding.interaction.master import TaskStatus
from ding.parallel.messages import unpack_infos
from ding.worker.adapter import LearnerAggregator, WorkersMissing
from ding.worker.adapter.batch_split import merge_reports, split_batch, split_list


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Learner(Slave):
    """Answers as a classic learner with batches of 32; ``broken`` fails at learning."""

    broken = False

    def _process_task(self, task):
        name = task["name"]
        ids = {"task_id": "t", "buffer_id": "b"}
        if name == "resource":
            return {"gpu": 1}
        if name == "learner_start_task":
            return {"message": "learner task has started"}
        if name == "learner_get_data_task":
            return {**ids, "batch_size": 32, "cur_learner_iter": 1}
        if name == "learner_learn_task":
            if self.broken:
                raise TaskFail(result={"message": "broken"}, message="broken")
            info = {
                "learner_step": 3,
                "priority_info": {"priority": list(task["data"])},
                "loss": 0.5,
                "learner_done": False,
            }
            return {**ids, "info": info}
        if name == "learner_close_task":
            return ids
        raise TaskFail(result={"message": "task name error"}, message="illegal")


@pytest.fixture
def system():
    network = InprocTransport()
    learners = [Learner("127.0.0.1", 0, transport=network) for _ in range(4)]
    for learner in learners:
        learner.start()
    ports = [int(learner.my_address.rpartition(":")[2]) for learner in learners]
    cfg = EasyDict(
        slave={"host": "127.0.0.1", "port": 0, "transport": network},
        master={"host": "127.0.0.1", "port": 0, "transport": network},
        learner={str(i): (f"learner{i}", "127.0.0.1", port) for i, port in enumerate(ports)},
    )
    aggregator = LearnerAggregator(cfg)
    aggregator.start()
    master = Master("127.0.0.1", 0, transport=network)
    master.start()
    connection = master.new_connection("agg", "127.0.0.1", int(aggregator.slave.my_address.rpartition(":")[2]))
    connection.connect()

    def ask(**data):
        return connection.new_task(data).start().join(20)

    yield ask, learners, aggregator
    connection.close()
    master.close()
    aggregator.close()
    for learner in learners:
        learner.close()


def test_four_learners_appear_as_one(system):
    ask, learners, _ = system
    assert ask(name="resource").result == {"gpu": 4}
    assert ask(name="learner_start_task", task_info={}).result == {"message": "learner task has started"}
    demand = ask(name="learner_get_data_task").result
    assert demand == {"task_id": "t", "buffer_id": "b", "batch_size": 128, "cur_learner_iter": 1}
    result = ask(name="learner_learn_task", data=list(range(128))).result
    assert result["task_id"] == "t"
    assert result["info"]["priority_info"]["priority"] == list(range(128))
    assert result["info"]["learner_step"] == 3
    assert result["info"]["loss"] == [0.5] * 4
    assert ask(name="learner_close_task").result == {"task_id": "t", "buffer_id": "b"}


def test_an_unknown_task_fails(system):
    ask, _, _ = system
    task = ask(name="fake_task")
    assert task.status == TaskStatus.FAILED
    assert task.result == {"message": "task name error"}


def test_one_learner_that_fails_fails_the_task(system):
    ask, learners, _ = system
    ask(name="learner_get_data_task")
    learners[2].broken = True
    task = ask(name="learner_learn_task", data=list(range(128)))
    assert task.status == TaskStatus.FAILED
    assert "learner2" in task.result["message"]
    assert "broken" in task.result["message"]


def test_a_learner_that_left_does_not_count(system):
    ask, learners, aggregator = system
    aggregator.drop_worker("learner3", "learner", "test")
    assert ask(name="resource").result == {"gpu": 3}
    assert ask(name="learner_get_data_task").result["batch_size"] == 96


@pytest.fixture
def enrolling():
    """An aggregator of two learners that enrol, at a coordinator where it enrols itself."""
    network = InprocTransport()
    seen = []

    class Coordinator(Master):
        def _enrolled(self, name, role, address, incarnation, resource):
            seen.append((name, role, resource))

    coordinator = Coordinator("127.0.0.1", 0, transport=network)
    coordinator.start()
    here = {"host": "127.0.0.1", "port": 0, "transport": network}
    aggregator = LearnerAggregator(
        EasyDict(
            slave={**here, "coordinator_address": coordinator.my_address, "name": "learner0"},
            master=here,
            learner_num=2,
            connect_timeout_s=20.0,
        )
    )
    address, learners = aggregator.listen(), {}

    def add(name):
        learner = Learner("127.0.0.1", 0, transport=network)
        learner.start()
        learner.enrol(address, name, "learner", {"gpu": 1})
        learners[name] = learner

    yield aggregator, add, learners, seen
    aggregator.close()
    for learner in learners.values():
        learner.close()
    coordinator.close()


def test_it_enrols_when_all_its_learners_have(enrolling):
    aggregator, add, _, seen = enrolling
    starting = threading.Thread(target=aggregator.start, daemon=True)
    starting.start()
    add("learner0_rank10")
    assert not seen
    add("learner0_rank9")
    starting.join(20)
    assert not starting.is_alive()
    wait_until(lambda: seen)
    assert seen[0] == ("learner0", "learner", {"gpu": 2})
    assert aggregator.learners == ["learner0_rank9", "learner0_rank10"]


def test_learners_that_do_not_come_are_counted(enrolling, monkeypatch):
    aggregator, add, _, _ = enrolling
    add("learner0_rank1")
    aggregator.wait_complete(0.5)
    aggregator._cfg.connect_timeout_s = 1.0
    with pytest.raises(WorkersMissing, match=r"2 learners must come, came: learner0_rank1"):
        aggregator.start()


def test_a_learner_that_does_not_come_back_fails_the_task_and_is_told(enrolling, monkeypatch):
    monkeypatch.setattr("ding.worker.adapter.learner_aggregator._REJOIN_S", 0.05)
    aggregator, add, learners, _ = enrolling
    told = []
    aggregator.on_incomplete = told.append
    add("learner0_rank0")
    add("learner0_rank1")
    aggregator.start()
    assert aggregator.deal_with_get_data({"name": "learner_get_data_task"})["batch_size"] == 64
    learners["learner0_rank1"].close()
    # A message that the loss crosses fails too, with another reason.
    wait_until(lambda: aggregator.learners == ["learner0_rank0"])
    with pytest.raises(TaskFail, match="1 of 2 learners are connected: learner0_rank0"):
        aggregator.deal_with_get_data({"name": "learner_get_data_task"})
    assert told == ["1 of 2 learners are connected: learner0_rank0"]
    # Another process in its place.
    learners.pop("learner0_rank1")
    add("learner0_rank1")
    assert aggregator.wait_complete(20)
    assert aggregator.deal_with_get_data({"name": "learner_get_data_task"})["batch_size"] == 64


class Operator(BaseHTTPRequestHandler):
    """Names two learners and a collector that nobody must touch."""

    def do_GET(self):
        self._send({"learners": self.server.learners, "collectors": ["127.0.0.1:1"]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, body))
        self._send({})

    def _send(self, data):
        self.server.paths.append(self.path)
        text = json.dumps({"success": True, "code": 0, "message": "", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


def test_in_a_pod_the_learners_are_those_of_the_operator(monkeypatch):
    operator = ThreadingHTTPServer(("127.0.0.1", 0), Operator)
    learners = [Learner("127.0.0.1", 0) for _ in range(2)]
    for learner in learners:
        learner.start()
    operator.seen, operator.paths = [], []
    operator.learners = [learner.my_address.partition("://")[2] for learner in learners]
    thread = threading.Thread(target=operator.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("KUBERNETES_SERVER_URL", f"http://127.0.0.1:{operator.server_port}")
    monkeypatch.setenv("KUBERNETES_POD_NAME", "job-aggregator")
    monkeypatch.setenv("KUBERNETES_POD_NAMESPACE", "ns")
    aggregator = LearnerAggregator(
        EasyDict(slave={"port": 0}, master={"port": 0}, learner_num=2, connect_timeout_s=20.0)
    )
    try:
        aggregator.start()
        assert aggregator.deal_with_get_resource() == {"gpu": 2}
        assert operator.paths[0] == "/v1alpha1/replicas?namespace=ns&aggregator=job-aggregator"
        # One more look has passed when the operator takes a learner back.
        operator.learners.pop()
        wait_until(lambda: aggregator.deal_with_get_resource() == {"gpu": 1})
        assert operator.seen == []
    finally:
        aggregator.close()
        for learner in learners:
            learner.close()
        operator.shutdown()
        operator.server_close()
        thread.join(5)


def test_waiting_for_learners_can_be_given_up(enrolling):
    aggregator, _, _, _ = enrolling
    threading.Timer(0.1, aggregator.cancel).start()
    with pytest.raises(WorkersMissing, match="came: none"):
        aggregator.start()


def test_merge_info_goes_by_the_type_of_the_first():
    merge = LearnerAggregator.merge_info
    assert merge([None, None]) == [None, None]
    assert merge([1, 2.5]) == [1, 2.5]
    assert merge(["a", "b"]) == ["a", "b"]
    assert merge([[1], (2, 3)]) == [1, 2, 3]
    infos = [{"learner_step": 1, "x": {"y": [1]}, "learner_done": True}, {"learner_step": 2, "x": {"y": [2]}}]
    assert merge(infos) == {"learner_step": 1, "x": {"y": [1, 2]}, "learner_done": True}
    with pytest.raises(TypeError, match="set"):
        merge([{1}])
    with pytest.raises(ValueError, match="at least one"):
        merge([])


def test_a_batch_is_split_with_the_chunks_that_each_part_needs():
    batch = {
        "batch": 7, "chunks": ["a", "b", "c"], "rows": [[2, 0], [0, 5], [2, 1]], "unique_id": [1, 2, 3], "IS": None
    }  # fmt: skip
    first, second = split_batch(batch, [1, 2])
    first["rows"], second["rows"] = first["rows"].tolist(), second["rows"].tolist()
    assert first == {"batch": 7, "chunks": ["c"], "rows": [[0, 0]], "unique_id": [1], "IS": None}
    assert second == {"batch": 7, "chunks": ["a", "c"], "rows": [[0, 5], [1, 1]], "unique_id": [2, 3], "IS": None}
    with pytest.raises(ValueError, match="cannot be split"):
        split_batch(batch, [1, 1])
    assert split_list("abc", [1, 2]) == [["a"], ["b", "c"]]


def test_reports_are_merged_where_all_learners_are():
    def report(seqs, loaded, done=False, demand=2):
        infos = [{"seq": seq, "info": {"learner_step": seq, "priority_info": {"priority": [seq]}}} for seq in seqs]
        rest = {"policy_version": loaded, "final": {"learner_step": 9}, "broken_chunks": ["x"], "done": done}
        return {"demand": [{"batch_size": 4, "cur_learner_iter": 0}] * demand, "infos": infos, "loaded": loaded, **rest}

    merged = merge_reports([report([1, 2, 3], 5), report([2, 3, 4], 4, True, 1)], info_ack=2)
    (info,) = unpack_infos(merged)
    assert (info["seq"], info["info"]["learner_step"]) == (3, 3)
    assert info["info"]["priority_info"]["priority"].tolist() == [3, 3]
    assert merged["demand"] == [{"batch_size": 8, "cur_learner_iter": 0}]
    assert (merged["loaded"], merged["done"], merged["broken_chunks"], merged["policy_version"]) == (4, False, ["x"], 5)
    done = merge_reports([report([], 5, True), report([], 4, True)], 0)
    assert done["final"] == {"learner_step": 9}
