"""References between a collector's thread and the coordinator's requests."""

import threading
from functools import partial

import pytest

from ding.worker.collector.comm.outbox import Outbox


def seqs(refs):
    return [ref["seq"] for ref in refs]


def test_references_come_in_order_and_again_until_they_are_acknowledged():
    box = Outbox()
    for name in "abc":
        box.put({"chunk": name})
    first, _ = box.take()
    assert first == [{"chunk": "a", "seq": 1}, {"chunk": "b", "seq": 2}, {"chunk": "c", "seq": 3}]
    assert seqs(box.take(ack=0)[0]) == [1, 2, 3]
    assert seqs(box.take(ack=2)[0]) == [3]
    # A late acknowledgement does no harm.
    assert seqs(box.take(ack=1)[0]) == [3]
    assert box.take(ack=3) == ([], None)


def test_numbers_go_on_where_they_are_told():
    box = Outbox(last_seq=7)
    assert box.put({}) == 8
    assert box.last_seq == 8


def test_an_answer_is_bounded_and_the_progress_comes_with_the_last():
    box = Outbox(max_taken=2)
    for _ in range(3):
        box.put({})
    box.put_info({"collector_done": True})
    assert box.take() == ([{"seq": 1}, {"seq": 2}], None)
    assert box.take(ack=2) == ([{"seq": 3}], {"collector_done": True})
    assert box.take(ack=3) == ([], {"collector_done": True})


def test_a_taker_is_woken_by_a_reference():
    box = Outbox()
    found = []
    thread = threading.Thread(target=lambda: found.append(box.take(max_wait_s=30)))
    thread.start()
    box.put_info({"collector_done": False})
    box.put({})
    thread.join(10)
    assert found == [([{"seq": 1}], {"collector_done": False})]


def taken_after(box, *steps):
    """What ``take`` gives that waits while these steps are done."""
    found = []
    thread = threading.Thread(target=lambda: found.append(box.take(max_wait_s=60)))
    thread.start()
    for step in steps:
        step()
    thread.join(10)
    return found


def test_a_reference_waits_for_others_until_half_of_the_places_are_taken():
    box = Outbox(max_pending=6, gather_s=60)
    put = partial(box.put, {})
    assert [seqs(refs) for refs, _ in taken_after(box, put, put, put)] == [[1, 2, 3]]


def test_a_reference_waits_for_others_until_the_collector_is_done():
    box = Outbox(gather_s=60)
    done = {"collector_done": True}
    found = taken_after(box, lambda: box.put({}), lambda: box.put({}), lambda: box.put_info(done))
    assert found == [([{"seq": 1}, {"seq": 2}], done)]


def test_a_taker_is_woken_when_the_collector_is_done():
    box = Outbox()
    found = []
    thread = threading.Thread(target=lambda: found.append(box.take(max_wait_s=30)))
    thread.start()
    box.put_info({"collector_done": True})
    thread.join(10)
    assert found == [([], {"collector_done": True})]
    # And nobody waits for more.
    assert box.take(max_wait_s=1e9) == ([], {"collector_done": True})


def test_a_taker_is_woken_when_the_collector_is_blocked():
    box = Outbox()
    found = []
    thread = threading.Thread(target=lambda: found.append((box.take(max_wait_s=30), box.blocked)))
    thread.start()
    box.put_blocked("no space")
    thread.join(10)
    assert found == [(([], None), "no space")]
    box.put_blocked(None)
    assert box.blocked is None


def test_a_collector_waits_while_too_much_is_not_acknowledged():
    box = Outbox(max_pending=2)
    done = threading.Event()

    def put():
        for _ in range(3):
            box.put({})
        done.set()

    thread = threading.Thread(target=put)
    thread.start()
    while len(box.take(max_wait_s=10)[0]) < 2:
        pass
    assert not done.is_set()
    box.take(ack=1)
    assert done.wait(10)
    thread.join(10)


def test_closing_lets_a_waiting_collector_go_and_keeps_what_it_has():
    box = Outbox(max_pending=1)
    box.put({})
    thread = threading.Thread(target=box.put, args=({"chunk": "x"},))
    thread.start()
    box.close()
    thread.join(10)
    assert not thread.is_alive()
    assert seqs(box.take()[0]) == [1, 2]


def test_a_failure_comes_after_what_was_put_before():
    box = Outbox()
    box.put({})
    box.fail(RuntimeError("env"))
    assert seqs(box.take()[0]) == [1]
    for ack in (0, 1):
        with pytest.raises(RuntimeError, match="env"):
            box.take(ack=ack)


def test_a_failure_wakes_a_taker():
    box = Outbox()
    caught = []

    def take():
        try:
            box.take(max_wait_s=30)
        except RuntimeError as error:
            caught.append(str(error))

    thread = threading.Thread(target=take)
    thread.start()
    box.fail(RuntimeError("env"))
    thread.join(10)
    assert caught == ["env"]


def test_what_is_left_is_told_apart():
    box = Outbox(max_taken=2)
    for _ in range(4):
        box.put({})
    box.take()
    maybe, unknown = box.rest()
    assert (seqs(maybe), seqs(unknown)) == ([1, 2], [3, 4])
    maybe, unknown = box.rest(ack=1)
    assert (seqs(maybe), seqs(unknown)) == ([], [2, 3, 4])


@pytest.mark.parametrize("bad", [{"max_pending": 0}, {"max_taken": 0}])
def test_limits_are_positive(bad):
    with pytest.raises(ValueError, match="at least 1"):
        Outbox(**bad)
