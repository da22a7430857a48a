"""Jobs that a collector submits and does not wait for."""

import threading

import pytest

from ding.worker.collector.comm._sending import Sending


@pytest.fixture
def make():
    made = []

    def sending(failed=lambda error: None):
        made.append(Sending("sending-test", failed))
        return made[-1]

    yield sending
    for one in made:
        one.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "sending-test"]


def test_jobs_are_done_in_order(make):
    sending, done = make(), []
    for number in range(100):
        sending.submit(lambda number=number: done.append(number))
    sending.wait()
    assert done == list(range(100))


def test_the_owner_goes_on_while_a_job_is_done_and_waits_when_it_is_far_ahead(make):
    sending, gate, begun, done = make(), threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        gate.wait(10.0)
        done.append("slow")

    sending.submit(slow)
    assert begun.wait(10.0)
    sending.submit(lambda: done.append("next"))
    assert done == []
    third = threading.Thread(target=sending.submit, args=[lambda: done.append("third")])
    third.start()
    third.join(0.05)
    assert third.is_alive()
    gate.set()
    third.join(10.0)
    sending.wait()
    assert done == ["slow", "next", "third"]


def test_after_a_failure_nothing_is_done_and_the_next_call_raises(make):
    failures, done = [], []
    sending = make(failures.append)
    error = OSError("no space")

    def fail():
        raise error

    sending.submit(fail)
    with pytest.raises(OSError, match="no space"):
        sending.wait()
    with pytest.raises(OSError, match="no space"):
        sending.submit(lambda: done.append(1))
    sending.close()
    assert (failures, done) == ([error], [])


def test_what_was_submitted_before_the_end_is_done(make):
    sending, done = make(), []
    sending.submit(lambda: done.append(1))
    sending.close()
    assert done == [1]


def test_what_is_submitted_after_the_end_is_not_run(make):
    sending, done = make(), []
    sending.close()
    assert [sending.submit(lambda: done.append(1)) for _ in range(3)] == [False] * 3
    assert done == []


def test_the_end_wakes_an_owner_that_waits(make):
    sending, gate, begun, done, answers = make(), threading.Event(), threading.Event(), [], []

    def slow():
        begun.set()
        gate.wait(10.0)

    sending.submit(slow)
    assert begun.wait(10.0)
    sending.submit(lambda: done.append("queued"))
    late = threading.Thread(target=lambda: answers.append(sending.submit(lambda: done.append("late"))))
    late.start()
    late.join(0.05)
    assert late.is_alive()
    closing = threading.Thread(target=sending.close)
    closing.start()
    late.join(10.0)
    assert answers == [False]
    gate.set()
    closing.join(10.0)
    assert done == ["queued"]


def test_a_note_is_run_at_once_where_nothing_is_left(make):
    sending, done = make(), []
    sending.note(lambda: done.append(threading.current_thread()))
    assert done == [threading.current_thread()]


def test_notes_come_after_the_jobs_before_them_and_only_the_newest_of_a_row(make):
    sending, gate, begun, done = make(), threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        gate.wait(10.0)
        done.append("slow")

    sending.submit(slow)
    assert begun.wait(10.0)
    for number in range(3):
        sending.note(lambda number=number: done.append(number))
    sending.submit(lambda: done.append("next"))
    for number in range(3, 6):
        sending.note(lambda number=number: done.append(number))
    gate.set()
    sending.wait()
    assert done == ["slow", 2, "next", 5]


def test_a_note_after_a_failure_raises_and_one_after_the_end_does_nothing(make):
    failing, ended, done = make(), make(), []
    failing.submit(lambda: 1 / 0)
    for call in (failing.wait, lambda: failing.note(lambda: done.append(1))):
        with pytest.raises(ZeroDivisionError):
            call()
    ended.close()
    ended.note(lambda: done.append(2))
    assert done == []
