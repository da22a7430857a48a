import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.data import SchemaError, TransitionBatch
from ding.data.storage import (
    ColumnStorage,
    DeviceStorage,
    ObjectStorage,
    StorageOptions,
    columns_of,
    make_storage,
)


def columns(count, first=0):
    number = torch.arange(first, first + count)
    image = number[:, None, None, None]
    return {
        "obs": {"image": image * torch.ones(2, 20, 20), "vector": number[:, None] * torch.ones(3)},
        "next_obs": {"image": (image + 1) * torch.ones(2, 20, 20), "vector": number[:, None] * torch.ones(3)},
        "action": number[:, None],
        "reward": number[:, None] * torch.ones(3, dtype=torch.float64),
        "state": number[:, None].to(torch.bfloat16),
        "done": number.numpy() % 3 == 0,
        "collect_iter": number.numpy(),
        "wave": number.numpy()[:, None] * np.ones(2, np.complex128),
        "info": [{"n": int(n)} for n in number],
    }  # fmt: skip


def flat(batch):
    return [
        (
            row["obs"]["image"][0, 0, 0].item(),
            row["next_obs"]["image"][1, 3, 3].item(),
            row["obs"]["vector"][2].item(),
            row["action"].item(),
            row["reward"].tolist(),
            row["state"].item(),
            row["done"],
            row["collect_iter"],
            row["wave"][1],
            row["info"]["n"],
        )
        for row in TransitionBatch(batch.columns).rows()
    ]


@pytest.mark.parametrize(
    "options", [{}, {"elide_next_obs": True}, {"elide_next_obs": False}, {"frame_stack": 2}, "map"]
)
def test_rows_come_back_as_they_went_in(options, tmp_path):
    options = {"path": str(tmp_path / "maps")} if options == "map" else options
    storage = make_storage(columns(4), 10, StorageOptions(**options))
    assert isinstance(storage, ColumnStorage)
    model = {}
    for first, start, count in ((0, 0, 4), (4, 4, 4), (8, 8, 4), (12, 2, 10), (30, 9, 3)):
        storage.write(start, columns(count, first), count)
        rows = flat(TransitionBatch(columns(count, first)))
        model.update({(start + i) % 10: rows[i] for i in range(count)})
        positions = np.array(sorted(model), dtype=np.int64)
        read = storage.read(positions)
        assert flat(read) == [model[p] for p in positions.tolist()]
    assert {name: type(leaf) for name, leaf in read.columns.items() if name != "obs"} == {
        name: type(leaf) for name, leaf in columns(1).items() if name != "obs"
    }
    assert read.columns["state"].dtype == torch.bfloat16
    storage.close()
    assert not (tmp_path / "maps").exists() or os.listdir(tmp_path / "maps") == []


def test_what_is_read_is_a_copy():
    storage = make_storage(columns(4), 4, StorageOptions())
    storage.write(0, columns(4), 4)
    for leaf in storage.read(np.arange(4)).columns["obs"].values():
        leaf.zero_()
    assert flat(storage.read(np.arange(4))) == flat(TransitionBatch(columns(4)))


def test_what_is_written_is_a_copy():
    source = columns(4)
    storage = make_storage(source, 4, StorageOptions())
    storage.write(0, source, 4)
    source["action"].zero_()
    source["obs"]["image"].zero_()
    source["done"][:] = True
    assert flat(storage.read(np.arange(4))) == flat(TransitionBatch(columns(4)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("action"), r"missing fields \['action'\]"),
        (lambda c: c.update(extra=c["action"]), r"extra fields \['extra'\]"),
        (lambda c: c.update(actoin=c.pop("action")), "Did you mean 'action'"),
        (lambda c: c["obs"].pop("vector"), r"obs\.vector"),
        (lambda c: c.update(action=c["action"].float()), "field 'action' is tensor float32"),
        (lambda c: c.update(action=c["action"].repeat(1, 2)), r"field 'action' is tensor int64\[2\]"),
        (lambda c: c.update(action=[None, None]), "field 'action' is list of objects"),
        (lambda c: c.update(done=c["collect_iter"]), "field 'done'"),
        (lambda c: c.update(state=c["state"].to(torch.int16)), "field 'state'"),
        (lambda c: c.update(action=c["action"][:1]), "with 1 rows"),
        (lambda c: c["obs"].update(image={"deep": c["obs"]["image"]}), "image"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"elide_next_obs": False}])
def test_rows_that_do_not_fit_are_told_by_name_and_change_nothing(change, message, options):
    storage = make_storage(columns(4), 5, StorageOptions(**options))
    storage.write(0, columns(4), 4)
    wrong = columns(2, 50)
    change(wrong)
    with pytest.raises(SchemaError, match=message):
        storage.write(3, wrong, 2)
    assert flat(storage.read(np.arange(4))) == flat(TransitionBatch(columns(4)))


SMALL = {
    "a": torch.zeros(2, 4),
    "b": torch.zeros(2, 1),
    "c": torch.zeros(2, 3),
    "n": torch.zeros(2, 1, dtype=torch.int64),
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("b", torch.zeros(2, 1, dtype=torch.float64)), ("b", torch.zeros(2, 2)), ("b", torch.zeros(2)),
        ("n", torch.zeros(2, 1, dtype=torch.int32)), ("n", torch.zeros(1, 1, dtype=torch.int64)), ("b", [0.0, 1.0]),
    ],
)  # fmt: skip
def test_the_quick_way_checks_as_the_careful_one_does(key, value):
    storage = make_storage(SMALL, 6, StorageOptions())
    storage.write(0, {name: leaf + 1 for name, leaf in SMALL.items()}, 2)
    with pytest.raises(SchemaError, match=f"field '{key}'"):
        storage.write(1, {**SMALL, key: value}, 2)
    assert all((leaf == 1).all() for leaf in storage.read(np.arange(2)).columns.values())


@pytest.mark.parametrize("options", [{}, {"device": "cpu"}])
def test_tensors_with_gradients_and_arrays_among_tensors_are_taken(options):
    storage = make_storage(SMALL, 6, StorageOptions(**options))
    storage.write(0, {**SMALL, "a": torch.ones(2, 4, requires_grad=True), "b": np.full((2, 1), 2, np.float32)}, 2)
    read = storage.read(np.array([1])).columns
    assert read["a"].tolist() == [[1, 1, 1, 1]]
    assert read["b"].tolist() == [[2]]
    assert not read["a"].requires_grad


@pytest.mark.parametrize("options", [{}, {"device": "cpu"}])
def test_whole_numbers_are_taken_where_fractions_are_stored(options):
    storage = make_storage({"reward": np.array([0.5])}, 3, StorageOptions(**options))
    storage.write(1, {"reward": np.array([2])}, 1)
    assert storage.read(np.array([1]))[0] == {"reward": 2.0}
    with pytest.raises(SchemaError, match="'reward' has whole numbers beyond"):
        storage.write(1, {"reward": np.array([2**60 + 1])}, 1)
    assert storage.read(np.array([1]))[0] == {"reward": 2.0}
    with pytest.raises(SchemaError, match="reward"):
        make_storage({"reward": np.array([1])}, 3, StorageOptions(**options)).write(0, {"reward": np.array([0.5])}, 1)


@pytest.mark.parametrize(
    "source",
    [
        # The stride of a record of these would be no multiple of eight bytes.
        {"wave": torch.tensor([[1 + 2j]]), "level": torch.ones(1, 1)},
        {"nothing": torch.zeros(1, 0)},
        {"nothing": torch.zeros(1, 0, 3), "level": torch.ones(1, 1)},
        {"obs": torch.zeros(1, 4, 0), "next_obs": torch.zeros(1, 4, 0)},
    ],
)
@pytest.mark.parametrize("options", [{}, {"elide_next_obs": True}, {"device": "cpu"}])
def test_complex_and_empty_tensors_come_back(source, options):
    storage = make_storage(source, 3, StorageOptions(**options))
    storage.write(2, source, 1)
    read = storage.read(np.array([2])).columns
    assert read.keys() == source.keys()
    assert all(read[key].dtype == leaf.dtype and torch.equal(read[key], leaf) for key, leaf in source.items())


def test_stacks_of_empty_frames_are_no_stacks():
    source = {"obs": torch.zeros(1, 4, 0), "next_obs": torch.zeros(1, 4, 0)}
    with pytest.raises(SchemaError, match="frame_stack=4"):
        make_storage(source, 3, StorageOptions(frame_stack=4))


def test_small_fields_of_bfloat16_come_back_as_such():
    source = {"x": torch.tensor([[1.5], [2.5]], dtype=torch.bfloat16), "n": np.arange(2)}
    storage = make_storage(source, 3, StorageOptions())
    storage.write(1, source, 2)
    read = storage.read(np.array([2, 1])).columns
    assert read["x"].dtype == torch.bfloat16
    assert read["x"].tolist() == [[2.5], [1.5]]


def test_large_fields_are_read_to_aligned_memory():
    source = {"odd": torch.ones(1, 513, dtype=torch.uint8), "wide": torch.ones(1, 100, dtype=torch.float64)}
    storage = make_storage(source, 3, StorageOptions())
    storage.write(0, source, 1)
    for count in (1, 3):
        assert (storage.read(np.zeros(count, np.int64)).columns["wide"].data_ptr() % 8) == 0


EIGHT_BITS = torch.ones(2, 3).to(torch.float8_e4m3fn)


def test_tensors_that_no_array_can_hold_are_kept_as_objects():
    source = {"x": EIGHT_BITS, "sparse": torch.eye(2).to_sparse(), "n": np.arange(2)}
    storage = make_storage(source, 3, StorageOptions())
    storage.write(1, source, 2)
    read = storage.read(np.array([2])).columns
    assert read["x"][0].dtype == torch.float8_e4m3fn
    assert read["x"][0].float().tolist() == [1, 1, 1]
    assert read["sparse"][0].to_dense().tolist() == [0, 1]


def test_tensors_that_no_array_can_hold_are_told_by_name():
    storage = make_storage({"x": torch.ones(2, 3)}, 3, StorageOptions())
    with pytest.raises(SchemaError, match="field 'x' is tensor float8_e4m3fn"):
        storage.write(0, {"x": EIGHT_BITS}, 2)


@pytest.mark.parametrize("options", [{}, {"device": "cpu"}])
def test_arrays_of_either_byte_order_are_taken(options):
    source = {"x": np.arange(6, dtype=">f4").reshape(2, 3)[:, ::-1], "n": np.arange(2, dtype=">i8")}
    storage = make_storage(source, 4, StorageOptions(**options))
    storage.write(0, source, 2)
    swapped = {key: leaf.astype(leaf.dtype.newbyteorder()) for key, leaf in source.items()}
    storage.write(2, {"x": swapped["x"][:, ::-1].copy()[:, ::-1], "n": swapped["n"]}, 2)
    read = storage.read(np.arange(4)).columns
    assert read["x"].tolist() == [[2, 1, 0], [5, 4, 3]] * 2
    assert read["n"].tolist() == [0, 1] * 2


def test_rows_of_objects_share_no_memory_with_the_columns_they_came_in():
    storage = make_storage({"x": [[1, 2]], "y": [None]}, 3, StorageOptions())
    tensor, array = torch.arange(4.0).reshape(2, 2), np.arange(4.0).reshape(2, 2)
    storage.write(0, {"x": tensor, "y": array}, 2)
    tensor.zero_()
    array[:] = 0
    read = storage.read(np.array([1])).columns
    assert read["x"][0].tolist() == [2, 3]
    assert read["y"][0].tolist() == [2, 3]


@pytest.mark.parametrize(
    "rows",
    [[1, 2], ["a"], [{"a": 1}, {"b": 2}], [{"a": 1}, 3], [[{"a": 1}]], [{}], [{"a": np.ones(2)}, {"a": np.ones(3)}]],
)
def test_what_has_no_schema_is_kept_as_objects(rows):
    storage = make_storage(rows, 4, StorageOptions())
    assert isinstance(storage, ObjectStorage)
    storage.write(3, rows, len(rows))
    back = storage.read((3 + np.arange(len(rows))) % 4)
    assert [str(one) for one in back] == [str(one) for one in rows]
    assert all(one is not row for one, row in zip(back, rows) if isinstance(row, (dict, list)))


def test_columns_of_names_the_row():
    with pytest.raises(SchemaError, match="row 1 is a int"):
        columns_of([{"a": 1}, 5])


def test_objects_are_released_when_rows_are_erased():
    import weakref

    class Thing:
        pass

    thing = Thing()
    storage = make_storage({"x": [thing], "n": np.zeros(1)}, 3, StorageOptions())
    storage.write(2, {"x": [thing], "n": np.zeros(1)}, 1)
    gone = weakref.ref(thing)
    del thing
    assert gone() is not None
    storage.erase(np.array([2]))
    assert gone() is None


def test_device_storage_gives_tensors_on_the_device():
    source = {"obs": {"a": torch.ones(2, 3)}, "done": np.array([True, False])}
    storage = make_storage(source, 3, StorageOptions(device="cpu"))
    assert isinstance(storage, DeviceStorage)
    storage.write(2, source, 2)
    read = storage.read(np.array([2, 0])).columns
    assert torch.equal(read["done"], torch.tensor([True, False]))
    assert torch.equal(read["obs"]["a"], torch.ones(2, 3))
    with pytest.raises(SchemaError, match=r"obs\.a"):
        storage.write(0, {"obs": {"a": torch.ones(2, 4)}, "done": np.array([True, False])}, 2)
    with pytest.raises(SchemaError, match="objects"):
        make_storage({"x": ["a"]}, 3, StorageOptions(device="cpu"))
    with pytest.raises(SchemaError, match="field '1' is array"):
        make_storage({1: np.ones(2, np.longdouble)}, 3, StorageOptions(device="cpu"))


@pytest.mark.parametrize(
    "options",
    [
        {"elide_next_obs": "yes"},
        {"frame_stack": -1},
        {"frame_stack": 1.5},
        {"device": "cpu", "path": "x"},
        {"device": "cpu", "frame_stack": 4},
        {"device": "cpu", "elide_next_obs": True},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(ValueError, match=r"storage\."):
        StorageOptions(**options)


def test_frame_stack_needs_stacks():
    with pytest.raises(SchemaError, match="frame_stack=4"):
        make_storage(columns(2), 4, StorageOptions(frame_stack=4))


# ------------------------------------------------------------------ elision


def episodes(rng, envs, steps, shape, n_step=1):
    """Transitions of several environments in turn; observations are stacks that shift by one frame."""
    state = [rng.integers(0, 3, shape).astype(np.uint8) for _ in range(envs)]
    for _ in range(steps):
        for env in range(envs):
            path = [state[env]]
            for _ in range(n_step):
                new = np.concatenate([path[-1][1:], rng.integers(0, 3, (1, *shape[1:])).astype(np.uint8)])
                path.append(new)
            yield path[0], path[-1]
            state[env] = path[1] if rng.random() < 0.9 else rng.integers(0, 3, shape).astype(np.uint8)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    capacity=st.integers(3, 40),
    envs=st.integers(1, 4),
    stack=st.sampled_from([0, 3]),
    n_step=st.sampled_from([1, 2]),
)
def test_elided_observations_are_exact(seed, capacity, envs, stack, n_step):
    rng = np.random.default_rng(seed)
    pairs = list(episodes(rng, envs, 40, (3, 4, 5), n_step))
    first = {"obs": torch.from_numpy(pairs[0][0][None]), "next_obs": torch.from_numpy(pairs[0][1][None])}
    storage = make_storage(first, capacity, StorageOptions(elide_next_obs=True, frame_stack=stack))
    model, at, tail = {}, 0, 0
    while at < len(pairs):
        count = min(int(rng.integers(1, capacity + 1)), len(pairs) - at)
        part = pairs[at : at + count]
        rows = {
            "obs": torch.from_numpy(np.stack([a for a, _ in part])),
            "next_obs": torch.from_numpy(np.stack([b for _, b in part])),
        }
        storage.write(tail, rows, count)
        model.update({(tail + i) % capacity: part[i] for i in range(count)})
        if rng.random() < 0.3:
            gone = rng.choice(sorted(model), min(2, len(model)), replace=False)
            storage.erase(gone)
            for position in gone.tolist():
                del model[position]
        tail, at = (tail + count) % capacity, at + count
        positions = np.array(sorted(model), dtype=np.int64)
        read = storage.read(positions).columns
        for i, position in enumerate(positions.tolist()):
            np.testing.assert_array_equal(read["obs"][i], model[position][0])
            np.testing.assert_array_equal(read["next_obs"][i], model[position][1])
    storage.erase(np.arange(capacity))
    assert storage.num_frames == 0


@pytest.mark.parametrize(("stack", "frames"), [(0, 105), (4, 105 + 3 * 5)])
@pytest.mark.parametrize("envs", [1, 5])
def test_a_frame_is_stored_once(stack, frames, envs):
    rng = np.random.default_rng(0)
    capacity = 100
    # 5 episodes of 20 steps, either one after the other or in turn
    streams = rng.integers(0, 255, (5, 24, 8, 8)).astype(np.uint8)
    steps = [[(s[t : t + 4], s[t + 1 : t + 5]) for t in range(20)] for s in streams]
    order = [pair for one in steps for pair in one] if envs == 1 else [one[t] for t in range(20) for one in steps]
    first = {"obs": torch.from_numpy(order[0][0][None]), "next_obs": torch.from_numpy(order[0][1][None])}
    storage = make_storage(first, capacity, StorageOptions(elide_next_obs=True, frame_stack=stack))
    for at in range(0, 100, 10):
        part = order[at : at + 10]
        rows = {
            "obs": torch.from_numpy(np.stack([a for a, _ in part])),
            "next_obs": torch.from_numpy(np.stack([b for _, b in part])),
        }
        storage.write(at, rows, 10)
    assert storage.num_frames == frames


def test_compact_rows_hold_frames_in_the_order_of_their_first_use():
    first = {"obs": torch.tensor([[1.0], [3.0]]), "next_obs": torch.tensor([[2.0], [1.0]])}
    storage = make_storage(first, 4, StorageOptions(elide_next_obs=True))
    storage.write(0, first, 2)
    (pair,) = storage.copied(np.array([0, 1, 0]))["pairs"]
    assert pair["frames"].tolist() == [[1], [2], [3]]
    assert pair["slots"].tolist() == [[0, 1], [2, 0], [0, 1]]


def test_equal_fingerprints_are_told_apart_by_comparing(monkeypatch):
    monkeypatch.setattr(
        "ding.data.storage._frame_pool.FramePool._fingerprints",
        lambda self, words: np.zeros(len(words), dtype=np.uint64) + np.uint64(5),
    )
    source = {"obs": torch.arange(40.0).reshape(10, 4), "next_obs": torch.arange(4.0, 44.0).reshape(10, 4)}
    storage = make_storage(source, 10, StorageOptions(elide_next_obs=True))
    for _ in range(3):
        storage.write(0, source, 10)
        read = storage.read(np.arange(10)).columns
        assert torch.equal(read["obs"], source["obs"])
        assert torch.equal(read["next_obs"], source["next_obs"])
