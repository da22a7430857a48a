"""Data sets in columnar files: what comes back, folders of files, files that are wrong."""

import numpy as np
import pytest
import torch
from easydict import EasyDict
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.data import ColumnFileDataset, TransitionBatch, columns_save
from ding.utils.data import (
    DatasetFieldError,
    DatasetFileError,
    DatasetValueError,
    create_dataset,
    offline_data_save_type,
)

NORM = {"norm_obs": {"use_norm": True, "offline_stats": {"use_offline_stats": True}}}


def opened(path: object, **sections: object) -> ColumnFileDataset:
    return create_dataset(EasyDict(policy={"collect": {"data_type": "columns", "data_path": str(path)}}, **sections))


def numbered(first: int, count: int) -> dict[str, np.ndarray]:
    obs = np.stack([np.arange(first, first + count), np.zeros(count)], 1).astype(np.float32)
    return {"obs": obs, "action": np.arange(first, first + count)}


def test_transitions_come_back(tmp_path):
    rows = [{"obs": {"a": torch.full((2,), float(i)), "b": np.arange(3)}, "done": i == 1} for i in range(2)]
    offline_data_save_type(rows, str(tmp_path / "f"), "columns")
    dataset = opened(tmp_path / "f")
    assert len(dataset) == 2
    item = dataset[1]
    assert item["obs"]["a"].tolist() == [1.0, 1.0]
    assert item["done"]
    batch = dataset.rows_at(np.array([1, 0]))
    assert batch["obs"]["a"].tolist() == [[1, 1], [0, 0]]
    assert batch["obs"]["b"].shape == (2, 3)


def test_other_forms_of_transitions(tmp_path):
    columns_save(TransitionBatch(numbered(0, 3)), str(tmp_path / "batch"))
    columns_save(opened(tmp_path / "batch"), str(tmp_path / "again"))
    assert (tmp_path / "batch").read_bytes() == (tmp_path / "again").read_bytes()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_folder_is_its_files_one_after_the_other(tmp_path_factory, counts, data):
    folder = tmp_path_factory.mktemp("d")
    for number, count in enumerate(counts):
        columns_save(numbered(sum(counts[:number]), count), str(folder / f"{number:03}"))
    dataset, total = opened(folder), sum(counts)
    assert len(dataset) == total
    places = data.draw(st.lists(st.integers(-total, total - 1), max_size=6))
    picked = dataset.rows_at(np.array(places, np.int64))
    assert picked["action"].tolist() == [place % total for place in places]
    assert dataset[total - 1]["obs"].tolist() == [total - 1, 0]
    with pytest.raises(IndexError):
        dataset.rows_at(np.array([total]))
    np.testing.assert_allclose(dataset.mean, [(total - 1) / 2, 0], rtol=1e-6)
    np.testing.assert_allclose(dataset.std[0], np.arange(total).std() + 1e-3, rtol=1e-5)


def test_observations_are_standardised_as_they_are_read(tmp_path):
    columns_save(numbered(0, 3), str(tmp_path / "f"))
    dataset = opened(tmp_path / "f", env=NORM)
    assert dataset[1]["obs"].tolist() == [0, 0]
    np.testing.assert_allclose(dataset[2]["obs"][0], 1 / (np.arange(3).std() + 1e-3), rtol=1e-5)


def test_wrong_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no data file"):
        opened(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="in the folder"):
        opened(tmp_path)
    columns_save(numbered(0, 3), str(tmp_path / "a"))
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(whole[:-1])
    with pytest.raises(DatasetFileError, match="a is truncated"):
        opened(tmp_path / "a")
    (tmp_path / "a").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DatasetFileError, match="a is damaged"):
        opened(tmp_path / "a")
    (tmp_path / "a").write_bytes(whole)
    columns_save({**numbered(0, 3), "obs": np.zeros((3, 3), np.float32)}, str(tmp_path / "b"))
    with pytest.raises(
        DatasetFieldError, match=r"b: field 'obs' is \('float32', \(3,\)\), but \('float32', \(2,\)\) in"
    ):
        opened(tmp_path)
    wrong = numbered(0, 3)
    wrong["obs"][2, 1] = np.inf
    columns_save(wrong, str(tmp_path / "b"))
    with pytest.raises(DatasetValueError, match="field 'obs' holds NaN or infinity in row 5"):
        opened(tmp_path)


def test_what_has_no_columns_is_named(tmp_path):
    with pytest.raises(DatasetFieldError, match="'text' has no form"):
        columns_save([{"text": "a"}], str(tmp_path / "f"))
    with pytest.raises(DatasetFieldError, match="one length"):
        columns_save({"a": np.zeros(2), "b": np.zeros(3)}, str(tmp_path / "f"))
    assert list(tmp_path.iterdir()) == []
