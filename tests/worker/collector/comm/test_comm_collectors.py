"""The comm collectors: tasks, data, policies, faults; on each backend."""

import contextlib
import errno
import os
import threading
import time

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.config.backends import BACKENDS
from ding.data import TransitionBatch
from ding.envs import BaseEnvManager
from ding.envs.testing import CountingEnv
from ding.interaction import InprocTransport, Master, TaskFail
from ding.interaction.errors import ConnectionLost
from ding.parallel.planes import StorageFull, new_writer_name, open_planes
from ding.utils import ENV_REGISTRY, PARALLEL_COLLECTOR_REGISTRY, POLICY_REGISTRY
from ding.utils.file_helper import save_file
from ding.worker import (
    BaseCommCollector,
    FlaskFileSystemCollector,
    NaiveCollector,
    ZerglingParallelCollector,
    create_comm_collector,
)
from ding.worker.collector.comm import CollectorSlave, InprocCollector
from ding.worker.testing import BatchedScriptedPolicy


@POLICY_REGISTRY.register("comm_scripted")
class _Policy(BatchedScriptedPolicy):
    """Acts by its weight; fails when the weight is negative."""

    def __init__(self, cfg, model=None, enable_field=None):
        attributes = {"cfg": cfg, **{key: cfg.collect.get(key) for key in ("n_sample", "n_episode")}}
        super().__init__(action=lambda env_id, step: int(self.weights["weight"][0]), attributes=attributes)

    def _load_state_dict(self, state_dict):
        super()._load_state_dict(state_dict)
        if float(self.weights["weight"][0]) == -1:
            raise SystemExit("the policy wants to leave")


@ENV_REGISTRY.register("comm_counting")
class _Env(CountingEnv):
    @staticmethod
    def create_collector_env_cfg(cfg):
        return [EasyDict({**cfg, "episode_length": length}) for length in cfg.lengths]

    create_evaluator_env_cfg = create_collector_env_cfg


@PARALLEL_COLLECTOR_REGISTRY.register("comm_own_zergling")
class _OwnCollector(ZerglingParallelCollector):
    """What a user may register."""


def task_info(task_id="task_0", lengths=(3, 5), episodes=2, fault=None, **changes):
    return {
        "task_id": task_id,
        "buffer_id": "buffer_0",
        "collector_cfg": {
            **ZerglingParallelCollector.default_config(),
            "type": "zergling",
            "exp_name": "exp",
            "eval_flag": False,
            "env": {
                "type": "comm_counting",
                "lengths": list(lengths),
                "fault": fault,
                "manager": {"type": "base", "episode_num": episodes},
            },
            "policy": {"type": "comm_scripted", "on_policy": False, "collect": {"n_sample": 4, "n_episode": None}},
            "policy_update_path": "policy_0",
            "collect_setting": {},
            "chunk_rows": 4,
            **changes,
        },
    }


class Bench:
    """A comm collector with a master, and the planes of the other side."""

    def __init__(self, kind, root, **changes):
        self.root, backend = root, BACKENDS[kind]
        transport = InprocTransport() if backend.transport else None
        cfg = {"type": backend.comm, "planes": backend.planes, "path_data": root, "path_policy": root}
        if transport:
            cfg["transport"] = transport
        planes = open_planes(backend.planes, root, root)
        self.policy = new_writer_name()
        self.data, self.weights = planes.data(), planes.weights(self.policy)
        cfg.update(host="127.0.0.1", port=0, close_timeout_s=5.0, **changes)
        self.collector = create_comm_collector(EasyDict(cfg))
        self.collector.start()
        self.master = Master(host="127.0.0.1", port=0, transport=transport, request_retries=0)
        self.master.start()
        port = int(self.collector.slave.my_address.rsplit(":", 1)[1])
        self.connection = self.master.new_connection("c", "127.0.0.1", port)
        self.connection.connect()
        self.ack = 0
        self.refs = []

    def call(self, name, **data):
        task = self.connection.new_task({"name": name, **data}).start().join()
        if task.status.name != "COMPLETED":
            raise TaskFail(task.result, str(task.result))
        return task.result

    def start(self, **changes):
        return self.call("collector_start_task", task_info=task_info(**{"policy_update_path": self.policy, **changes}))

    def take(self, **data):
        """One data task; keeps what is new."""
        result = self.call("collector_data_task", ack=self.ack, max_wait_s=5.0, **data)
        new = [ref for ref in result["refs"] if ref["seq"] > self.ack]
        self.refs += new
        self.ack = max([self.ack, *(ref["seq"] for ref in new)])
        return result

    def take_all(self):
        """Data tasks until the collector is done and all is acknowledged."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            result = self.take()
            if not result["refs"] and result["info"] and result["info"]["collector_done"]:
                return result
        raise AssertionError("the collector was not done in time")

    def publish(self, weight=0.0, version=0):
        self.weights.publish({"model": {"weight": torch.full((2,), weight)}}, version)

    def close(self):
        with contextlib.suppress(ConnectionLost):  # the test has closed the collector
            self.connection.disconnect()
        self.master.close()
        self.collector.close()


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def make_bench(planes_kind, new_root):
    """Collectors of one run on each backend."""
    (kind,) = (name for name, backend in BACKENDS.items() if backend.planes == planes_kind)
    root, benches = new_root(), []

    def make(**changes):
        benches.append(Bench(kind, root, **changes))
        return benches[-1]

    yield make
    for bench in benches:
        bench.close()


@pytest.fixture
def bench(make_bench):
    bench = make_bench()
    bench.publish()
    return bench


WANTED = sorted((e, t) for length in (3, 5) for e in range(2) for t in range(length))


def steps_of(refs):
    """(incarnation, task, env, episode, step) of all steps that became samples."""
    return [
        (ref["incarnation"], ref["task_id"], env_id, episode, t)
        for ref in refs
        for env_id, episode, first, count, _ in ref["spans"]
        for t in range(first, first + count)
    ]


class TestTasks:
    def test_a_task_from_start_to_close(self, bench):
        assert bench.call("resource") == {"gpu": 1, "cpu": 20}
        assert bench.start() == {"message": "collector task has started"}
        result = bench.take_all()
        assert (result["task_id"], result["buffer_id"], result["blocked"]) == ("task_0", "buffer_0", None)
        assert result["incarnation"] == bench.collector.incarnation
        rows = [tuple(row) for ref in bench.refs for row in np.asarray(bench.data.get(ref).columns["obs"]).tolist()]
        assert sorted(rows) == WANTED
        finished = bench.call("collector_close_task", ack=bench.ack, task_id="task_0")
        assert finished["task_id"] == "task_0"
        assert (finished["collector_done"], finished["step_count"], finished["sample_count"]) == (True, 16, 16)
        assert finished["refs"] == []
        bench.data.release(bench.refs)
        assert bench.data.chunks() == []

    def test_a_reference_says_what_a_coordinator_needs(self, bench):
        bench.start()
        bench.take_all()
        assert [ref["seq"] for ref in bench.refs] == list(range(1, len(bench.refs) + 1))
        for ref in bench.refs:
            assert bench.data.get(ref["chunk"]).columns["obs"].shape[0] == ref["rows"]
            assert (ref["task_id"], ref["buffer_id"], ref["policy_iter"]) == ("task_0", "buffer_0", 0)
            assert ref["worker"] == bench.collector.collector_uid
            assert bench.data.meta(ref) == {"task_id": "task_0", "incarnation": ref["incarnation"]}
        steps = steps_of(bench.refs)
        assert len(set(steps)) == len(steps) == 16

    def test_unknown_tasks(self, bench):
        for name in ("collector_sing_task", None, 3):
            with pytest.raises(TaskFail) as caught:
                bench.call(name)
            assert caught.value.result == {"message": "task name error"}

    @pytest.mark.parametrize("name", ["collector_data_task", "collector_close_task"])
    def test_there_must_be_a_task(self, bench, name):
        with pytest.raises(TaskFail, match="has no task"):
            bench.call(name)
        with pytest.raises(TaskFail, match="'other' does not run here"):
            bench.call(name, task_id="other")

    @pytest.mark.parametrize("bad", [{"ack": "1"}, {"ack": True}, {"max_wait_s": -1}, {"max_wait_s": 1e9}])
    def test_malformed_data_tasks(self, bench, bad):
        bench.start()
        with pytest.raises(TaskFail, match="ack must be an int"):
            bench.call("collector_data_task", **bad)

    def test_malformed_start_tasks(self, bench):
        with pytest.raises(TaskFail, match="task_info"):
            bench.call("collector_start_task")
        with pytest.raises(TaskFail, match="collector_cfg"):
            bench.call("collector_start_task", task_info={"task_id": "x"})
        with pytest.raises(TaskFail, match="zergling"):
            bench.start(type="zerglin")
        # None of them is in the way of the next.
        bench.start()
        bench.take_all()

    def test_the_same_start_again_does_nothing(self, bench):
        bench.start(episodes=1000)
        first = bench.collector.collector
        bench.start(episodes=1000)
        assert bench.collector.collector is first

    def test_another_start_ends_the_task_before(self, bench):
        bench.start(episodes=1_000_000)
        bench.take()
        bench.refs.clear()
        bench.start(task_id="task_1")
        bench.take_all()
        assert {ref["task_id"] for ref in bench.refs} == {"task_1"}
        assert sorted(step[2:] for step in steps_of(bench.refs)) == [
            (i, e, t) for i, length in enumerate((3, 5)) for e in range(2) for t in range(length)
        ]

    def test_a_close_whose_answer_was_lost_answers_again(self, bench):
        bench.start()
        bench.take_all()
        first = bench.call("collector_close_task", task_id="task_0", ack=bench.ack)
        assert bench.call("collector_close_task", task_id="task_0", ack=bench.ack) == first

    def test_the_same_task_for_the_second_time_goes_on_counting(self, bench):
        for _ in range(2):
            bench.start()
            bench.take_all()
            bench.call("collector_close_task", task_id="task_0", ack=bench.ack)
        assert len({ref["seq"] for ref in bench.refs}) == len(bench.refs)
        assert sum(ref["rows"] for ref in bench.refs) == 32

    def test_all_tasks_of_a_process_share_one_log(self, bench, tmp_path):
        for number in range(2):
            bench.start(task_id=f"task_{number}")
            bench.take_all()
            bench.call("collector_close_task", ack=bench.ack)
        logs = os.listdir(tmp_path / "exp" / "log" / "collector")
        assert logs == [f"{bench.collector.collector_uid}_logger.txt"]

    def test_many_tasks_leave_nothing_open(self, bench):
        def one():
            bench.start(episodes=1)
            bench.take_all()
            bench.call("collector_close_task", ack=bench.ack, task_id="task_0")

        one()
        fds, threads = len(os.listdir("/proc/self/fd")), set(threading.enumerate())
        for _ in range(10):
            one()
        # The last task's threads may end after its close was answered.
        for thread in set(threading.enumerate()) - threads:
            thread.join(timeout=20)
            assert not thread.is_alive(), thread.name
        assert len(os.listdir("/proc/self/fd")) <= fds + 2

    def test_nothing_is_left_of_a_task_that_was_closed_early(self, bench):
        bench.start(episodes=1_000_000)
        while len(bench.refs) < 3:
            bench.take()
        finished = bench.call("collector_close_task", ack=bench.ack)
        assert finished["refs"] == []
        assert sorted(bench.data.chunks()) == sorted(ref["chunk"] for ref in bench.refs)
        assert threading.active_count() < 30
        assert not [thread for thread in threading.enumerate() if thread.name.startswith(("collector-", "policy-"))]

    def test_a_close_without_acknowledgement_keeps_what_may_be_known(self, bench):
        bench.start(episodes=1_000_000)
        result = bench.call("collector_data_task", max_wait_s=5.0)
        finished = bench.call("collector_close_task")
        known = [ref["chunk"] for ref in result["refs"]]
        assert [ref["chunk"] for ref in finished["refs"]] == known
        assert sorted(bench.data.chunks()) == sorted(known)

    def test_a_collector_waits_for_its_coordinator(self, make_bench):
        bench = make_bench(max_pending_chunks=3)
        bench.publish()
        bench.start(episodes=1_000_000)
        deadline = time.monotonic() + 10
        while len(bench.data.chunks()) < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
        # Three wait, and the collector holds the fourth.
        threading.Event().wait(0.1)
        assert len(bench.data.chunks()) == 4
        assert len(bench.call("collector_data_task")["refs"]) == 3
        finished = bench.call("collector_close_task", ack=0)
        assert finished["refs"] == []
        assert bench.data.chunks() == []

    def test_a_collector_goes_on_while_a_chunk_is_stored(self, make_bench, monkeypatch):
        bench = make_bench()
        bench.start()  # it waits for its policy
        gate, put = threading.Event(), bench.collector.data_plane.put

        def slow_put(*args):
            assert gate.wait(10.0)
            return put(*args)

        monkeypatch.setattr(bench.collector.data_plane, "put", slow_put)
        done = {"collector_done": True, "cur_episode": 1, "cur_sample": 2, "cur_step": 2}
        batch = TransitionBatch({"x": np.arange(2)})
        bench.collector.send_stepdata("d", batch)
        bench.collector.send_metadata({"data_id": "d", "policy_iter": 0})
        later = threading.Thread(target=bench.collector.send_metadata, args=[done])
        later.start()
        # Neither the chunk nor what was said after it is told before the chunk is there.
        assert bench.collector.deal_with_collector_data(max_wait_s=0.0) == {
            "seq": 0, "refs": [], "info": None, "blocked": None
        }  # fmt: skip
        gate.set()
        later.join(10.0)
        (ref,) = bench.take_all()["refs"] or bench.refs
        assert bench.data.get(ref).columns["x"].tolist() == [0, 1]

    def test_a_task_may_not_import_what_this_process_does_not_know(self, bench, tmp_path, monkeypatch):
        (tmp_path / "comm_evil.py").write_text("raise SystemExit('imported')")
        monkeypatch.syspath_prepend(str(tmp_path))
        for names in (["comm_evil"], "comm_evil", ["ding.no_such_module"], ["ding.../comm_evil"], [3]):
            with pytest.raises(ValueError, match="import"):
                bench.collector.deal_with_collector_start(task_info(import_names=names))
        bench.collector.deal_with_collector_start(task_info(import_names=["ding.worker.collector", "torch"]))


class TestPolicies:
    def test_the_collector_waits_for_the_first_version(self, make_bench):
        bench = make_bench()
        bench.start()
        assert bench.call("collector_data_task", max_wait_s=0.05)["refs"] == []
        bench.publish(weight=1.0, version=3)
        bench.take_all()
        assert {ref["policy_iter"] for ref in bench.refs} == {3}

    def test_a_task_can_be_closed_while_it_waits_for_its_policy(self, make_bench):
        bench = make_bench()
        bench.start()
        finished = bench.call("collector_close_task", ack=0)
        assert (finished["train_iter"], finished["step_count"]) == (-1, 0)

    def test_new_versions_are_taken_up(self, bench):
        bench.start(episodes=1_000_000)
        bench.take()
        bench.publish(weight=4.0, version=9)
        deadline = time.monotonic() + 10
        while bench.refs[-1]["collect_iter"] != 9 and time.monotonic() < deadline:
            bench.take(newest_policy={bench.policy: 9})
        assert bench.refs[-1]["collect_iter"] == 9
        columns = bench.data.get(bench.refs[-1]).columns
        assert columns["action"].flatten().unique().tolist() == [4]

    @pytest.mark.parametrize("weight", [float("nan"), float("-inf")])
    def test_a_version_that_is_not_finite_is_not_taken(self, make_bench, caplog, weight):
        bench = make_bench()
        bench.publish(weight, version=1)
        bench.start()
        deadline = time.monotonic() + 60
        while f"version 1 of {bench.policy} is not taken" not in caplog.text and time.monotonic() < deadline:
            assert bench.call("collector_data_task", max_wait_s=0.05)["refs"] == []
        bench.publish(weight=2.0, version=2)
        bench.take_all()
        assert "its weight weight is NaN or infinite" in caplog.text
        assert {ref["policy_iter"] for ref in bench.refs} == {2}

    def test_weights_alone_are_a_model(self, make_bench):
        bench = make_bench()
        bench.weights.publish({"weight": torch.full((2,), 6.0)}, 2)
        bench.start()
        bench.take_all()
        assert bench.data.get(bench.refs[0]).columns["action"].flatten().unique().tolist() == [6]

    def test_what_the_reference_would_return(self, bench):
        bench.start(episodes=1_000_000)
        info = bench.collector.get_policy_update_info(bench.policy)
        assert info["iter"] == 0
        assert info["model"]["weight"].tolist() == [0, 0]
        bench.call("collector_close_task")
        assert bench.collector.get_policy_update_info(bench.policy) is None

    @pytest.mark.parametrize("path", ["../policy_0", "/etc/passwd", "a/b", "", "..", "x\0"])
    def test_a_policy_must_lie_in_the_folder(self, bench, path):
        bench.start(policy_update_path=path)
        with pytest.raises(TaskFail) as caught:
            bench.take_all()
        assert caught.value.result["exception"]["type"] == "BadId"


class TestCheckpoints:
    """Players of a league are files in the folder of the policies."""

    @pytest.fixture
    def bench(self, tmp_path):
        bench = Bench("flask_fs", str(tmp_path / "run"))
        yield bench
        bench.close()

    @pytest.mark.parametrize("absolute", [True, False])
    def test_a_player_is_read_from_its_file(self, bench, absolute):
        save_file(bench.root + "/player_ckpt.pth", {"model": {"weight": torch.full((2,), 5.0)}, "iter": 12})
        path = bench.root + "/player_ckpt.pth" if absolute else "player_ckpt.pth"
        bench.start(policy_update_path=path)
        bench.take_all()
        assert {ref["policy_iter"] for ref in bench.refs} == {12}
        assert bench.data.get(bench.refs[0]).columns["action"].flatten().unique().tolist() == [5]

    def test_s4_a_pickle_as_a_player_is_never_run(self, bench, tmp_path):
        class Payload:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "proof"),)

        torch.save(Payload(), bench.root + "/player.pth")
        bench.start(policy_update_path="player.pth")
        with pytest.raises(TaskFail):
            bench.take_all()
        assert not (tmp_path / "proof").exists()

    def test_a_link_is_no_player(self, bench, tmp_path):
        save_file(str(tmp_path / "secret"), {"model": {"weight": torch.ones(2)}, "iter": 1})
        os.symlink(tmp_path / "secret", bench.root + "/player.pth")
        bench.start(policy_update_path="player.pth")
        with pytest.raises(TaskFail):
            bench.take_all()


class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "text"), [({"kind": "raise", "step": 2}, "episode 0, step 2"), ({"kind": "nan", "step": 1}, "NaN")]
    )
    def test_a_fault_in_the_env_fails_the_task_with_its_traceback(self, bench, fault, text):
        bench.start(fault=fault)
        with pytest.raises(TaskFail) as caught:
            bench.take_all()
        result = caught.value.result
        assert text in result["message"]
        assert (result["task_id"], result["buffer_id"]) == ("task_0", "buffer_0")
        assert 'File "' in result["exception"]["traceback"]
        assert "start" in result["exception"]["traceback"]
        bench.call("collector_close_task", task_id="task_0")
        bench.start(task_id="task_1")
        bench.take_all()

    def test_sys_exit_in_the_policy_fails_the_task(self, make_bench):
        bench = make_bench()
        bench.publish(weight=-1.0)
        bench.start()
        with pytest.raises(TaskFail) as caught:
            bench.take_all()
        assert caught.value.result["exception"]["type"] == "SystemExit"

    def test_what_was_collected_before_the_fault_is_delivered(self, bench):
        bench.start(fault={"kind": "raise", "step": 1, "episode": 1})
        with pytest.raises(TaskFail):
            bench.take_all()
        assert sorted(step[2:] for step in steps_of(bench.refs)) == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]

    def test_a_failed_task_can_be_started_again(self, bench):
        bench.start(fault={"kind": "raise", "step": 1, "episode": 1})
        with pytest.raises(TaskFail):
            bench.take_all()
        bench.start()
        bench.take_all()
        assert sum(ref["rows"] for ref in bench.refs) == 3 + 16


class TestNoSpace:
    def test_collecting_waits_for_space_and_goes_on(self, make_bench, tmp_path):
        bench = make_bench(max_data_bytes=6000)
        bench.publish()
        bench.start(episodes=20)
        deadline = time.monotonic() + 10
        while bench.take()["blocked"] is None and time.monotonic() < deadline:
            pass
        blocked = bench.call("collector_data_task", ack=bench.ack, max_wait_s=0.0)["blocked"]
        assert "max_bytes" in blocked
        assert sum(ref["bytes"] for ref in bench.refs) <= 6000
        while time.monotonic() < deadline + 20:
            bench.data.release(bench.refs)
            result = bench.take()
            if not result["refs"] and result["info"] and result["info"]["collector_done"]:
                break
        # Nothing was lost, nothing came twice.
        steps = steps_of(bench.refs)
        assert len(set(steps)) == len(steps) == 20 * (3 + 5)
        assert result["blocked"] is None

    def test_a_task_can_be_closed_while_there_is_no_space(self, make_bench):
        bench = make_bench(max_data_bytes=1)
        bench.publish()
        bench.start()
        deadline = time.monotonic() + 10
        while bench.call("collector_data_task", max_wait_s=5.0)["blocked"] is None and time.monotonic() < deadline:
            pass
        assert bench.call("collector_close_task", ack=0)["refs"] == []
        assert bench.collector.dropped_rows > 0

    def test_the_task_fails_when_space_never_comes(self, make_bench):
        bench = make_bench(max_data_bytes=1, storage_patience_s=0.05)
        bench.publish()
        bench.start()
        with pytest.raises(TaskFail) as caught:
            bench.take_all()
        assert caught.value.result["exception"]["type"] == "StorageFull"

    def test_a_full_disk(self, tmp_path, monkeypatch):
        bench = Bench("flask_fs", str(tmp_path / "run"))
        try:
            bench.publish()
            failures = iter(range(3))
            real = os.write

            def write(fd, part):
                # Chunks are written as views; other bytes are not of this test.
                if isinstance(part, memoryview) and next(failures, None) is not None:
                    raise OSError(errno.ENOSPC, "no space")
                return real(fd, part)

            monkeypatch.setattr(os, "write", write)
            bench.start()
            bench.take_all()
            assert len(steps_of(bench.refs)) == 16
            assert next(failures, None) is None
        finally:
            bench.close()


class TestInterface:
    @pytest.fixture
    def collector(self, tmp_path):
        collector = FlaskFileSystemCollector(
            EasyDict(
                host="127.0.0.1", port=0, path_data=str(tmp_path / "a" / "b"), path_policy=str(tmp_path / "p" / "q")
            )
        )
        yield collector
        collector.close()

    def test_folders_are_made(self, collector, tmp_path):
        assert (tmp_path / "a" / "b").is_dir()
        assert (tmp_path / "p" / "q").is_dir()

    def test_nothing_is_sent_without_a_task(self, collector):
        assert collector.send_stepdata("x", TransitionBatch({"x": np.arange(2)})) is None
        collector.send_metadata({"data_id": "x", "policy_iter": 0})
        assert collector.data_plane.chunks() == []
        assert collector.get_policy_update_info("policy") is None

    def test_the_queue_of_the_original_names_the_method_to_override(self, collector):
        with pytest.raises(AttributeError, match=r"no _metadata_queue: .*override send_metadata\("):
            getattr(collector, "_metadata_queue")  # noqa: B009 - what a subclass of the original reads

    @pytest.mark.parametrize("bad", [{}, {"data_id": 1}, {"collector_done": True, "cur_step": 1}])
    def test_metadata_is_checked(self, collector, bad):
        with pytest.raises(AssertionError, match="metadata needs the keys"):
            collector.send_metadata(bad)

    def test_a_list_of_transitions_is_a_chunk_too(self, tmp_path):
        bench = Bench("inproc", str(tmp_path))
        try:
            bench.start()  # it waits for its policy
            bench.collector.send_stepdata("d", [{"obs": torch.ones(2), "done": False}] * 3)
            bench.collector.send_metadata({"data_id": "d", "policy_iter": 0})
            (ref,) = bench.take()["refs"]
            assert bench.data.get(ref).columns["obs"].shape == (3, 2)
        finally:
            bench.close()

    def test_a_collector_may_use_its_list_again(self, tmp_path):
        bench = Bench("inproc", str(tmp_path))
        try:
            bench.start()  # it waits for its policy
            rows = [{"obs": torch.ones(2), "done": False}] * 3
            bench.collector.send_stepdata("d", rows)
            rows.clear()
            bench.collector.send_metadata({"data_id": "d", "policy_iter": 0})
            (ref,) = bench.take()["refs"]
            assert bench.data.get(ref).columns["obs"].tolist() == [[1.0, 1.0]] * 3
        finally:
            bench.close()

    def test_chunks_without_metadata_are_dropped_in_the_end(self, tmp_path):
        bench = Bench("inproc", str(tmp_path))
        try:
            bench.start()  # it waits for its policy
            for number in range(100):
                bench.collector.send_stepdata(str(number), TransitionBatch({"x": np.full(2, number)}))
            dropped = bench.collector.dropped_rows
            assert 0 < dropped < 200
            for number in (0, 99):
                bench.collector.send_metadata({"data_id": str(number), "policy_iter": 0})
            (ref,) = bench.take()["refs"]
            assert bench.data.get(ref).columns["x"].tolist() == [99, 99]
            assert bench.collector.dropped_rows == dropped
        finally:
            bench.close()

    def test_classes_and_names(self, collector):
        assert isinstance(collector, BaseCommCollector)
        assert isinstance(collector.slave, CollectorSlave)
        assert issubclass(InprocCollector, BaseCommCollector)
        other = FlaskFileSystemCollector.default_config()
        assert other.cfg_type == "FlaskFileSystemCollectorDict"
        assert collector.collector_uid
        assert StorageFull.__mro__[2] is OSError or issubclass(StorageFull, OSError)

    def test_an_unknown_type(self):
        with pytest.raises(KeyError, match="flask_fs"):
            create_comm_collector(EasyDict(type="flask_f"))

    def test_own_modules_are_imported_from_the_own_config(self, tmp_path, monkeypatch):
        (tmp_path / "comm_own_module.py").write_text("LOADED = True")
        monkeypatch.syspath_prepend(str(tmp_path))
        cfg = EasyDict(port=0, path_data="d", path_policy="p", import_names=["comm_own_module"])
        FlaskFileSystemCollector(cfg).close()
        import comm_own_module

        assert comm_own_module.LOADED

    def test_close_may_come_first_and_twice(self, tmp_path):
        collector = InprocCollector(EasyDict(path_data="d", path_policy="p", transport=InprocTransport()))
        collector.close()
        collector.start()
        collector.close()
        collector.close()

    def test_it_announces_itself(self, tmp_path):
        network = InprocTransport()
        heard, came = [], threading.Event()

        class Coordinator(Master):
            def _enrolled(self, name, role, address, incarnation, resource):
                heard.append((name, role, address, incarnation, resource))
                came.set()

        with Coordinator(host="127.0.0.1", port=0, transport=network) as master:
            cfg = {"path_data": "d", "path_policy": "p", "transport": network, "name": "collector_7"}
            collector = InprocCollector(EasyDict({**cfg, "coordinator_address": master.my_address}))
            collector.start()
            try:
                assert came.wait(10)
                address = collector.slave.my_address
                assert heard[0] == ("collector_7", "collector", address, collector.incarnation, {"gpu": 1, "cpu": 20})
            finally:
                collector.close()


class TestNaive:
    def test_it_gives_nineteen_transitions_and_is_done(self, tmp_path):
        network = InprocTransport()
        with (
            NaiveCollector("127.0.0.1", 0, prefix="naive", transport=network) as slave,
            Master("127.0.0.1", 0, transport=network) as master,
        ):
            port = int(slave.my_address.rsplit(":", 1)[1])
            with master.new_connection("c", "127.0.0.1", port) as connection:

                def call(name, **data):
                    task = connection.new_task({"name": name, **data}).start().join()
                    return task.status.name, task.result

                assert call("resource") == ("COMPLETED", {"cpu": "20", "gpu": "1"})
                call("collector_start_task", task_info={"task_id": "t", "buffer_id": "b"})
                for number in range(1, 20):
                    _, result = call("collector_data_task")
                    assert result["data_id"] == f"naive_t_{number}"
                    assert (result["buffer_id"], result["task_id"], result["unroll_split_begin"]) == ("b", "t", 0)
                    assert [ref["seq"] for ref in result["refs"]] == [number]
                    assert (tmp_path / result["data_id"]).stat().st_size == result["refs"][0]["bytes"]
                _, last = call("collector_data_task")
                done = {"collector_done": True, "cur_episode": 1, "cur_step": 314, "cur_sample": 314}
                assert {key: last[key] for key in ("task_id", *done)} == {"task_id": "t", **done}
                assert call("collector_close_task")[0] == "FAILED"


class TestNextTasks:
    """A collector whose task is over serves the next one of the same config, with its policy and its envs."""

    def play(self, bench, task_id, **changes):
        """One task to its end; returns its collector, its env manager and what it reports."""
        bench.start(task_id=task_id, **changes)
        collector = bench.collector.collector
        bench.take_all()
        return collector, collector.env_manager, bench.call("collector_close_task", task_id=task_id, ack=bench.ack)

    def test_policy_and_envs_are_kept_and_all_else_begins_anew(self, bench):
        first, envs, report = self.play(bench, "task_0")
        policy = first.policy
        bench.publish(1.0, version=1)
        second, same_envs, again = self.play(bench, "task_1", collect_setting={"eps": 0.5})
        assert (second, same_envs, second.policy) == (first, envs, policy)
        same = ("env_num", "real_episode_count", "step_count", "sample_count", "collector_done")
        assert [report[key] for key in same] == [again[key] for key in same] == [2, 4, 16, 16, True]
        assert (report["train_iter"], again["train_iter"]) == (0, 1)
        steps = steps_of(bench.refs)
        everything = [(e, n, t) for e, length in enumerate((3, 5)) for n in range(2) for t in range(length)]
        assert [sorted(step[2:] for step in steps if step[1] == f"task_{n}") for n in (0, 1)] == [everything] * 2
        assert {ref["collect_iter"] for ref in bench.refs if ref["task_id"] == "task_1"} == {1}

    @pytest.mark.parametrize(
        "changes",
        [
            {"lengths": (3, 4)},
            {"episodes": 3},
            {"eval_flag": True},
            {"chunk_rows": 5},
            {"policy": {"type": "comm_scripted", "on_policy": False, "collect": {"n_sample": 3, "n_episode": None}}},
        ],
        ids=["envs", "episodes", "evaluation", "chunks", "policy"],
    )
    def test_another_config_needs_another_collector(self, bench, changes):
        first, envs, _ = self.play(bench, "task_0")
        assert not envs.closed
        second, _, _ = self.play(bench, "task_1", **changes)
        assert second is not first
        assert envs.closed

    def test_kept_envs_take_the_seed_of_the_next_task(self, make_bench, monkeypatch):
        seeds = []
        monkeypatch.setattr(
            BaseEnvManager, "seed", lambda self, seed, dynamic_seed=None: seeds.append((self, tuple(seed)))
        )
        bench = make_bench(env={"seed": 7})
        bench.publish()
        envs = [self.play(bench, f"task_{number}")[1] for number in range(2)]
        assert envs[0] is envs[1]
        assert [manager for manager, _ in seeds] == envs
        assert len({seed for _, seed in seeds}) == 2

    def test_a_task_that_was_closed_early_leaves_nothing(self, bench):
        bench.start(episodes=1_000_000)
        envs = bench.collector.collector.env_manager
        bench.take()
        bench.call("collector_close_task", task_id="task_0", ack=bench.ack)
        assert envs.closed

    def test_a_failed_task_leaves_nothing(self, bench):
        bench.start(fault={"kind": "raise", "step": 2})
        envs = bench.collector.collector.env_manager
        with pytest.raises(TaskFail):
            bench.take_all()
        bench.call("collector_close_task", task_id="task_0", ack=bench.ack)
        assert envs.closed

    def test_a_subclass_is_made_for_each_task(self, bench):
        (first, envs, _), (second, _, _) = (self.play(bench, f"task_{n}", type="comm_own_zergling") for n in range(2))
        assert second is not first
        assert envs.closed

    def test_the_envs_end_with_the_comm_collector(self, bench):
        _, envs, _ = self.play(bench, "task_0")
        bench.collector.close()
        assert envs.closed


class TestOwnEnvs:
    """What the envs of one collector have beside those of its tasks (``env.per_collector``)."""

    def test_a_collector_plays_its_own_levels_but_evaluates_as_all_do(self, make_bench):
        bench = make_bench(env={"lengths": [2, 4], "manager": {"episode_num": 1}})
        bench.publish()
        bench.start()
        bench.take_all()
        assert bench.call("collector_close_task", ack=bench.ack, task_id="task_0")["step_count"] == 2 + 4
        bench.start(task_id="task_1", eval_flag=True)
        bench.take_all()
        assert bench.call("collector_close_task", ack=bench.ack, task_id="task_1")["step_count"] == 2 * (3 + 5)

    def test_its_seed_gives_each_of_its_tasks_other_episodes(self, make_bench, monkeypatch):
        seeds = []
        monkeypatch.setattr(BaseEnvManager, "seed", lambda self, seed, dynamic_seed=None: seeds.append(tuple(seed)))
        for _ in range(2):
            bench = make_bench(env={"seed": 7})
            bench.publish()
            for number in range(2):
                bench.start(task_id=f"task_{number}")
                bench.take_all()
                bench.call("collector_close_task", ack=bench.ack, task_id=f"task_{number}")
            bench.start(task_id="task_2", eval_flag=True)
            bench.take_all()
        assert seeds[:2] == seeds[2:]
        assert len(set(seeds)) == 2
