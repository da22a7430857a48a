import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ding.worker.coordinator.errors import TaskStateError
from ding.worker.coordinator.tasks.journal import Journal
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.machine import Holder, TaskMachine, TaskPhase

A, B = Holder("collector0", "a"), Holder("collector1", "b")


def running(holder=A, **kwargs):
    machine = TaskMachine(**kwargs)
    machine.submit("t", "collector", queue_deadline=10.0)
    machine.send("t", holder, lease_deadline=5.0)
    machine.started("t", holder, lease_deadline=6.0)
    return machine


def test_a_task_goes_its_way():
    machine = TaskMachine()
    record = machine.submit("t", "collector", 10.0)
    assert record.phase is TaskPhase.QUEUED
    assert machine.queued("collector") == [record]
    assert machine.queued("learner") == []
    machine.send("t", A, 5.0)
    assert (record.phase, record.holder, machine.task_of(A)) == (TaskPhase.SENT, A, record)
    assert machine.started("t", A, 6.0)
    assert (record.phase, record.lease_deadline) == (TaskPhase.RUNNING, 6.0)
    assert machine.finish("t", A)
    assert (record.phase, record.holder, machine.task_of(A)) == (TaskPhase.DONE, None, None)


def test_a_second_result_has_no_effect_but_a_counter():
    machine = running()
    assert machine.finish("t", A)
    assert not machine.finish("t", A)
    assert machine.fail("t", A, "late", 20.0) is None
    assert machine.counters.done == 1
    assert machine.counters.stale_events == 2
    assert machine.tasks["t"].phase is TaskPhase.DONE


def test_events_of_a_process_that_does_not_hold_the_task_are_counted():
    machine = running()
    assert not machine.finish("t", Holder("collector0", "an earlier life"))
    assert not machine.renew("t", B, 99.0)
    assert not machine.progress("unknown", A)
    assert machine.counters.stale_events == 3
    assert machine.tasks["t"].lease_deadline == 6.0


def test_a_lease_that_runs_out_fences_its_holder_and_queues_the_task_again():
    machine = running()
    assert machine.expire(5.9, 20.0) == []
    machine.renew("t", A, 8.0)
    assert machine.expire(6.1, 20.0) == []
    (record,) = machine.expire(8.0, 20.0)
    assert (record.phase, record.failures, record.queue_deadline) == (TaskPhase.QUEUED, 1, 20.0)
    with pytest.raises(TaskStateError, match="fenced"):
        machine.send("t", A, 30.0)
    machine.send("t", B, 30.0)
    machine.started("t", B, 30.0)
    assert not machine.finish("t", A)
    assert machine.finish("t", B)
    assert machine.counters.leases_expired == 1


def test_three_failures_in_a_row_end_a_task():
    machine = running()
    phases = [machine.fail("t", A, "boom 1", 20.0)]
    for number in (2, 3):
        machine.send("t", A, 5.0)
        phases.append(machine.fail("t", A, f"boom {number}", 20.0))
    assert phases == [TaskPhase.QUEUED, TaskPhase.QUEUED, TaskPhase.FAILED]
    assert machine.tasks["t"].error == "boom 3"


def test_progress_ends_the_row_of_failures():
    machine = running()
    for _ in range(10):
        assert machine.progress("t", A)
        assert machine.fail("t", A, "killed", 20.0) is TaskPhase.QUEUED
        machine.send("t", A, 5.0)
        machine.started("t", A, 5.0)
    assert machine.tasks["t"].attempts == 11


def test_a_task_that_nobody_takes_expires():
    machine = TaskMachine()
    machine.submit("t", "collector", 10.0)
    (record,) = machine.expire(10.0, 20.0)
    assert record.phase is TaskPhase.EXPIRED
    assert machine.queued("collector") == []
    machine.forget(["t"])
    assert machine.tasks == {}


def test_mistakes_of_the_caller_are_told():
    machine = running()
    with pytest.raises(TaskStateError, match="submitted before"):
        machine.submit("t", "collector", 1.0)
    with pytest.raises(TaskStateError, match="is running, not queued"):
        machine.send("t", B, 1.0)
    machine.submit("u", "collector", 1.0)
    with pytest.raises(TaskStateError, match="holds task 't'"):
        machine.send("u", A, 1.0)
    with pytest.raises(TaskStateError, match="cannot be forgotten"):
        machine.forget(["u"])


holders = st.builds(Holder, st.sampled_from(["w0", "w1", "w2"]), st.sampled_from(["i0", "i1", "i2", "i3"]))
numbers = st.integers(0, 30)


class MachineRules(RuleBasedStateMachine):
    """Any order of events, from anyone: each task is in one state, none is lost, none is finished twice."""

    def __init__(self):
        super().__init__()
        self.machine = TaskMachine()
        self.now = 0.0
        self.known = {}
        self.finished = []

    def name(self, number):
        return f"t{number % max(1, len(self.known))}"

    @rule(kind=st.sampled_from(["collector", "learner"]), patience=st.integers(1, 50))
    def submit(self, kind, patience):
        task_id = f"t{len(self.known)}"
        self.machine.submit(task_id, kind, self.now + patience)
        self.known[task_id] = kind

    @rule(number=numbers, holder=holders, lease=st.integers(1, 20))
    def send(self, number, holder, lease):
        record = self.machine.tasks.get(self.name(number))
        allowed = (
            record is not None
            and record.phase is TaskPhase.QUEUED
            and holder not in self.machine.fenced
            and self.machine.task_of(holder) is None
        )
        if allowed:
            self.machine.send(record.task_id, holder, self.now + lease)
        else:
            with pytest.raises(TaskStateError):
                self.machine.send(self.name(number), holder, self.now + lease)

    @rule(number=numbers, holder=holders, lease=st.integers(1, 20))
    def started(self, number, holder, lease):
        self.machine.started(self.name(number), holder, self.now + lease)

    @rule(number=numbers)
    def started_by_its_holder(self, number):
        record = self.machine.tasks.get(self.name(number))
        if record is not None and record.holder is not None:
            self.machine.started(record.task_id, record.holder, self.now + 10)

    @rule(number=numbers, holder=holders)
    def finish(self, number, holder):
        task_id = self.name(number)
        before = self.machine.tasks.get(task_id)
        was_running = before is not None and before.phase is TaskPhase.RUNNING and before.holder == holder
        assert self.machine.finish(task_id, holder) == was_running
        if was_running:
            self.finished.append(task_id)

    @rule(number=numbers)
    def finish_by_its_holder_twice(self, number):
        record = self.machine.tasks.get(self.name(number))
        if record is not None and record.phase is TaskPhase.RUNNING:
            holder = record.holder
            assert self.machine.finish(record.task_id, holder)
            assert not self.machine.finish(record.task_id, holder)
            self.finished.append(record.task_id)

    @rule(number=numbers, holder=holders, progress=st.booleans())
    def fail(self, number, holder, progress):
        if progress:
            self.machine.progress(self.name(number), holder)
        self.machine.fail(self.name(number), holder, "boom", self.now + 30)

    @rule(holder=holders)
    def fence(self, holder):
        # Only some lives, so that there are always workers left.
        if holder.incarnation != "i3":
            self.machine.fence(holder, "killed", self.now + 30)

    @rule(seconds=st.integers(1, 8))
    def time_passes(self, seconds):
        self.now += seconds
        before = {record.task_id for record in self.machine.active()}
        for record in self.machine.expire(self.now, self.now + 30):
            assert record.task_id in before or record.phase is TaskPhase.EXPIRED

    @rule(number=numbers)
    def give_up(self, number):
        if number == 7:
            self.machine.give_up(self.name(number), "closed")

    @invariant()
    def none_is_lost(self):
        assert {task_id: record.kind for task_id, record in self.machine.tasks.items()} == self.known

    @invariant()
    def none_is_finished_twice(self):
        assert len(self.finished) == len(set(self.finished)) == self.machine.counters.done
        done = {task_id for task_id, record in self.machine.tasks.items() if record.phase is TaskPhase.DONE}
        assert done == set(self.finished)

    @invariant()
    def holders_and_phases_agree(self):
        held = [record for record in self.machine.tasks.values() if record.holder is not None]
        assert all(record.phase in (TaskPhase.SENT, TaskPhase.RUNNING) for record in held)
        others = [record for record in self.machine.tasks.values() if record.holder is None]
        assert all(record.phase.final or record.phase is TaskPhase.QUEUED for record in others)
        assert len({record.holder for record in held}) == len(held)
        assert not {record.holder for record in held} & self.machine.fenced
        assert all(record.failures < self.machine.max_failures for record in held)

    @invariant()
    def counters_add_up(self):
        counters, phases = self.machine.counters, [record.phase for record in self.machine.tasks.values()]
        assert counters.failed == phases.count(TaskPhase.FAILED)
        assert counters.expired == phases.count(TaskPhase.EXPIRED)
        assert counters.submitted == len(phases)


# 200 runs of 50 steps: 10,000 steps.
TestMachineRules = MachineRules.TestCase
TestMachineRules.settings = settings(
    max_examples=200, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def test_a_worker_that_died_with_its_coordinator_is_no_failure_of_the_task():
    machine = TaskMachine(max_failures=2)
    record = machine.submit("t", "learner", 100.0)
    for life in range(5):
        holder = Holder("w", f"life{life}")
        machine.send("t", holder, 10.0)
        machine.started("t", holder, 10.0)
        machine = TaskMachine(max_failures=2)  # the next coordinator
        machine.restore(record)
        assert machine.expire(20.0, 100.0) == [record]
        assert (record.phase, record.failures) == (TaskPhase.QUEUED, 0)
    # One that is heard of, and lost after that, is one.
    for failures, phase in ((1, TaskPhase.QUEUED), (2, TaskPhase.FAILED)):
        holder = Holder("w", f"another{failures}")
        machine.send("t", holder, 10.0)
        machine.started("t", holder, 10.0)
        machine.restore(record)
        assert machine.renew("t", holder, 15.0)
        machine.expire(20.0, 100.0)
        assert (record.phase, record.failures) == (phase, failures)


def test_a_lease_that_was_given_for_longer_is_not_cut_short():
    machine = TaskMachine()
    machine.submit("t", "collector", 10.0)
    machine.send("t", A, 130.0)
    assert machine.renew("t", A, 15.0)
    assert machine.expire(129.0, 0.0) == []
    assert [record.task_id for record in machine.expire(130.0, 200.0)] == ["t"]


def test_only_the_holder_that_died_with_its_coordinator_is_excused():
    former, machine = TaskMachine(), TaskMachine(max_failures=1)
    former.submit("t", "collector", 10.0)
    machine.restore(former.send("t", A, 5.0))
    assert machine.fail("t", A, "lost", 10.0) is TaskPhase.QUEUED
    machine.send("t", B, 5.0)
    assert machine.fail("t", B, "lost", 10.0) is TaskPhase.FAILED


def ledger_of(clock):
    ledger = TaskLedger(Journal(), lease_s=10.0, clock=lambda: clock[0])
    ledger.submit("collector", {"task_id": "t"})
    ledger.send("t", A)
    return ledger


def test_an_answer_that_may_take_longer_extends_the_lease_by_that():
    clock = [0.0]
    ledger = ledger_of(clock)
    assert ledger.renew("t", A, 120.0)
    assert ledger.lease_left("t", A) == 130.0
    clock[0] = 131.0
    assert ledger.lease_left("t", A) == 0.0


def nobody(holder):
    return False


def test_a_life_is_to_be_swept_from_the_end_of_its_lease_on_and_not_while_its_process_is_there():
    clock = [0.0]
    ledger = ledger_of(clock)
    assert ledger.unswept(nobody) == []
    clock[0] = 10.0
    assert [record.task_id for record in ledger.expire()] == ["t"]
    assert ledger.unswept(lambda holder: True) == []
    assert ledger.unswept(nobody) == [A]
    ledger.swept([A])
    assert ledger.unswept(nobody) == []


def test_the_process_of_a_fenced_life_is_not_swept_while_it_works_in_its_next_life():
    ledger = ledger_of([0.0])
    ledger.fence(A, "silent")
    next_life = Holder(A.worker, f"{A.incarnation}+1")
    ledger.send("t", next_life)
    assert ledger.unswept(nobody) == []
    ledger.fence(next_life, "killed")
    assert set(ledger.unswept(nobody)) == {A, next_life}


def test_what_was_fenced_and_not_swept_the_next_coordinator_fences_and_sweeps():
    journal = Journal()
    former = TaskLedger(journal)
    former.submit("collector", {"task_id": "t"})
    former.send("t", A)
    former.fence(A, "killed")  # before anything was heard of it
    former.fence(B, "killed")
    former.swept([B])
    ledger = TaskLedger(journal)
    ledger.restore(journal.load())
    assert ledger.unswept(nobody) == [A]
    assert ledger.is_fenced(A)
    ledger.swept([A])
    assert not journal.load().fenced
