"""A coordinator whose workers lose messages, double them, come late, are killed, and come again."""

import json
import logging
import sqlite3
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from easydict import EasyDict

sys.path.insert(0, str(Path(__file__).parent))
from parallel_fakes import FakeCollector, FakeHub, FakeLearner, FakeLink, RecordingPlane, wait_until

from ding.worker.coordinator import Coordinator, NaiveCommander
from ding.worker.coordinator.errors import JournalError, TaskGaveUp, WorkerLost, WorkerTaskFailed
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.records import Holder
from ding.worker.coordinator.worker_links import WorkerLinks


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class CountedCommander(NaiveCommander):
    """Gives a limited number of tasks and notes what becomes of them."""

    def __init__(self, cfg, collector_tasks=1, learner_tasks=1):
        super().__init__(cfg)
        self.left = {"collector": collector_tasks, "learner": learner_tasks}
        self.finished = []
        self.failed = []
        self.steps = 0

    def _next(self, kind, get):
        task = get() if self.left[kind] else None
        if task is not None:
            self.left[kind] -= 1
        return task

    def get_collector_task(self):
        return self._next("collector", super().get_collector_task)

    def get_learner_task(self):
        return self._next("learner", super().get_learner_task)

    def finish_collector_task(self, task_id, finished_task):
        self.finished.append(task_id)
        self.steps += finished_task.get("step_count", 0)
        super().finish_collector_task(task_id, finished_task)
        return finished_task.get("stop", False)

    def finish_learner_task(self, task_id, finished_task):
        self.finished.append(task_id)
        return super().finish_learner_task(task_id, finished_task)

    def notify_fail_collector_task(self, task):
        self.failed.append(task["task_id"])
        super().notify_fail_collector_task(task)

    def notify_fail_learner_task(self, task):
        self.failed.append(task["task_id"])
        super().notify_fail_learner_task(task)

    def state_dict(self):
        return {"left": dict(self.left), "steps": self.steps}

    def load_state_dict(self, state, collectors=0, learners=0):
        super().load_state_dict(state, collectors, learners)
        self.left, self.steps = dict(state["left"]), state["steps"]


class Run:
    """A coordinator with its fakes."""

    def __init__(self, collector_tasks=1, learner_tasks=1, journal=None, plane=None, buffer=None, clock=None, **cfg):
        self.cfg = EasyDict(
            main={
                "exp_name": "exp",
                "policy": {
                    "other": {
                        "replay_buffer": {"type": "advanced", "replay_buffer_size": 1000, **(buffer or {})},
                        "commander": {"type": "naive", "collector_task_space": 2, "learner_task_space": 1},
                    }
                },
            },
            system={"coordinator": {"long_poll_s": 0.05, "lease_s": 20.0, "start_timeout_s": 20.0, **cfg}},
        )
        self.commander = CountedCommander(self.cfg.main, collector_tasks, learner_tasks)
        self.hub, self.plane = FakeHub(), plane or RecordingPlane()
        self.later_s = 0.0
        clock = clock or (lambda: time.monotonic() + self.later_s)
        self.coordinator = Coordinator(self.cfg, self.commander, self.hub, self.plane, journal, clock)

    def __enter__(self):
        self.coordinator.start()
        return self

    def __exit__(self, *exc_info):
        self.coordinator.close()

    def let_a_lease_run_out(self, *alive):
        """Let time pass until a task goes back to the queue; the workers that are ``alive`` are heard of meanwhile."""
        while self.coordinator.status()["tasks"]["requeued"] == 0:
            heard = [len(worker.log) + 4 for worker in alive]
            self.later_s += self.cfg.system.coordinator.lease_s / 4
            self.coordinator.workers_changed()
            wait_until(lambda: all(len(worker.log) >= count for worker, count in zip(alive, heard)))  # noqa: B023

    @property
    def buffer(self):
        return self.coordinator.buffers.buffers["test"]

    def counts(self):
        return self.coordinator.buffers.status()


def test_data_flows_from_collectors_to_the_learner_and_the_buffer_is_closed_at_its_end():
    with Run(collector_tasks=2) as run:
        collectors = [FakeCollector("c0"), FakeCollector("c1")]
        learner = FakeLearner(iterations=200)
        for worker in [learner, *collectors]:
            run.hub.join(worker)
        wait_until(lambda: "learner_task_id1" in run.commander.finished)
        wait_until(lambda: len(run.commander.finished) == 3)
        wait_until(lambda: run.coordinator.buffers.buffers == {} and len(run.plane.released) == 20)
        assert run.commander.steps == 80
        assert sorted(run.plane.released) == sorted(collectors[0].produced + collectors[1].produced)
    assert [info["learner_step"] for info in run.commander.learner_info["learner_task_id1"]] == list(range(200))
    assert run.coordinator.exception is None
    assert json.dumps(run.coordinator.status())


def test_priorities_come_back_to_the_buffer():
    with Run() as run:
        run.hub.join(FakeCollector("c0", total=2, rows=4))
        learner = FakeLearner(iterations=1, batch_size=4)
        learner.ahead = 1
        released = run.plane.released
        run.hub.join(learner)
        seen = []
        shut = run.coordinator.buffers.shut
        run.coordinator.buffers.shut = lambda buffer_id: (
            seen.append(run.buffer.priorities()[1].tolist()),
            shut(buffer_id),
        )
        wait_until(lambda: seen and len(released) == 2)
    assert {round(priority, 4) for priority in seen[0]} == {1.0, 2.0}


@pytest.mark.parametrize("fault", ["lose request", "lose answer", "double"])
def test_every_message_may_be_lost_or_doubled(fault):
    with Run() as run:
        collector, learner = FakeCollector("c0", total=30), FakeLearner(iterations=20)
        collector.faults.extend([fault, None] * 1000)
        learner.faults.extend([None, fault] * 1000)
        run.hub.join(learner)
        run.hub.join(collector)
        wait_until(lambda: len(run.commander.finished) == 2)
        wait_until(lambda: len(run.plane.released) == 30)
    assert Counter(run.plane.released) == Counter(collector.produced)
    assert run.counts()["rows"] + run.counts().get("dropped_chunks", 0) * 4 == 120
    assert [info["learner_step"] for info in run.commander.learner_info["learner_task_id1"]] == list(range(20))
    assert run.coordinator.exception is None


def test_a_connection_that_breaks_and_comes_back_changes_nothing():
    with Run() as run:
        collector = FakeCollector("c0", total=5)
        run.hub.join(FakeLearner(iterations=10**6))
        run.hub.join(collector)
        wait_until(lambda: run.commander.finished)
        again = FakeCollector("c1", total=10**6)
    with Run() as run:
        run.hub.join(FakeLearner(iterations=10**6))
        run.hub.join(again)
        for _ in range(3):
            wait_until(lambda: again.made > 20)
            run.hub.cut(again)
            again.made_before = again.made
            run.hub.join(again)
            wait_until(lambda: again.made > again.made_before)
        assert run.coordinator.status()["tasks"]["requeued"] == 0
        assert again.log.count("collector_start_task") == 1
        taken = run.counts()["chunks"]
        assert taken >= len(again.acked)
    assert run.coordinator.exception is None


def test_the_task_of_a_killed_worker_goes_to_another():
    with Run(collector_task_timeout=10**6, buffer={"replay_buffer_size": 10**6}) as run:
        victim, learner = FakeCollector("c0", total=10**6), FakeLearner(iterations=10**6)
        run.hub.join(learner)
        run.hub.join(victim)
        wait_until(lambda: victim.made > 10)
        run.hub.cut(victim)
        run.let_a_lease_run_out(learner)
        other = FakeCollector("c1", total=5)
        run.hub.join(other)
        wait_until(lambda: run.commander.finished == ["collector_task_id1"])
        assert run.coordinator.status()["tasks"]["requeued"] == 1
        # Nothing that was taken; perhaps what the last answer before the cut named.
        assert set(run.plane.released) <= {ref["chunk"] for ref in victim.pending.values()}
        assert not any(run.buffer.holds(chunk) for chunk in run.plane.released)


def test_the_task_of_a_worker_that_says_that_it_ends_goes_to_another_at_once():
    with Run(lease_s=3600.0) as run:
        leaving, other = FakeCollector("c0", total=10**6), FakeCollector("c1", total=5)
        run.hub.join(FakeLearner(iterations=10**6))
        run.hub.join(leaving)
        wait_until(lambda: leaving.made > 10)
        run.hub.leave(leaving)
        run.hub.join(other)
        wait_until(lambda: run.commander.finished == ["collector_task_id1"])
        assert run.coordinator.status()["tasks"]["leases_expired"] == 0


def test_a_new_life_of_a_worker_fences_the_former_at_once():
    with Run(lease_s=3600.0) as run:
        victim = FakeCollector("c0", total=10**6)
        run.hub.join(FakeLearner(iterations=10**6))
        former = run.hub.join(victim)
        wait_until(lambda: victim.made > 10)
        reborn = FakeCollector("c0", total=5, incarnation="life2")
        run.hub.join(reborn)
        wait_until(lambda: run.commander.finished == ["collector_task_id1"])
        assert former.closed
        assert reborn.log.count("collector_start_task") == 1


def test_a_connection_that_is_over_takes_nobodys_place():
    """The thread that made the connection to the former life comes to tell of it after that of the next life."""
    links = WorkerLinks(FakeHub(), logging.getLogger(__name__))
    former, newer = (FakeLink(FakeCollector("c0"), Holder("c0", life)) for life in ("life1", "life2"))
    former.cut()
    links.enter(newer)
    with pytest.raises(WorkerLost, match="c0 was over at once"):
        links.enter(former)
    assert links.get("c0") is newer


def test_a_worker_that_was_silent_for_longer_than_its_lease_begins_anew_and_its_late_data_does_not_count():
    with Run(collector_task_timeout=10**6) as run:
        zombie, learner = FakeCollector("c0", total=10**6), FakeLearner(iterations=10**6)
        run.hub.join(learner)
        run.hub.join(zombie)
        wait_until(lambda: zombie.made > 10)
        run.hub.cut(zombie)
        run.let_a_lease_run_out(learner)
        late = run.coordinator.buffers.take(
            "collector_task_id1", "test", run.hub.links[1].holder, [{"chunk": "late", "rows": 4, "seq": 10**9}]
        )
        assert late == 10**9
        assert not run.buffer.holds("late")
        # Beside it, perhaps, what the last answer before the cut named.
        assert {"late"} <= set(run.plane.released) <= {"late", *zombie.produced}
        zombie.total = zombie.made + 5
        run.hub.join(zombie)
        wait_until(lambda: run.commander.finished == ["collector_task_id1"])


def test_a_collector_whose_task_failed_is_told_what_was_taken():
    with Run(max_task_failures=2) as run:
        collector = FakeCollector("c0", total=10**6)
        run.hub.join(FakeLearner(iterations=10**6))
        run.hub.join(collector)
        wait_until(lambda: collector.made > 10)
        collector.data_error = "ZeroDivisionError in env.step"
        wait_until(lambda: run.coordinator.exception is not None)
        taken = run.counts()["chunks"]
        assert collector.close_acks[0] == taken


def test_what_a_dead_collector_left_is_deleted_and_nothing_else():
    with Run(collector_tasks=2, buffer={"replay_buffer_size": 10**6}) as run:
        dead, alive = (FakeCollector(f"c{i}", total=10**6, incarnation=f"process{i}") for i in range(2))
        for worker in (FakeLearner(iterations=10**6), dead, alive):
            run.hub.join(worker)
        wait_until(lambda: dead.made > 10 and alive.made > 10)
        run.plane.stored = ["process0-1.00000000", "process0-2.00000000", "process1-1.00000000"]
        run.coordinator.drop_worker("c0", "collector", "its process ended")
        # Beside them, perhaps, what the dead one's last answer named.
        wait_until(lambda: set(run.plane.stored[:2]) <= set(run.plane.released))
        assert run.plane.stored[2] not in run.plane.released
        wait_until(lambda: run.counts().get("discarded_chunks") == 2)


def test_what_a_worker_that_comes_back_too_late_had_to_tell_is_deleted():
    with Run(collector_task_timeout=10**6, buffer={"replay_buffer_size": 10**6}) as run:
        zombie, learner = FakeCollector("c0", total=10**6), FakeLearner(iterations=10**6)
        run.hub.join(learner)
        run.hub.join(zombie)
        wait_until(lambda: zombie.made > 10)
        run.hub.cut(zombie)
        run.let_a_lease_run_out(learner)
        pending = [ref["chunk"] for ref in zombie.pending.values()]
        held = {chunk for chunk in pending if run.buffer.holds(chunk)}
        zombie.total = 0
        run.hub.join(zombie)
        wait_until(lambda: run.commander.finished == ["collector_task_id1"])
        assert set(run.plane.released) == set(pending) - held
        assert zombie.log.count("collector_close_task") == 2


def test_a_task_that_fails_again_and_again_stops_the_run_with_the_reason():
    with Run(max_task_failures=3) as run:
        run.hub.join(FakeLearner(iterations=10**6))
        for number in range(2):
            collector = FakeCollector(f"c{number}")
            collector.start_error = "ZeroDivisionError in env.step"
            run.hub.join(collector)
        wait_until(lambda: run.coordinator.system_shutdown_flag)
        wait_until(lambda: run.commander.failed == ["collector_task_id1"])
        error = run.coordinator.exception
    assert isinstance(error, TaskGaveUp)
    assert error.failures == 3
    assert "ZeroDivisionError in env.step" in str(error)


class LearnerThatComesNoFurther(FakeLearner):
    """Reports three train iterations and fails then, each time that it begins its task."""

    def learner_get_data_task(self, data):
        return self.fail_or(super().learner_get_data_task, data)

    def learner_learn_task(self, data):
        return self.fail_or(super().learner_learn_task, data)

    def fail_or(self, answer, data):
        if self.task is not None and data["info_ack"] >= 3:
            self.task = None
            raise WorkerTaskFailed("ZeroDivisionError in the fourth train iteration")
        return answer(data)


def test_a_learner_that_fails_at_the_same_train_iteration_again_and_again_stops_the_run():
    with Run(max_task_failures=3) as run:
        run.hub.join(LearnerThatComesNoFurther(iterations=10**6))
        run.hub.join(FakeCollector("c0", total=10**6))
        wait_until(lambda: run.coordinator.system_shutdown_flag)
        error = run.coordinator.exception
    assert isinstance(error, TaskGaveUp)
    assert error.failures == 3
    assert "fourth train iteration" in str(error)


def test_what_the_coordinator_itself_fails_with_at_the_end_of_a_task_stops_the_run():
    with Run() as run:

        def finish(task_id, finished_task):
            raise TypeError("step_count is a text")

        run.commander.finish_collector_task = finish
        run.hub.join(FakeLearner(iterations=10**6))
        run.hub.join(FakeCollector("c0"))
        wait_until(lambda: run.coordinator.system_shutdown_flag)
        assert "step_count is a text" in run.coordinator.status()["error"]
    assert isinstance(run.coordinator.exception, TypeError)


def test_a_journal_that_cannot_be_written_stops_the_run_and_does_not_keep_it_from_closing(tmp_path):
    journal = Journal(str(tmp_path / "j.sqlite"), full_patience_s=0.0)
    with Run(journal=journal, collector_tasks=10**6) as run:
        run.hub.join(FakeLearner(iterations=10**6))
        run.hub.join(FakeCollector("c0", total=10**6))
        wait_until(lambda: run.counts().get("chunks", 0) > 3)
        with closing(sqlite3.connect(tmp_path / "j.sqlite")) as other:
            other.executescript("DROP TABLE chunk; DROP TABLE task;")
        wait_until(lambda: run.coordinator.system_shutdown_flag)
    assert isinstance(run.coordinator.exception, JournalError)
    assert "no such table" in str(run.coordinator.exception)


def test_a_converged_evaluation_ends_the_run_and_stays_so():
    with Run(collector_tasks=2) as run:
        run.hub.join(FakeLearner(iterations=10**6))
        run.hub.join(FakeCollector("c0", finish={"eval_flag": True, "stop": True}))
        wait_until(lambda: run.coordinator.system_shutdown_flag)
        run.hub.join(FakeCollector("c1", finish={"eval_flag": False, "stop": False}))
        assert run.coordinator.system_shutdown_flag
    assert run.coordinator.exception is None


def test_a_task_that_no_worker_takes_is_dropped_and_the_commander_is_told():
    with Run(collector_task_timeout=0.1) as run:
        wait_until(lambda: run.commander.failed == ["collector_task_id1"])
        assert run.coordinator.exception is None
        assert run.commander.open_tasks["collector"] == 0


def test_a_full_ratio_limit_holds_the_collector_back_and_loses_nothing():
    limit = {"samples_per_insert": 1.0, "min_size_to_sample": 8, "error_buffer": 16.0, "push_size": 4, "sample_size": 4}
    with Run(buffer={"rate_limit": limit}) as run:
        collector, learner = FakeCollector("c0", total=40), FakeLearner(iterations=36)
        run.hub.join(collector)
        wait_until(lambda: collector.made > 3)
        wait_until(lambda: run.counts().get("rows") == 24)
        assert run.buffer.count() == 24
        run.hub.join(learner)
        wait_until(lambda: len(run.commander.finished) == 2)
        wait_until(lambda: len(run.plane.released) == 40)
    assert run.counts()["rows"] + 4 * run.counts().get("dropped_chunks", 0) == 160


def test_a_restarted_coordinator_goes_on_with_the_same_workers_and_data(tmp_path):
    path = str(tmp_path / "coordinator.sqlite")
    journal = Journal(path)
    first = Run(journal=journal)
    first.coordinator.start()
    collector, learner = FakeCollector("c0", total=10**6), FakeLearner(iterations=10**6)
    first.hub.join(learner)
    first.hub.join(collector)
    wait_until(lambda: collector.made > 20 and len(learner.batches) > 5)
    # As if the process was killed: from now on nothing is written down, and nothing reaches the workers.
    journal.close()
    for worker in (collector, learner):
        worker.link.cut()
    first.coordinator.close()
    collector.link = learner.link = None

    second = Run(journal=Journal(path))
    second.commander.left = {}
    with second as run:
        assert set(run.coordinator.open_tasks) == {"collector_task_id1", "learner_task_id1"}
        assert run.commander.open_tasks["collector"] == 1
        held = run.buffer.count()
        assert held > 0
        # Counted before the workers come back: from the first join on, batches of the second coordinator arrive.
        before, batches = collector.made, len(learner.batches)
        run.hub.join(learner)
        run.hub.join(collector)
        wait_until(lambda: collector.made > before + 20)
        wait_until(lambda: len(learner.batches) > batches + 20)
        assert min(batch["batch"] for batch in learner.batches[batches:]) == (1 << 40) + 1
        collector.total = collector.made + 3
        wait_until(lambda: "collector_task_id1" in run.commander.finished)
        learner.iterations = len(learner.batches)
        wait_until(lambda: "learner_task_id1" in run.commander.finished)
        wait_until(lambda: {*first.plane.released, *second.plane.released} == set(collector.produced))
        assert collector.log.count("collector_start_task") == learner.log.count("learner_start_task") == 1
    # What the first one released after its journal was closed, as no killed one can, the second one releases again.
    for run in (first, second):
        assert len(run.plane.released) == len(set(run.plane.released))


def test_a_task_whose_begin_a_killed_coordinator_had_not_heard_of_goes_on(tmp_path):
    path = str(tmp_path / "coordinator.sqlite")
    journal = Journal(path)
    first = Run(journal=journal)
    first.coordinator.start()
    collector = FakeCollector("c0", total=20)
    collector.faults.extend(["lose answer"] * 10_000)
    first.hub.join(collector)
    wait_until(lambda: collector.task is not None)
    journal.close()
    collector.link.cut()
    first.coordinator.close()
    collector.link = None
    collector.faults.clear()
    starts = collector.log.count("collector_start_task")
    with Run(journal=Journal(path)) as run:
        run.commander.left = {}
        run.hub.join(collector)
        wait_until(lambda: "collector_task_id1" in run.commander.finished)
        assert run.counts()["chunks"] == 20
        assert run.counts().get("dropped_chunks", 0) == 0
    # It was neither begun anew nor ended before it was done.
    assert collector.log.count("collector_start_task") == starts
    assert collector.log.count("collector_close_task") == 1
    assert collector.made == 20


def test_what_a_commander_must_not_lose_is_written_down_at_once(tmp_path, monkeypatch):
    journal = Journal(str(tmp_path / "coordinator.sqlite"))
    with Run(journal=journal) as run:
        learned = run.commander.learner_info["learner_task_id1"]
        monkeypatch.setattr(run.commander, "state_dict", lambda: {"learned": len(learned)})
        monkeypatch.setattr(
            run.commander, "update_learner_info", lambda _, info: learned.append(info) or len(learned) == 3
        )
        run.hub.join(FakeCollector("c0", total=10**6))
        run.hub.join(FakeLearner(iterations=10**6))
        wait_until(lambda: len(learned) > 5)
        assert journal.load().values["commander"] == {"learned": 3}


def test_a_task_does_not_get_the_buffer_of_the_one_before_that_is_about_to_be_closed():
    with Run(learner_tasks=2) as run:
        shut, ended, pause = run.coordinator.buffers.shut, [], threading.Event()

        def shut_late(buffer_id):
            ended.append(buffer_id)
            run.coordinator.workers_changed()
            pause.wait(0.2)  # time for a thread that wants to take the buffer
            shut(buffer_id)

        run.coordinator.buffers.shut = shut_late
        run.hub.join(FakeCollector("c0", total=10**6))
        run.hub.join(FakeLearner(iterations=3))
        wait_until(lambda: "learner_task_id2" in run.commander.finished)
    assert ended == ["test", "test"]
    assert run.coordinator.exception is None


def test_the_buffer_of_a_learner_task_that_nobody_took_is_closed():
    later = [0.0]
    with Run(clock=lambda: time.monotonic() + later[0]) as run:
        run.hub.join(FakeCollector("c0", total=3))
        wait_until(lambda: run.commander.finished == ["collector_task_id1"])
        later[0] = 1e6
        wait_until(lambda: run.commander.failed == ["learner_task_id1"])
        wait_until(lambda: run.coordinator.buffers.buffers == {})
        wait_until(lambda: len(run.plane.released) == 3)
    assert run.coordinator.exception is None


def test_a_restarted_coordinator_closes_a_buffer_that_no_learner_has(tmp_path):
    path, plane = str(tmp_path / "coordinator.sqlite"), RecordingPlane()
    with Run(journal=Journal(path), plane=plane) as run:
        run.hub.join(FakeCollector("c0", total=3))
        wait_until(lambda: run.commander.finished == ["collector_task_id1"])
    assert plane.released == []
    journal = Journal(path)
    journal.forget_task("learner_task_id1")  # killed between the end of the task and that of its buffer
    with Run(journal=journal, plane=plane) as run:
        assert run.coordinator.buffers.buffers == {}
    assert len(plane.released) == 3
    assert Journal(path).load().chunks == []


def test_unknown_tasks_are_refused():
    with Run() as run:
        coordinator = run.coordinator
        wait_until(lambda: coordinator.open_tasks)
        for method, args in {
            "deal_with_learner_get_data": ("?", "test", 2, 0),
            "deal_with_learner_send_info": ("?", "test", {}),
            "deal_with_learner_judge_finish": ("?", {}),
        }.items():
            with pytest.raises(RuntimeError, match="not open"):
                getattr(coordinator, method)(*args)
        assert not coordinator.deal_with_collector_judge_finish("?", {"collector_done": True})
        coordinator.deal_with_collector_finish_task("?", {})
        coordinator.deal_with_collector_send_data("?", "test", "d", {})
        assert coordinator.deal_with_learner_get_data("learner_task_id1", "?", 2, 0) is None
        assert run.commander.finished == []


def test_task_space_follows_the_number_of_collectors():
    with Run() as run:
        run.coordinator.deal_with_increase_collector()
        assert run.commander.max_tasks["collector"] == 3
        run.coordinator.deal_with_decrease_collector()
        assert run.commander.max_tasks["collector"] == 2


def test_the_number_of_collectors_outlives_a_coordinator(tmp_path):
    path = str(tmp_path / "coordinator.sqlite")
    with Run(journal=Journal(path)) as run:
        begun = run.commander.max_tasks["collector"], run.coordinator.status()["collectors_wanted"]
        assert run.coordinator.scale(begun[1] + 3) == {"before": begun[1], "collectors": begun[1] + 3}
        assert run.commander.max_tasks["collector"] == begun[0] + 3
        run.coordinator.scale(begun[1] + 2)
    with Run(journal=Journal(path)) as run:
        assert run.coordinator.status()["collectors_wanted"] == begun[1] + 2
        assert run.commander.max_tasks["collector"] == begun[0] + 2
