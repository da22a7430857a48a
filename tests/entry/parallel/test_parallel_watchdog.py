"""When a run that does not get on gives an alarm, and when it ends."""

import logging

import pytest

from ding.entry.parallel.watchdog import RunStalled, Watchdog


class Run:
    """Seconds, and what a coordinator reports."""

    def __init__(self, **spans):
        self.now_s, self.rows, self.roles = 0.0, 0, ["collector", "learner"]
        self.watchdog = Watchdog(**spans, clock=lambda: self.now_s)

    def look(self, passed_s=1.0, rows=0):
        self.now_s += passed_s
        self.rows += rows
        workers = {f"{role}0": {"role": role} for role in self.roles}
        return self.watchdog.look({"workers": workers, "buffers": {"rows": self.rows}, "train_iter": 0})


@pytest.mark.parametrize("missing", ["collector", "learner"])
def test_a_run_without_workers_of_a_kind_gives_an_alarm_and_ends(missing, caplog):
    run = Run(alarm_s=3.0, end_s=6.0)
    run.roles.remove(missing)
    with caplog.at_level(logging.WARNING, "ding.entry"):
        assert [run.look(rows=1) for _ in range(2)] == [None, None]
        assert run.look(rows=1) == f"no {missing} is connected, for 3 s now"
        run.look(rows=1)
        run.look(rows=1)
        with pytest.raises(RunStalled, match=rf"no {missing} is connected, for 6 s now.*stall_end_s"):
            run.look(rows=1)
    assert len(caplog.records) == 1


def test_a_run_without_progress_gives_an_alarm_that_ends_with_progress():
    run = Run(alarm_s=3.0, end_s=60.0)
    run.look(rows=1)
    assert [run.look() for _ in range(3)] == [None, None, "there is no progress, for 3 s now"]
    assert run.look(rows=1) is None


def test_a_process_that_stood_still_has_seen_nothing():
    run = Run(alarm_s=10.0, end_s=10.0)
    run.look(rows=1)
    assert run.look(passed_s=3600.0) is None


def test_zero_is_never():
    run = Run(alarm_s=0.0, end_s=0.0)
    assert [run.look(passed_s=5.0) for _ in range(1000)] == [None] * 1000
