"""Containers between threads: what becomes ready when, what ends iterators, and which items are dropped."""

import threading
from queue import Empty

import pytest

from ding.utils.data.structure import Cache, LifoDeque


def test_items_become_ready_together():
    cache = Cache(maxlen=3, timeout=60.0)
    counts = []
    for item in range(5):
        cache.push_data(item)
        counts.append(cache.remain_data_count)
    assert counts == [1, 2, 0, 1, 2]
    items = cache.get_cached_data_iter()
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    cache.close()
    assert list(items) == []
    assert cache.remain_data_count == 2


def test_what_is_ready_is_taken_after_close():
    cache = Cache(2, 60.0)
    cache.push_data("a")
    cache.push_data("b")
    cache.close()
    cache.close()
    assert list(cache.get_cached_data_iter()) == ["a", "b"]
    cache.push_data("late")
    assert cache.remain_data_count == 1


def test_an_item_that_has_waited_becomes_ready():
    cache = Cache(100, timeout=0.0, monitor_interval=0.001)
    cache.run()
    items = cache.get_cached_data_iter()
    cache.push_data("a")
    assert next(items) == "a"
    cache.push_data("b")
    assert next(items) == "b"
    cache.close()


def test_close_ends_an_iterator_that_waits():
    cache = Cache(2, 60.0)
    taken = []
    reader = threading.Thread(target=lambda: taken.extend(cache.get_cached_data_iter()))
    reader.start()
    for item in range(10):
        cache.push_data(item)
    cache.close()
    reader.join(10)
    assert taken == list(range(10))


def test_a_push_waits_for_readers():
    cache = Cache(1, 60.0)
    cache.push_data(0)
    pushed = threading.Event()
    writer = threading.Thread(target=lambda: (cache.push_data(1), pushed.set()))
    writer.start()
    assert not pushed.is_set()
    items = cache.get_cached_data_iter()
    assert [next(items), next(items)] == [0, 1]
    writer.join(10)
    assert pushed.is_set()
    cache.close()


def test_a_push_does_not_wait_for_items_that_another_one_made_ready():
    cache = Cache(2, 60.0)
    for item in range(3):
        cache.push_data(item)
    writers = [threading.Thread(target=cache.push_data, args=(item,), daemon=True) for item in (3, 4)]
    for writer in writers:
        writer.start()
    assert next(cache.get_cached_data_iter()) == 0
    for writer in writers:
        writer.join(10)
    assert not any(writer.is_alive() for writer in writers)
    cache.close()


def test_what_becomes_ready_is_logged_on_demand(caplog):
    caplog.set_level("INFO")
    Cache(1, 60.0).push_data(0)
    assert caplog.messages == []
    Cache(1, 60.0, _debug=True).push_data(0)
    assert caplog.messages == ["cache: 1 items became ready"]


def test_a_cache_of_nothing_is_refused():
    with pytest.raises(ValueError, match="maxlen must be at least 1, got 0"):
        Cache(0, 1.0)


def test_a_full_stack_drops_its_oldest_items():
    stack = LifoDeque(2)
    for item in range(4):
        stack.put(item)
    assert stack.qsize() == 2
    assert [stack.get(), stack.get()] == [3, 2]
    with pytest.raises(Empty):
        stack.get(block=False)
    stack.task_done()
    stack.task_done()
    stack.join()


def test_a_stack_without_a_bound_holds_everything():
    stack = LifoDeque()
    for item in range(4):
        stack.put(item)
    assert [stack.get() for _ in range(4)] == [3, 2, 1, 0]
