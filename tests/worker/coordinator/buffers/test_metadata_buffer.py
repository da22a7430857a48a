import json
from collections import Counter
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.parallel.messages import pack_batches, unpack_batches
from ding.worker.coordinator.buffers.metadata_buffer import MetadataBuffer, checked_ref


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make(released=None, **cfg):
    return MetadataBuffer(cfg, released.extend if released is not None else None, tb_logger=MagicMock())


def ref(name, rows, **meta):
    return {"chunk": name, "rows": rows, "bytes": 100, **meta}


def test_a_batch_names_chunks_and_rows_and_json_can_hold_it():
    buffer = make(replay_buffer_size=100)
    assert buffer.sample_batches(4, [0]) == []
    assert buffer.push_chunks([ref("a", 3, policy_iter=5), ref("b", 2, policy_iter=[9, 7])]) == 5
    assert (buffer.count(), buffer.chunk_count, buffer.next_unique_id) == (5, 2, 5)
    (batch,) = unpack_batches(json.loads(json.dumps(pack_batches(buffer.sample_batches(5, [10])))))
    assert batch["batch"] == 1
    pairs = [(batch["chunks"][position], row) for position, row in batch["rows"].tolist()]
    by_slot = {0: ("a", 0), 1: ("a", 1), 2: ("a", 2), 3: ("b", 0), 4: ("b", 1)}
    assert pairs == [by_slot[slot] for slot in batch["buffer_idx"].tolist()]
    assert batch["unique_id"].tolist() == batch["buffer_idx"].tolist()
    assert batch["staleness"].tolist() == [5 if chunk == "a" else 3 for chunk, _ in pairs]
    assert batch["IS"].tolist() == [1.0] * 5


@pytest.mark.parametrize("limits", [{}, {"max_use": 100}, {"anneal_step": 3}, {"anneal_step": 0}])
def test_batches_that_are_drawn_together_are_those_drawn_one_by_one(limits):
    """Both ways of drawing: all in one go, and one after the other where a draw may change the next one."""
    together, single = make(replay_buffer_size=20, **limits), make(replay_buffer_size=20, **limits)
    for buffer in (together, single):
        buffer.push_chunks([ref("a", 6, policy_iter=5, priority=[1.0, 2.0, 3.0, 1.0, 4.0, 1.0]), ref("b", 9)])
    together.rows.engine.draws.load_state_dict(single.rows.engine.draws.state_dict())
    iters = [7, 8, 9, 12]
    sent = json.loads(json.dumps(pack_batches(together.sample_batches(8, iters))))
    assert [message["batch"] for message in sent] == [[1, 2, 3, 4]]
    for one, cur_iter in zip(unpack_batches(sent), iters):
        other = single.sample_batches(8, [cur_iter])[0]
        assert one["batch"] == other["batch"]
        for key in ("unique_id", "buffer_idx", "priority", "IS", "staleness", "use"):
            assert one[key].tolist() == other[key].tolist(), key
        named = [[(batch["chunks"][at], row) for at, row in batch["rows"].tolist()] for batch in (one, other)]
        assert named[0] == named[1]
    assert together.rows.beta == single.rows.beta
    assert together.sample_batches(16, [0]) == []


def test_messages_that_are_no_batches_are_refused():
    buffer = make(replay_buffer_size=20)
    buffer.push_chunks([ref("a", 6)])
    (message,) = json.loads(json.dumps(pack_batches(buffer.sample_batches(2, [0, 0, 0]))))
    for numbers in ([], [1, 2, 3, 4], [1, "2", 3], [True, 2, 3]):
        with pytest.raises(ValueError, match="batch"):
            unpack_batches([{**message, "batch": numbers}])


def test_a_chunk_is_released_when_its_last_row_is_overwritten():
    released = []
    buffer = make(released, replay_buffer_size=4)
    buffer.push_chunks([ref("a", 2), ref("b", 2)])
    buffer.push_chunks([ref("c", 1)])
    assert released == []
    buffer.push_chunks([ref("d", 1)])
    assert [one["chunk"] for one in released] == ["a"]
    buffer.push_chunks([ref("e", 10)])
    assert [one["chunk"] for one in released] == ["a", "b", "c", "d"]
    assert (buffer.count(), buffer.chunk_count) == (4, 1)
    buffer.close()
    assert [one["chunk"] for one in released] == ["a", "b", "c", "d", "e"]


def test_a_chunk_stays_while_a_batch_is_on_its_way():
    released = []
    buffer = make(released, replay_buffer_size=2)
    buffer.push_chunks([ref("a", 2)])
    first = buffer.sample_batches(2, [0])[0]
    second = buffer.sample_batches(2, [0])[0]
    buffer.push_chunks([ref("b", 2)])
    buffer.batch_loaded(first["batch"])
    assert released == []
    buffer.batch_loaded(second["batch"])
    assert [one["chunk"] for one in released] == ["a"]
    buffer.batch_loaded(second["batch"])
    assert len(released) == 1


def test_batches_of_a_lost_learner_hold_nothing():
    released = []
    buffer = make(released, replay_buffer_size=2)
    buffer.push_chunks([ref("a", 2)])
    buffer.sample_batches(2, [0])
    buffer.close()
    assert released == []
    buffer.drop_batches()
    assert [one["chunk"] for one in released] == ["a"]


def test_max_use_and_staleness_remove_rows():
    released = []
    buffer = make(released, replay_buffer_size=10, max_use=2)
    buffer.push_chunks([ref("a", 1)])
    for _ in range(2):
        batch = buffer.sample_batches(1, [0])[0]
    assert buffer.sample_batches(1, [0]) == []
    buffer.batch_loaded(batch["batch"])
    assert [one["chunk"] for one in released] == ["a"]

    released.clear()
    buffer = make(released, replay_buffer_size=10, max_staleness=5)
    buffer.push_chunks([ref("old", 2, policy_iter=0), ref("new", 2, policy_iter=3)])
    assert set(buffer.sample_batches(2, [6])[0]["chunks"]) == {"new"}
    assert [one["chunk"] for one in released] == ["old"]


def test_priorities_come_with_a_chunk_and_from_the_learner():
    buffer = make(replay_buffer_size=10, alpha=1.0)
    buffer.push_chunks([ref("a", 2, priority=[1.0, 3.0]), ref("b", 1, priority=2.0)])
    assert buffer.priorities()[1].tolist() == [1.0, 3.0, 2.0]
    buffer.update({"replay_unique_id": [0, 2, 99], "replay_buffer_idx": [0, 2, 1], "priority": [0.0, 7.0, 8.0]})
    assert buffer.priorities()[1].tolist() == [1e-5, 3.0, 7.0 + 1e-5]
    with pytest.raises(ValueError, match="not negative"):
        buffer.push_chunks([ref("c", 1, priority=-1.0)])


def test_naive_draws_all_rows_alike():
    buffer = MetadataBuffer(
        {"type": "naive", "replay_buffer_size": 10, "periodic_thruput_seconds": 5}, tb_logger=MagicMock()
    )
    buffer.push_chunks([ref("a", 2, priority=[1.0, 1000.0])])
    drawn = Counter(row for _ in range(200) for row in buffer.sample_batches(2, [0])[0]["rows"][:, 1].tolist())
    assert drawn[0] == drawn[1] == 200


def test_classic_metas_go_through_unchanged():
    buffer = make(replay_buffer_size=10)
    for number in range(3):
        buffer.push({"data_id": f"d{number}", "unroll_split_begin": 0}, -1)
    sampled = list(buffer.sample(2, 1))
    assert all(meta["data_id"] == f"d{meta['replay_buffer_idx']}" for meta in sampled)
    assert buffer.chunk_count == 0


def test_a_chunk_that_cannot_be_read_is_forgotten():
    released = []
    buffer = make(released, replay_buffer_size=10)
    buffer.push_chunks([ref("a", 2), ref("b", 3), ref("c", 1)])
    assert buffer.drop_chunk("b") == 3
    assert buffer.drop_chunk("b") == 0
    assert [one["chunk"] for one in released] == ["b"]
    assert buffer.count() == 3
    assert set(buffer.sample_batches(3, [0])[0]["chunks"]) <= {"a", "c"}


def test_a_restored_buffer_goes_on_as_the_earlier_one():
    before = make(replay_buffer_size=6, alpha=1.0)
    refs = [ref(name, 2) for name in "abcd"]
    ids = []
    for one in refs:
        ids.append(before.next_unique_id)
        before.push_chunks([one])
    before.update({"replay_unique_id": [3, 6], "replay_buffer_idx": [3, 0], "priority": [5.0, 9.0]})
    after = make(replay_buffer_size=6, alpha=1.0)
    after.restore_chunks([(first, one) for first, one in zip(ids, refs)][1:])
    after.restore_priorities(*before.priorities())
    assert after.next_unique_id == before.next_unique_id == 8
    for mine, theirs in zip(after.priorities(), before.priorities()):
        np.testing.assert_array_equal(mine, theirs)


def test_refs_without_what_they_need_are_refused():
    buffer = make(replay_buffer_size=4)
    for bad in (
        {"rows": 1},
        {"chunk": "a"},
        {"chunk": "a", "rows": 0},
        {"chunk": 3, "rows": 1},
        {"chunk": "a", "rows": True},
    ):
        with pytest.raises(ValueError, match="a chunk ref needs"):
            buffer.push_chunks([ref("good", 1), bad])
    assert (buffer.count(), buffer.chunk_count) == (0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunk": "../a"},
        {"chunk": "a" * 121},
        {"rows": 1 << 70},
        {"rows": (1 << 22) + 1},
        {"priority": float("nan")},
        {"priority": [1.0, float("inf")]},
        {"priority": [1.0, -1.0]},
        {"priority": [1.0]},
        {"priority": "high"},
        {"priority": {"a": 1}},
        {"collect_iter": "x"},
        {"collect_iter": True},
        {"policy_iter": 1.5},
        {"policy_iter": [1, None]},
        {"policy_iter": 1 << 70},
    ],
)
def test_refs_that_could_not_be_pushed_are_refused_before_anything_is_written_down(wrong):
    good = ref("good", 2, policy_iter=[np.int64(3), 4], priority=[0.0, 2.0])
    assert checked_ref(good) == good
    with pytest.raises(ValueError):
        checked_ref({**good, **wrong})
    buffer = make(replay_buffer_size=4)
    with pytest.raises(ValueError):
        buffer.push_chunks([good, {**good, **wrong}])
    assert (buffer.count(), buffer.chunk_count) == (0, 0)


def test_a_ratio_limit_admits_a_prefix_and_holds_samples_back():
    limit = {"samples_per_insert": 1.0, "min_size_to_sample": 4, "error_buffer": 4.0, "push_size": 4, "sample_size": 2}
    buffer = make(replay_buffer_size=20, rate_limit=limit)
    refs = [ref(name, 4) for name in "abc"]
    assert buffer.admit(refs) == 2
    buffer.push_chunks(refs[:2])
    assert buffer.admit(refs[2:]) == 0
    batches = [buffer.sample_batches(2, [0]) for _ in range(5)]
    assert [len(found) for found in batches] == [1, 1, 1, 1, 0]
    assert buffer.admit(refs[2:]) == 1


def test_a_chunk_that_a_batch_uses_up_stays_until_the_batch_has_arrived():
    released = []
    buffer = make(released, replay_buffer_size=4, max_use=1)
    buffer.push_chunks([ref("a", 4)])
    batch = buffer.sample_batches(4, [0])[0]
    while buffer.count():
        batch = buffer.sample_batch(buffer.count(), 0)
    assert released == []
    buffer.batch_loaded(batch["batch"] - 1)
    assert released == []
    buffer.batch_loaded(batch["batch"])
    assert [one["chunk"] for one in released] == ["a"]


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 12),
    steps=st.lists(st.tuples(st.sampled_from(["push", "sample", "loaded", "lost"]), st.integers(1, 15)), max_size=40),
)
def test_no_chunk_is_released_twice_or_too_early(size, steps):
    released = []
    buffer = make(released, replay_buffer_size=size, max_use=3)
    pushed, flying = 0, []
    for what, number in steps:
        if what == "push":
            buffer.push_chunks([ref(f"c{pushed}", number)])
            pushed += 1
        elif what == "sample":
            flying += buffer.sample_batches(number, [0])
        elif what == "loaded" and flying:
            buffer.batch_loaded(flying.pop(0)["batch"])
        elif what == "lost":
            flying.clear()
            buffer.drop_batches()
        gone = [one["chunk"] for one in released]
        assert len(gone) == len(set(gone))
        assert not {chunk for batch in flying for chunk in batch["chunks"]} & set(gone)
    buffer.close()
    buffer.drop_batches()
    assert sorted(one["chunk"] for one in released) == sorted(f"c{number}" for number in range(pushed))


def test_a_frozen_buffer_gives_no_samples_for_ever():
    buffer = make(replay_buffer_size=100, max_samples_per_insert=3)
    buffer.push_chunks([ref("a", 20)])
    assert [len(buffer.sample_batches(20, [0, 1])) for _ in range(3)] == [2, 1, 0]
    buffer.push_chunks([ref("b", 10)])
    assert [len(buffer.sample_batches(15, [0, 1, 2])) for _ in range(2)] == [2, 0]
    # What was saved up does not last for ever, however many rows there were.
    for number in range(30):
        buffer.push_chunks([ref(f"many{number}", 100)])
    drawn = sum(len(buffer.sample_batches(100, range(10))) for _ in range(20))
    assert drawn == 3000 // 100


def test_without_a_bound_it_does():
    buffer = make(replay_buffer_size=100)
    buffer.push_chunks([ref("a", 5)])
    assert all(len(buffer.sample_batches(5, range(10))) == 10 for _ in range(50))
    with pytest.raises(ValueError, match="max_samples_per_insert"):
        make(replay_buffer_size=10, max_samples_per_insert=0)
