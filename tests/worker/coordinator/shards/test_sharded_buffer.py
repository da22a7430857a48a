"""A buffer in shards does what one buffer with the same rows does, and goes on when a shard is lost."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_toys import ServedShards, Shards, drawn, make, ref

from ding.data.replay.errors import BufferConfigError
from ding.parallel.messages import pack_batches, unpack_batches
from ding.worker.coordinator.buffers.metadata_buffer import MetadataBuffer

COLUMNS = ("unique_id", "priority", "IS", "staleness", "use")


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["objects", "served"])
def shards(request):
    """Shards that are objects of this process, or behind servers."""
    if request.param == "objects":
        yield Shards()
        return
    served = ServedShards()
    yield served
    served.close()


@pytest.mark.parametrize("kind", ["advanced", "naive"])
def test_it_draws_what_one_buffer_with_the_same_rows_draws(shards, kind):
    """A chunk in each shard: the rows of all of them lie in the order in which one buffer has them."""
    found = []
    for make_one in (MetadataBuffer, lambda cfg: make(connect=shards, **cfg)):
        np.random.seed(3)
        buffer = make_one({"replay_buffer_size": 60, "type": kind, "anneal_step": 7})
        buffer.push_chunks([ref("a", 4, policy_iter=5, priority=[0.5, 1.5, 2.5, 0.0]), ref("b", 7, priority=3.0)])
        buffer.push_chunks([ref("c", 5, policy_iter=[9, 7])])
        found.append(buffer.sample_batches(8, [10, 11, 12]) + buffer.sample_batches(8, [20]))
        assert (buffer.count(), buffer.chunk_count, buffer.next_unique_id) == (16, 3, 16)
    assert [len(batches) for batches in found] == [4, 4]
    for mine, theirs in zip(*found):
        assert mine["batch"] == theirs["batch"]
        assert drawn(mine) == drawn(theirs)
        for name in COLUMNS:
            np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-12, err_msg=name)


def test_contents_counts_and_reports_are_those_of_one_buffer(shards):
    released = {"one": [], "many": []}
    one = MetadataBuffer({"replay_buffer_size": 12}, released["one"].extend)
    many = make(released["many"], connect=shards, replay_buffer_size=12)
    for number in range(9):
        refs = [ref(f"c{number}", 2, policy_iter=number, priority=1.0 + number % 3)]
        assert one.admit(refs) == many.admit(refs) == 1
        assert one.push_chunks(refs) == many.push_chunks(refs) == 2
        assert (one.count(), one.chunk_count, one.next_unique_id) == (
            many.count(),
            many.chunk_count,
            many.next_unique_id,
        )
        assert [one["chunk"] for one in released["one"]] == [one["chunk"] for one in released["many"]]
    assert many.rows_by_shard() == [4, 4, 4]
    assert one.replay_buffer_size == many.replay_buffer_size == 12
    for mine, theirs in zip(one.priorities(), many.priorities()):
        assert sorted(mine.tolist()) == sorted(theirs.tolist())
    assert many.holds("c8")
    assert not many.holds("c0")
    assert one.drop_chunk("c7") == many.drop_chunk("c7") == 2
    assert many.count() == one.count() == 10
    many.close()
    one.close()
    assert {one["chunk"] for one in released["one"]} == {one["chunk"] for one in released["many"]}
    assert len(released["many"]) == 9


def test_weights_are_those_of_one_buffer_after_updates(shards):
    """Every row is drawn: its probability and its weight follow from the priorities of all rows."""
    cfg = {"replay_buffer_size": 60, "alpha": 1.0, "beta": 0.5, "anneal_step": 0}
    one, many = MetadataBuffer(cfg), make(connect=shards, **cfg)
    for buffer in (one, many):
        buffer.push_chunks([ref(f"c{number}", 4) for number in range(6)])
        seen = {}
        for _ in range(30):
            (batch,) = buffer.sample_batches(24, [0])
            seen.update(zip(batch["unique_id"].tolist(), batch["buffer_idx"].tolist()))
        ids = np.array(sorted(seen))
        slots = np.array([seen[uid] for uid in ids.tolist()])
        buffer.update({"replay_unique_id": ids, "replay_buffer_idx": slots, "priority": (ids + 1) / 4})
        # The largest priority so far is that of new rows, whichever shard they go to.
        buffer.push_chunks([ref("new", 4)])
    weights = []
    for buffer in (one, many):
        found = {}
        for _ in range(40):
            (batch,) = buffer.sample_batches(28, [0])
            found.update(zip(batch["unique_id"].tolist(), zip(batch["priority"].tolist(), batch["IS"].tolist())))
        weights.append(found)
    both = weights[0].keys() & weights[1].keys()
    assert len(both) >= 24
    assert max(both) >= 24
    for uid in both:
        np.testing.assert_allclose(weights[0][uid], weights[1][uid], rtol=1e-9)


def test_rows_are_drawn_in_proportion_to_their_priorities():
    """Chi-square with a fixed seed: 12 rows in shards of 2, 6 and 4, drawn 6,000 times."""
    np.random.seed(11)
    many = make(replay_buffer_size=60, alpha=1.0)
    many.push_chunks([ref("a", 2, priority=[1.0, 5.0]), ref("b", 6, priority=[1.0, 1.0, 2.0, 4.0, 1.0, 1.0])])
    many.push_chunks([ref("c", 4, priority=2.0)])
    assert many.rows_by_shard() == [2, 6, 4]
    counts = Counter()
    # Batches of one row: the points of larger ones are spread more evenly than by chance.
    for batch in many.sample_batches(1, [0] * 6_000):
        counts.update(drawn(batch))
    priority = {("a", 0): 1, ("a", 1): 5, ("b", 2): 2, ("b", 3): 4, **{("c", row): 2 for row in range(4)}}
    expected = {row: 6_000 * priority.get(row, 1) / 24 for row in counts}
    assert len(counts) == 12
    assert sum((counts[row] - expected[row]) ** 2 / expected[row] for row in counts) < 24.7  # 1 % of 11 degrees


def test_a_batch_has_as_many_rows_of_a_shard_as_its_share(shards):
    many = make(connect=shards, replay_buffer_size=300)
    many.push_chunks([ref("a", 10), ref("b", 20), ref("c", 30)])
    for batch in many.sample_batches(12, [0] * 20):
        counts = Counter(chunk for chunk, _ in drawn(batch))
        assert counts == {"a": 2, "b": 4, "c": 6}


def test_json_can_hold_its_batches(shards):
    many = make(connect=shards, replay_buffer_size=30)
    many.push_chunks([ref("a", 3, policy_iter=5), ref("b", 2, policy_iter=[9, 7])])
    sent = many.sample_batches(4, [10, 11])
    for batch, there in zip(sent, unpack_batches(json.loads(json.dumps(pack_batches(sent))))):
        assert drawn(batch) == drawn(there)
        assert batch["buffer_idx"].tolist() == there["buffer_idx"].tolist()


@pytest.mark.parametrize("limit", [{"max_use": 2}, {"max_staleness": 5}])
def test_rows_leave_that_are_used_up_or_too_old(shards, limit):
    released = []
    many = make(released, connect=shards, replay_buffer_size=30, **limit)
    many.push_chunks([ref(name, 2, policy_iter=1) for name in "abc"])
    for _ in range(40):
        for batch in many.sample_batches(1, [3, 4]):
            many.batch_loaded(batch["batch"])
    assert many.sample_batches(1, [6]) == []
    assert many.count() == 0
    assert sorted(one["chunk"] for one in released) == ["a", "b", "c"]


def test_limits_are_those_of_all_shards_together(shards):
    limit = {"samples_per_insert": 2, "min_size_to_sample": 6, "error_buffer": 8, "push_size": 2, "sample_size": 4}
    cfg = {"replay_buffer_size": 30, "rate_limit": limit}
    for buffer in (MetadataBuffer(cfg), make(connect=shards, **cfg)):
        buffer.push_chunks([ref("a", 2)])
        buffer.push_chunks([ref("b", 2)])
        assert buffer.sample_batches(2, [0]) == []
        buffer.push_chunks([ref("c", 2)])
        assert len(buffer.sample_batches(4, [0, 0, 0])) == 2
        assert buffer.admit([ref(f"d{number}", 2) for number in range(9)]) == 4
    for new in (MetadataBuffer, lambda own: make(connect=shards, **own)):
        with pytest.raises(BufferConfigError, match="max_use=1 is below"):
            new({**cfg, "max_use": 1})
    budget = make(connect=shards, replay_buffer_size=30, max_samples_per_insert=3)
    budget.push_chunks([ref("a", 2), ref("b", 2)])
    assert len(budget.sample_batches(2, [0] * 10)) == 6
    scarce = make(connect=shards, replay_buffer_size=30, thruput_controller={"sample_min_limit_ratio": 2})
    scarce.push_chunks([ref("a", 2), ref("b", 1)])
    assert scarce.sample_batches(2, [0]) == []
    assert len(scarce.sample_batches(1, [0])) == 1


def test_a_chunk_stays_while_a_batch_is_on_its_way(shards):
    released = []
    many = make(released, connect=shards, replay_buffer_size=6)
    many.push_chunks([ref(name, 2) for name in "abc"])
    first, second = many.sample_batches(6, [0, 0])
    many.push_chunks([ref(name, 2) for name in "def"])
    assert released == []
    assert many.chunk_count == 6
    many.batch_loaded(first["batch"])
    assert released == []
    many.batch_loaded(second["batch"])
    assert sorted(one["chunk"] for one in released) == ["a", "b", "c"]


# What happens when a shard is lost.


def test_a_lost_shard_is_counted_and_filled_again(shards, caplog):
    released, counts = [], Counter()
    many = make(released, connect=shards, counts=counts, replay_buffer_size=60)
    many.push_chunks([ref(f"c{number}", 4) for number in range(6)])
    assert many.rows_by_shard() == [8, 8, 8]
    (batch,) = many.sample_batches(12, [0])
    shards.lose(1, down=True)
    # What is drawn is drawn anew, from the others.
    (again,) = many.sample_batches(16, [0])
    assert {chunk for chunk, _ in drawn(again)} == {"c0", "c2", "c3", "c5"}
    assert many.rows_by_shard() == [8, None, 8]
    assert many.count() == 16
    assert counts == {"lost_shards": 1, "lost_rows": 8}
    assert caplog.text.count("shard 1 of a replay buffer is lost with 8 rows") == 1
    # The learner still reads the batch from before.
    assert released == []
    # Priorities for its rows are dropped and counted.
    many.update({
        "replay_unique_id": batch["unique_id"], "replay_buffer_idx": batch["buffer_idx"], "priority": np.full(12, 2.0)
    })  # fmt: skip
    assert counts["dropped_updates"] == sum(chunk in ("c1", "c4") for chunk, _ in drawn(batch)) == 4
    many.batch_loaded(batch["batch"])
    assert sorted(one["chunk"] for one in released) == ["c1", "c4"]
    # Another one comes: it is empty, and gets what comes until it is as full as the others.
    shards.down.clear()
    many.revive()
    assert many.rows_by_shard() == [8, 0, 8]
    many.push_chunks([ref("d0", 4), ref("d1", 4)])
    assert many.rows_by_shard() == [8, 8, 8]
    many.push_chunks([ref(f"e{number}", 4) for number in range(3)])
    assert many.rows_by_shard() == [12, 12, 12]
    # Priorities of rows that the lost one had do not hit those in their slots now.
    many.update({
        "replay_unique_id": batch["unique_id"], "replay_buffer_idx": batch["buffer_idx"], "priority": np.full(12, 9.0)
    })  # fmt: skip
    assert counts["dropped_updates"] == 8
    assert many.priorities()[1].max() < 10
    assert many.next_unique_id == 44


def test_without_a_shard_nothing_is_admitted_and_nothing_drawn(shards):
    counts = Counter()
    many = make(connect=shards, counts=counts, replay_buffer_size=60)
    many.push_chunks([ref(f"c{number}", 4) for number in range(3)])
    for number in range(3):
        shards.lose(number, down=True)
    assert many.sample_batches(2, [0]) == []
    assert many.admit([ref("d", 4)]) == 0
    assert counts == {"lost_shards": 3, "lost_rows": 12}
    assert many.count() == 0
    shards.down.clear()
    many.revive()
    assert many.admit([ref("d", 4)]) == 1


def test_rows_on_their_way_to_a_lost_shard_are_lost_with_it(shards):
    released, counts = [], Counter()
    many = make(released, connect=shards, counts=counts, replay_buffer_size=60)
    for number in range(3):
        shards.lose(number, down=True)
    assert many.push_chunks([ref("a", 4), ref("b", 2)]) == 6
    assert counts == {"lost_shards": 2, "lost_rows": 6}
    assert sorted(one["chunk"] for one in released) == ["a", "b"]


def test_it_goes_on_where_an_earlier_buffer_ended(shards):
    many = make(connect=shards, replay_buffer_size=30)
    refs = [(4 * number, ref(f"c{number}", 4)) for number in range(5)]
    many.restore_chunks(refs)
    ids = np.arange(20)
    many.restore_priorities(ids, ids / 10 + 0.1, ids)
    found = {uid: (value, use) for uid, value, use in zip(*(part.tolist() for part in many.priorities()))}
    assert found == {uid: (uid / 10 + 0.1, uid) for uid in range(20)}
    assert many.next_unique_id == 20
    assert sorted(many.rows_by_shard()) == [4, 8, 8]


def test_the_classic_form_is_refused():
    with pytest.raises(TypeError, match="shards"):
        make(replay_buffer_size=9).push({"data_id": "x"})
    with pytest.raises(TypeError, match="shards"):
        make(replay_buffer_size=9).sample(1, 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.lists(st.integers(1, 9), min_size=1, max_size=3)),
        st.tuples(st.just("sample"), st.integers(1, 4)),
        st.tuples(st.just("update"), st.floats(0.0, 9.0)),
        st.tuples(st.just("lose"), st.integers(0, 2)),
        st.tuples(st.just("revive"), st.none()),
        st.tuples(st.just("loaded"), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_sums_stay_right_whatever_comes(steps):
    shards, released, counts = Shards(), [], Counter()
    many = make(released, connect=shards, counts=counts, replay_buffer_size=24)
    pushed, flying = [], []
    for what, how in steps:
        if what == "push":
            refs = [ref(f"c{len(pushed) + number}", rows) for number, rows in enumerate(how)]
            admitted = refs[: many.admit(refs)]
            many.push_chunks(admitted)
            pushed += admitted
        elif what == "sample":
            flying += many.sample_batches(how, [1, 2])
        elif what == "update" and flying:
            last = flying[-1]
            many.update({
                "replay_unique_id": last["unique_id"], "replay_buffer_idx": last["buffer_idx"],
                "priority": np.full(len(last["rows"]), how),
            })  # fmt: skip
        elif what == "lose" and how in shards.made:
            shards.lose(how, down=True)
        elif what == "revive":
            shards.down.clear()
            many.revive()
        elif what == "loaded" and flying:
            many.batch_loaded(flying[-1]["batch"])
            flying.clear()
        check(many, shards, pushed, flying, released, counts)
    many.close()
    many.drop_batches()
    assert sorted(one["chunk"] for one in released) == sorted(one["chunk"] for one in pushed)


def check(many, shards, pushed, flying, released, counts):
    """What the buffer says of its shards is what is there, and a chunk is released once, when nobody needs it."""
    alive = {number: shard for number, shard in shards.made.items() if not shard.lost}
    for number, rows in enumerate(many.rows_by_shard()):
        # That a shard is lost shows when it is asked.
        if number in alive and rows is not None:
            assert rows == alive[number].index.count()
    gone = [one["chunk"] for one in released]
    assert len(gone) == len(set(gone))
    assert not {chunk for batch in flying for chunk in batch["chunks"]} & set(gone)
    assert many.chunk_count + len(gone) == len(pushed)
    assert many.next_unique_id == sum(one["rows"] for one in pushed)
    assert many.count() + counts["lost_rows"] <= many.next_unique_id
