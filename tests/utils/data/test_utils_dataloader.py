import gc
import threading

import pytest
import torch
from easydict import EasyDict

from ding.utils.data import (
    AsyncDataLoader,
    DatasetError,
    LoaderError,
    NaiveRLDataset,
    create_dataset,
    naive_save,
    offline_data_save_type,
)


def counting_source(calls=None, limit=None):
    count = 0

    def source(batch_size):
        nonlocal count
        if limit is not None and count == limit:
            return None
        count += 1
        if calls is not None:
            calls.append(batch_size)
        return [{"x": count * 10 + i} for i in range(batch_size)]

    return source


def test_batches_come_in_order_and_collated():
    with AsyncDataLoader(counting_source(), 2, "cpu") as loader:
        assert iter(loader) is loader
        assert [next(loader)["x"].tolist() for _ in range(3)] == [[10, 11], [20, 21], [30, 31]]


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_functions_are_run(num_workers):
    counter = iter(range(100))

    def source(batch_size):
        start = next(counter) * batch_size
        return [lambda i=i: {"x": torch.tensor([start + i])} for i in range(batch_size)]

    loader = AsyncDataLoader(source, 4, "cpu", chunk_size=2, num_workers=num_workers)
    assert [next(loader)["x"].tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    loader.close()


def test_prefetch_is_bounded():
    calls, full = [], threading.Event()
    inner = counting_source(calls)

    def source(batch_size):
        result = inner(batch_size)
        if len(calls) == 2:
            full.set()
        return result

    loader = AsyncDataLoader(source, 3, "cpu", collate_fn=lambda rows: rows)
    assert full.wait(10)
    next(loader)
    next(loader)
    next(loader)  # the third one can only have been made after a place was free
    loader.close()
    assert 3 <= len(calls) <= 5
    assert set(calls) == {3}


def test_close_wakes_a_waiting_reader():
    release, waiting = threading.Event(), threading.Event()

    def source(batch_size):
        waiting.set()
        release.wait(10)
        return [{"x": 1}]

    loader = AsyncDataLoader(source, 1, "cpu")
    got = []
    reader = threading.Thread(target=lambda: got.append(next(loader)))
    reader.start()
    assert waiting.wait(10)
    closer = threading.Thread(target=loader.close)
    closer.start()
    reader.join(10)
    assert got == [None]
    release.set()
    closer.join(10)
    assert not closer.is_alive()
    assert "dataloader" not in {thread.name for thread in threading.enumerate()}
    assert next(loader) is None
    loader.close()


def test_a_loader_that_is_dropped_ends_its_thread():
    loader = AsyncDataLoader(counting_source(), 2, "cpu")
    assert next(loader)["x"].shape == (2,)
    del loader
    gc.collect()
    assert "dataloader" not in {thread.name for thread in threading.enumerate()}


def test_the_end_of_the_source():
    loader = AsyncDataLoader(counting_source(limit=1), 1, "cpu")
    assert next(loader)["x"].tolist() == [10]
    assert next(loader) is None
    loader.close()


def test_failures_reach_the_reader_after_the_good_batches():
    good = counting_source(limit=1)

    def source(batch_size):
        rows = good(batch_size)
        if rows is None:
            raise OSError("disk")
        return rows

    loader = AsyncDataLoader(source, 1, "cpu")
    assert next(loader)["x"].tolist() == [10]
    with pytest.raises(LoaderError, match="disk") as info:
        next(loader)
    assert isinstance(info.value.__cause__, OSError)
    loader.close()


def test_deadline():
    release = threading.Event()
    loader = AsyncDataLoader(lambda n: release.wait(10) and None, 1, "cpu", timeout_s=0.01)
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        next(loader)
    release.set()
    loader.close()


@pytest.mark.parametrize(("kwargs", "name"), [({"num_workers": -1}, "num_workers"), ({"chunk_size": 3}, "chunk_size")])
def test_refused_arguments(kwargs, name):
    with pytest.raises(ValueError, match=name):
        AsyncDataLoader(counting_source(), 4, "cpu", **kwargs)


def test_a_loader_that_nobody_holds_ends_its_threads():
    loader = AsyncDataLoader(counting_source(), 2, "cpu")
    next(loader)
    threads = [thread for thread in threading.enumerate() if thread.name == "dataloader"]
    assert threads
    del loader
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_naive_data_set(tmp_path):
    path = str(tmp_path / "data.pth")
    rows = [{"obs": torch.tensor([float(i)]), "done": False} for i in range(3)]
    naive_save(rows, path)
    cfg = EasyDict(policy={"collect": {"data_type": "naive", "data_path": path}})
    for dataset in (create_dataset(cfg), NaiveRLDataset(path), NaiveRLDataset(rows)):
        assert len(dataset) == 3
        assert dataset[2] == {"obs": torch.tensor([2.0]), "done": False}
    offline_data_save_type(rows[:1], path, "naive")
    assert len(NaiveRLDataset(path)) == 1


def test_data_set_errors(tmp_path):
    cfg = EasyDict(policy={"collect": {"data_type": "naiv", "data_path": "x"}})
    with pytest.raises(KeyError, match="Did you mean 'naive'"):
        create_dataset(cfg)
    with pytest.raises(DatasetError, match=r"policy\.collect\.data_type is missing: one of .*hdf5"):
        create_dataset(EasyDict(policy={"collect": {"data_path": "x"}}))
    for kind, key in (
        ("hdf5", "policy.collect.data_path"),
        ("d4rl_trajectory", "dataset"),
        ("naive", "policy.collect.d"),
    ):
        with pytest.raises(DatasetError, match=f"needs the config key {key}"):
            create_dataset(EasyDict(policy={"collect": {"data_type": kind}}))
    with pytest.raises(KeyError, match="data_type"):
        offline_data_save_type([], str(tmp_path / "x"), "csv")
