import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ding.interaction.testing import FakeClock
from ding.worker.coordinator.errors import TaskStateError
from ding.worker.coordinator.tasks.journal import Journal, forget_workers
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder, TaskPhase

A, B = Holder("collector0", "a"), Holder("collector1", "b")
LEASE_S, QUEUE_S = 10.0, 30.0


class Tasks(TaskLedger):
    """A ledger with a clock that only the test moves; ``former``: the ledger of an earlier coordinator."""

    def __init__(self, former=None, max_failures=3):
        self.clock = FakeClock() if former is None else former.clock
        self.journal = Journal() if former is None else former.journal
        queue_s = {"collector": QUEUE_S, "learner": QUEUE_S}
        super().__init__(self.journal, LEASE_S, queue_s, max_failures, self.clock)
        if former is not None:
            self.restore(self.journal.load())

    def begin(self, task_id, holder):
        self.send(task_id, holder)
        assert self.started(task_id, holder)


def queued(*task_ids, **kwargs):
    tasks = Tasks(**kwargs)
    for task_id in task_ids:
        tasks.submit("collector", {"task_id": task_id})
    return tasks


def running(**kwargs):
    tasks = queued("t", **kwargs)
    tasks.begin("t", A)
    return tasks


def test_a_task_goes_its_way():
    tasks = queued("t")
    record = tasks.record("t")
    assert record.phase is TaskPhase.QUEUED
    assert tasks.queued("collector") == [{"task_id": "t"}]
    assert tasks.queued("learner") == []
    tasks.send("t", A)
    assert (record.phase, record.holder, tasks.task_of(A)) == (TaskPhase.SENT, A, record)
    tasks.clock.advance(1.0)
    assert tasks.started("t", A)
    assert (record.phase, record.lease_deadline) == (TaskPhase.RUNNING, 1.0 + LEASE_S)
    assert tasks.phases() == {"running": 1}
    assert tasks.finish("t", A)
    assert (record.phase, record.holder, tasks.task_of(A), tasks.record("t")) == (TaskPhase.DONE, None, None, None)
    assert tasks.journal.load().tasks == []


def test_a_second_result_has_no_effect_but_a_counter():
    tasks = running()
    assert tasks.finish("t", A)
    assert not tasks.finish("t", A)
    assert tasks.fail("t", A, "late") is None
    assert tasks.counters.done == 1
    assert tasks.counters.stale_events == 2


def test_events_of_a_process_that_does_not_hold_the_task_are_counted():
    tasks = running()
    assert not tasks.finish("t", Holder("collector0", "an earlier life"))
    assert not tasks.renew("t", B, 99.0)
    assert not tasks.progress("unknown", A)
    assert tasks.counters.stale_events == 3
    assert tasks.record("t").lease_deadline == LEASE_S


def test_a_lease_that_runs_out_fences_its_holder_and_queues_the_task_again():
    tasks = running()
    tasks.clock.advance(9.9)
    assert tasks.expire() == []
    tasks.renew("t", A)
    tasks.clock.advance(9.9)
    assert tasks.expire() == []
    tasks.clock.advance(0.1)
    (record,) = tasks.expire()
    assert (record.phase, record.failures) == (TaskPhase.QUEUED, 1)
    assert record.queue_deadline == tasks.clock() + QUEUE_S
    with pytest.raises(TaskStateError, match="fenced"):
        tasks.send("t", A)
    tasks.begin("t", B)
    assert not tasks.finish("t", A)
    assert tasks.finish("t", B)
    assert tasks.counters.leases_expired == 1


def test_three_failures_in_a_row_end_a_task():
    tasks = running()
    phases = [tasks.fail("t", A, "boom 1")]
    for number in (2, 3):
        tasks.send("t", A)
        phases.append(tasks.fail("t", A, f"boom {number}"))
    assert phases == [TaskPhase.QUEUED, TaskPhase.QUEUED, TaskPhase.FAILED]
    assert tasks.record("t").error == "boom 3"


def test_progress_ends_the_row_of_failures():
    tasks = running()
    for _ in range(10):
        assert tasks.progress("t", A)
        assert tasks.fail("t", A, "killed") is TaskPhase.QUEUED
        tasks.begin("t", A)
    assert tasks.record("t").attempts == 11


def test_a_task_that_nobody_takes_expires():
    tasks = queued("t")
    tasks.clock.advance(QUEUE_S)
    (record,) = tasks.expire()
    assert record.phase is TaskPhase.EXPIRED
    assert tasks.queued("collector") == []
    tasks.drop("t")
    assert tasks.phases() == {}


def test_mistakes_of_the_caller_are_told():
    tasks = running()
    with pytest.raises(TaskStateError, match="submitted before"):
        tasks.submit("collector", {"task_id": "t"})
    with pytest.raises(TaskStateError, match="is running, not queued"):
        tasks.send("t", B)
    tasks.submit("collector", {"task_id": "u"})
    with pytest.raises(TaskStateError, match="holds task 't'"):
        tasks.send("u", A)
    with pytest.raises(TaskStateError, match="cannot be dropped"):
        tasks.drop("u")


HOLDERS = [Holder(f"w{worker}", f"i{life}") for worker in range(3) for life in range(4)]
holders = st.sampled_from(HOLDERS)
numbers = st.integers(0, 30)


class LedgerRules(RuleBasedStateMachine):
    """Any order of events, from anyone: each task is in one state, none is lost, none is finished twice, and the next
    coordinator knows the same.
    """

    def __init__(self):
        super().__init__()
        self.tasks = Tasks()
        self.known = {}
        self.finished = []

    def name(self, number):
        return f"t{number % max(1, len(self.known))}"

    def records(self):
        return [record for record in map(self.tasks.record, self.known) if record is not None]

    @rule(kind=st.sampled_from(["collector", "learner"]))
    def submit(self, kind):
        task_id = f"t{len(self.known)}"
        self.tasks.submit(kind, {"task_id": task_id})
        self.known[task_id] = kind

    @rule(number=numbers, holder=holders)
    def send(self, number, holder):
        record = self.tasks.record(self.name(number))
        allowed = (
            record is not None
            and record.phase is TaskPhase.QUEUED
            and not self.tasks.is_fenced(holder)
            and self.tasks.task_of(holder) is None
        )
        if allowed:
            self.tasks.send(record.task_id, holder)
        else:
            with pytest.raises(TaskStateError):
                self.tasks.send(self.name(number), holder)

    @rule(number=numbers, holder=holders)
    def started(self, number, holder):
        self.tasks.started(self.name(number), holder)

    @rule(number=numbers)
    def started_by_its_holder(self, number):
        record = self.tasks.record(self.name(number))
        if record is not None and record.holder is not None:
            self.tasks.started(record.task_id, record.holder)

    @rule(number=numbers, holder=holders)
    def finish(self, number, holder):
        task_id = self.name(number)
        before = self.tasks.record(task_id)
        was_running = before is not None and before.phase is TaskPhase.RUNNING and before.holder == holder
        assert self.tasks.finish(task_id, holder) == was_running
        if was_running:
            self.finished.append(task_id)

    @rule(number=numbers)
    def finish_by_its_holder_twice(self, number):
        record = self.tasks.record(self.name(number))
        if record is not None and record.phase is TaskPhase.RUNNING:
            holder = record.holder
            assert self.tasks.finish(record.task_id, holder)
            assert not self.tasks.finish(record.task_id, holder)
            self.finished.append(record.task_id)

    @rule(number=numbers, holder=holders, progress=st.booleans())
    def fail(self, number, holder, progress):
        if progress:
            self.tasks.progress(self.name(number), holder)
        self.tasks.fail(self.name(number), holder, "boom")

    @rule(holder=holders)
    def fence(self, holder):
        # Only some lives, so that there are always workers left.
        if holder.incarnation != "i3":
            self.tasks.fence(holder, "killed")

    @rule(seconds=st.integers(1, 8))
    def time_passes(self, seconds):
        self.tasks.clock.advance(seconds)
        before = {record.task_id for record in map(self.tasks.task_of, HOLDERS) if record is not None}
        for record in self.tasks.expire():
            assert record.task_id in before or record.phase is TaskPhase.EXPIRED

    @invariant()
    def none_is_lost_and_none_is_finished_twice(self):
        assert len(self.finished) == len(set(self.finished)) == self.tasks.counters.done
        assert {record.task_id for record in self.records()} == self.known.keys() - set(self.finished)

    @invariant()
    def holders_and_phases_agree(self):
        held = [record for record in self.records() if record.holder is not None]
        assert all(record.phase in (TaskPhase.SENT, TaskPhase.RUNNING) for record in held)
        assert all(self.tasks.task_of(record.holder) is record for record in held)
        assert not any(self.tasks.is_fenced(record.holder) for record in held)
        others = [record for record in self.records() if record.holder is None]
        assert all(record.phase.final or record.phase is TaskPhase.QUEUED for record in others)
        assert all(record.failures < 3 for record in held)

    @invariant()
    def counters_add_up(self):
        counters, phases = self.tasks.counters, [record.phase for record in self.records()]
        assert counters.failed == phases.count(TaskPhase.FAILED)
        assert counters.expired == phases.count(TaskPhase.EXPIRED)
        assert counters.submitted == len(self.known)

    def teardown(self):
        now, then = Tasks(self.tasks), self.tasks
        for record in self.records():
            known = now.record(record.task_id)
            if record.phase.final:
                assert known is None
            else:
                same = ("kind", "body", "phase", "holder", "failures", "attempts", "error", "seen")
                assert [getattr(known, name) for name in same] == [getattr(record, name) for name in same]
        assert [now.is_fenced(holder) for holder in HOLDERS] == [then.is_fenced(holder) for holder in HOLDERS]


# 200 runs of 50 steps: 10,000 steps.
TestLedgerRules = LedgerRules.TestCase
TestLedgerRules.settings = settings(
    max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def test_a_worker_that_died_with_its_coordinator_is_no_failure_of_the_task():
    tasks = queued("t", max_failures=2)
    for life in range(5):
        tasks.begin("t", Holder("w", f"life{life}"))
        tasks = Tasks(tasks, max_failures=2)
        tasks.clock.advance(LEASE_S)
        (record,) = tasks.expire()
        assert (record.phase, record.failures) == (TaskPhase.QUEUED, 0)
    # One that is heard of, and lost after that, is one.
    for failures, phase in ((1, TaskPhase.QUEUED), (2, TaskPhase.FAILED)):
        holder = Holder("w", f"another{failures}")
        tasks.begin("t", holder)
        tasks = Tasks(tasks, max_failures=2)
        assert tasks.renew("t", holder)
        tasks.clock.advance(LEASE_S)
        (record,) = tasks.expire()
        assert (record.phase, record.failures) == (phase, failures)


def test_a_lease_that_was_given_for_longer_is_not_cut_short():
    tasks = running()
    assert tasks.renew("t", A, 120.0)
    assert tasks.renew("t", A)
    tasks.clock.advance(129.9)
    assert tasks.expire() == []
    tasks.clock.advance(0.1)
    assert [record.task_id for record in tasks.expire()] == ["t"]


def test_only_the_holder_that_died_with_its_coordinator_is_excused():
    tasks = Tasks(running(), max_failures=1)
    assert tasks.fail("t", A, "lost") is TaskPhase.QUEUED
    tasks.send("t", B)
    assert tasks.fail("t", B, "lost") is TaskPhase.FAILED


def test_an_answer_that_may_take_longer_extends_the_lease_by_that():
    tasks = running()
    assert tasks.renew("t", A, 120.0)
    assert tasks.lease_left("t", A) == 130.0
    tasks.clock.advance(131.0)
    assert tasks.lease_left("t", A) == 0.0


def nobody(holder):
    return False


def test_a_life_is_to_be_swept_from_the_end_of_its_lease_on_and_not_while_its_process_is_there():
    tasks = running()
    assert tasks.unswept(nobody) == []
    tasks.clock.advance(LEASE_S)
    assert [record.task_id for record in tasks.expire()] == ["t"]
    assert tasks.unswept(lambda holder: True) == []
    assert tasks.unswept(nobody) == [A]
    tasks.swept([A])
    assert tasks.unswept(nobody) == []


def test_the_process_of_a_fenced_life_is_not_swept_while_it_works_in_its_next_life():
    tasks = running()
    tasks.fence(A, "silent")
    next_life = Holder(A.worker, f"{A.incarnation}+1")
    tasks.send("t", next_life)
    assert tasks.unswept(nobody) == []
    tasks.fence(next_life, "killed")
    assert set(tasks.unswept(nobody)) == {A, next_life}


def test_what_was_fenced_and_not_swept_the_next_coordinator_fences_and_sweeps():
    tasks = running()
    tasks.fence(A, "killed")  # before anything was heard of it
    tasks.fence(B, "killed")
    tasks.swept([B])
    tasks = Tasks(tasks)
    assert tasks.unswept(nobody) == [A]
    assert tasks.is_fenced(A)
    tasks.swept([A])
    assert not tasks.journal.load().fenced


def test_a_life_that_had_a_task_is_swept_by_the_next_coordinator_too():
    """It may have been lost between its tasks, and with the coordinator that knew it."""
    tasks = running()
    assert tasks.unswept(nobody) == []
    assert tasks.finish("t", A)
    tasks = Tasks(tasks)
    assert tasks.unswept(lambda holder: True) == []
    assert tasks.unswept(nobody) == [A]
    assert not tasks.is_fenced(A)
    tasks.swept([A])
    assert tasks.unswept(nobody) == []
    assert not tasks.journal.load().unswept


def test_a_quarantine_outlives_the_coordinator_but_not_the_processes(tmp_path):
    path = str(tmp_path / "j.sqlite")
    before = Journal(path)
    ledger = TaskLedger(before, max_failures=2)
    again = Holder(A.worker, f"{A.incarnation}+1")
    for holder in (A, again, B):
        ledger.blame(holder, "rubbish \udc80")
    before.close()
    after = TaskLedger(journal := Journal(path))
    after.restore(journal.load())
    assert after.quarantine_of(A) == after.quarantine_of(again) == "rubbish \udc80"
    assert after.quarantine_of(B) is after.quarantine_of(Holder(A.worker, "new")) is None
    journal.close()
    forget_workers(path, [])
    assert Journal(path).load().values["quarantined"] == []
