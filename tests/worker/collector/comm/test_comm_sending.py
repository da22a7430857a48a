"""Jobs that a collector orders and does not wait for."""

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
        sending.order(lambda number=number: done.append(number))
    sending.settle()
    assert done == list(range(100))


def test_the_owner_goes_on_while_a_job_is_done_and_waits_when_it_is_far_ahead(make):
    sending, gate, begun, done = make(), threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        gate.wait(10.0)
        done.append("slow")

    sending.order(slow)
    assert begun.wait(10.0)
    sending.order(lambda: done.append("next"))
    assert done == []
    third = threading.Thread(target=sending.order, args=[lambda: done.append("third")])
    third.start()
    third.join(0.05)
    assert third.is_alive()
    gate.set()
    third.join(10.0)
    sending.settle()
    assert done == ["slow", "next", "third"]


def test_after_a_failure_nothing_is_done_and_the_owner_hears_of_it(make):
    failures, done = [], []
    sending = make(failures.append)
    error = OSError("no space")

    def fail():
        raise error

    sending.order(fail)
    with pytest.raises(OSError, match="no space"):
        sending.settle()
    with pytest.raises(OSError, match="no space"):
        sending.order(lambda: done.append(1))
    sending.close()
    assert (failures, done) == ([error], [])


def test_what_was_ordered_before_the_end_is_done(make):
    sending, done = make(), []
    sending.order(lambda: done.append(1))
    sending.close()
    assert done == [1]
