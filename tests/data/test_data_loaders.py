"""Objects and models through files."""

import multiprocessing
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from ding.data import (
    FileModelLoader,
    FileModelStorage,
    FileStorage,
    FileStorageLoader,
    ShmBuffer,
    ShmBufferContainer,
    TransitionBatch,
)
from ding.data.safe_file import SafeFileError

TREE = {"obs": np.arange(6, dtype=np.float32).reshape(3, 2), "idx": [1, 2], "step": 7, "t": torch.ones(2), "name": "a"}
TIMEOUT_S = 30


class Inbox:
    """Callback that keeps what it is called with."""

    def __init__(self, count: int) -> None:
        self.items: list = []
        self._left = threading.Semaphore(0)
        self._count = count

    def __call__(self, item: object) -> None:
        self.items.append(item)
        self._left.release()

    def wait(self) -> list:
        for _ in range(self._count):
            assert self._left.acquire(timeout=TIMEOUT_S)
        return self.items


def files_of(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_an_object_comes_back_as_it_was(tmp_path) -> None:
    storage = FileStorage(str(tmp_path / "one"))
    storage.save(TREE)
    found = storage.load()
    assert found.keys() == TREE.keys()
    np.testing.assert_array_equal(found["obs"], TREE["obs"])
    assert torch.equal(found["t"], TREE["t"])
    assert (found["idx"], found["step"], found["name"]) == ([1, 2], 7, "a")
    found["obs"][:] = -1
    assert storage.load()["obs"][0, 1] == 1


def test_a_file_without_a_safe_form_is_refused_and_a_foreign_one_too(tmp_path) -> None:
    path = str(tmp_path / "one")
    with pytest.raises(SafeFileError, match=r"data\['fn'\] is a function"):
        FileStorage(path).save({"fn": test_an_object_comes_back_as_it_was})
    Path(path).write_bytes(b"\x80\x04N.")
    with pytest.raises(SafeFileError, match="safetensors"):
        FileStorage(path).load()


def test_each_load_hands_out_arrays_of_its_own(tmp_path) -> None:
    # DI-engine's loader handed out views of memory that the next load overwrote: 0, 3, 3, 3.
    loader = FileStorageLoader(str(tmp_path / "a" / "b"), worker_num=1)
    inbox = Inbox(4)
    for value in range(4):
        loader.load(loader.save({"x": np.full(1 + value, value), "n": [value] * value}), inbox)
    found = inbox.wait()
    assert [item["x"].tolist() for item in found] == [[0], [1, 1], [2] * 3, [3] * 4]
    assert [item["n"] for item in found] == [[], [1], [2, 2], [3, 3, 3]]
    loader.shutdown()
    assert files_of(tmp_path / "a" / "b") == []


def test_a_batch_of_transitions_goes_through(tmp_path) -> None:
    loader = FileStorageLoader(str(tmp_path))
    batch = TransitionBatch({"obs": torch.arange(4.0).reshape(2, 2), "done": np.array([False, True])})
    inbox = Inbox(1)
    loader.load(loader.save([batch]), inbox)
    ((found,),) = inbox.wait()
    assert torch.equal(found.columns["obs"], batch.columns["obs"])
    loader.shutdown()


def test_a_load_of_a_removed_file_is_dropped(tmp_path, caplog) -> None:
    loader = FileStorageLoader(str(tmp_path), worker_num=1)
    gone, there, inbox = loader.save({"x": 1}), loader.save({"x": 2}), Inbox(1)
    os.remove(gone.path)
    loader.load(gone, inbox)
    loader.load(there, inbox)
    assert inbox.wait() == [{"x": 2}]
    assert "cannot be loaded and is dropped" in caplog.text
    loader.shutdown()
    loader.shutdown()


def test_files_are_removed_when_their_time_is_over(tmp_path) -> None:
    loader = FileStorageLoader(str(tmp_path), ttl=0)
    loader.save({"x": 1})
    removed = threading.Event()
    while files_of(tmp_path):
        removed.wait(0.01)
    loader.shutdown()


def test_worker_num_is_checked(tmp_path) -> None:
    with pytest.raises(ValueError, match="worker_num must be at least 1, got 0"):
        FileStorageLoader(str(tmp_path), worker_num=0)


def test_a_model_is_saved_as_it_was_at_the_call(tmp_path) -> None:
    model = torch.nn.Linear(2, 1)
    loader = FileModelLoader(model, str(tmp_path / "models"))
    loader.start()
    loader.start()
    before = model.weight.detach().clone()
    inbox = Inbox(1)
    handle = loader.save(inbox)
    with torch.no_grad():
        model.weight.zero_()
    assert inbox.wait() == [handle]
    first, second = loader.load(handle), loader.load(handle)
    assert torch.equal(first["weight"], before)
    first["weight"].zero_()
    assert torch.equal(second["weight"], before)
    assert [name.startswith("model_") and name.endswith(".pth.tar") for name in files_of(tmp_path / "models")] == [True]
    loader.shutdown()
    assert files_of(tmp_path / "models") == []
    with pytest.raises(FileNotFoundError):
        loader.load(handle)


def test_a_model_loader_that_was_not_started_saves_nothing(tmp_path, caplog) -> None:
    loader = FileModelLoader(torch.nn.Linear(1, 1), str(tmp_path))
    assert loader.save(Inbox(1)) is None
    assert "call start() first" in caplog.text
    loader.shutdown()


def test_a_model_file_is_a_checkpoint_that_torch_reads(tmp_path) -> None:
    storage = FileModelStorage(str(tmp_path / "m.pth.tar"))
    storage.save({"w": torch.ones(3)})
    assert torch.equal(torch.load(storage.path, weights_only=True)["w"], torch.ones(3))
    assert torch.equal(storage.load()["w"], torch.ones(3))


def test_shared_arrays() -> None:
    buffer = ShmBuffer(np.float32, (2, 2))
    buffer.fill(np.ones((2, 2)))
    copy = buffer.get()
    buffer.fill(np.full((2, 2), 5.0))
    assert copy.sum() == 4
    view = ShmBuffer(np.int64, (3,), copy_on_get=False)
    array = view.get()
    view.fill(np.array([1, 2, 3]))
    assert array.tolist() == [1, 2, 3]
    assert isinstance(ShmBuffer(np.float32, (1,), ctype=torch.Tensor).get(), torch.Tensor)
    with pytest.raises(AssertionError, match="takes an array, got list"):
        buffer.fill([1.0])
    with pytest.raises(ValueError, match="broadcast"):
        buffer.fill(np.ones(3))


def _fill(buffer: ShmBufferContainer) -> None:
    buffer.fill({"a": np.array([1.0, 2.0]), "b": {"c": np.array([[3.0]])}})


def test_a_tree_of_shared_arrays_that_a_child_fills() -> None:
    buffer = ShmBufferContainer(np.float32, {"a": (2,), "b": {"c": (1, 1)}})
    child = multiprocessing.get_context("fork").Process(target=_fill, args=(buffer,))
    child.start()
    child.join(TIMEOUT_S)
    assert child.exitcode == 0
    found = buffer.get()
    assert found["a"].tolist() == [1.0, 2.0]
    assert found["b"]["c"].tolist() == [[3.0]]
    with pytest.raises(RuntimeError, match="dict of shapes, got int"):
        ShmBufferContainer(np.float32, 3)


def test_a_loader_makes_its_folder_when_it_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FileStorageLoader(str(tmp_path / "none")).shutdown()
    assert not (tmp_path / "none").exists()
    monkeypatch.chdir(tmp_path)
    loader = FileStorageLoader("")
    assert loader.save([1]).load() == [1]
    loader.shutdown()
