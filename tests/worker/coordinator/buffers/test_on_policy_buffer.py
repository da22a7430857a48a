"""The buffer of an on-policy run: which collector may do what, and what the learner gets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.parallel.messages import pack_batches, unpack_batches
from ding.worker.coordinator.buffers.on_policy_buffer import Grant, OnPolicyBuffer


class Made:
    """A buffer with what it says."""

    def __init__(self, first=1):
        self.released, self.stale, self.changes = [], 0, 0
        self.buffer = OnPolicyBuffer(self.released.extend, first, self._stale, self._changed)
        self.chunks = 0

    def _stale(self, rows):
        self.stale += rows

    def _changed(self):
        self.changes += 1

    def push(self, task, rows, version, grant=None):
        """Returns the id of a new chunk."""
        self.chunks += 1
        name = f"c{self.chunks}"
        known = {} if grant is None else {"grant": grant.id}
        self.buffer.push_chunks([{"chunk": name, "rows": rows, "collect_iter": version, "task_id": task, **known}])
        return name


def test_the_steps_of_a_round_are_shared_out_and_make_one_batch():
    own = Made()
    buffer = own.buffer
    assert buffer.grant("a") is None
    assert buffer.grant("b") is None
    assert buffer.sample_batches(10, [3]) == []
    assert own.changes == 1
    first, second = buffer.grant("a"), buffer.grant("b")
    assert (first, second) == (Grant(1, 3, 5), Grant(2, 3, 5))
    # The same again, until its rows are there.
    assert buffer.grant("a") == first
    chunks = [own.push("b", 5, 3, second), own.push("a", 6, 3, first)]
    assert buffer.grant("a") is None
    (batch,) = buffer.sample_batches(10, [3])
    (sent,) = unpack_batches(pack_batches([batch]))
    assert sent["chunks"] == chunks
    assert sent["rows"].tolist() == [[0, row] for row in range(5)] + [[1, row] for row in range(6)]
    assert buffer.count() == 0
    assert own.released == []
    buffer.batch_loaded(batch["batch"])
    assert [ref["chunk"] for ref in own.released] == chunks
    assert buffer.chunk_count == 0


def test_what_a_lost_collector_owes_is_granted_to_another():
    own = Made()
    buffer = own.buffer
    buffer.grant("a"), buffer.grant("b")
    buffer.sample_batches(10, [0])
    first, lost = buffer.grant("a"), buffer.grant("b")
    own.push("a", 5, 0, first)
    assert buffer.grant("a") is None
    buffer.leave("b")
    assert own.changes == 2
    again = buffer.grant("a")
    assert (again.version, again.steps) == (0, 5)
    assert again.id > lost.id
    own.push("a", 5, 0, again)
    assert len(buffer.sample_batches(10, [0])[0]["rows"]) == 10


def test_a_part_of_what_was_granted_leaves_the_rest_to_the_next():
    own = Made()
    buffer = own.buffer
    buffer.sample_batches(10, [0])
    buffer.grant("a")
    # A task that ends in the middle of its grant completes none.
    own.push("a", 4, 0)
    buffer.leave("a")
    assert buffer.grant("b").steps == 6


def test_rows_of_another_version_are_dropped_and_counted():
    own = Made()
    buffer = own.buffer
    buffer.sample_batches(4, [8])
    grant = buffer.grant("a")
    own.push("a", 4, 7, grant)
    assert (own.stale, buffer.count(), len(own.released)) == (4, 0, 1)
    assert buffer.grant("a").id > grant.id
    # A learner that was killed goes on from an older version.
    own.push("a", 3, 8)
    buffer.sample_batches(4, [2])
    assert (own.stale, buffer.count(), len(own.released)) == (7, 0, 2)
    assert (buffer.grant("a").version, buffer.grant("a").steps) == (2, 4)


def test_a_batch_whose_chunk_is_broken_is_collected_anew_with_the_same_version():
    own = Made()
    buffer = own.buffer
    buffer.sample_batches(4, [1])
    chunk = own.push("a", 4, 1, buffer.grant("a"))
    (batch,) = buffer.sample_batches(4, [1])
    buffer.batch_loaded(batch["batch"])
    assert buffer.drop_chunk(chunk) == 0
    assert buffer.sample_batches(4, [1]) == []
    assert buffer.grant("a").steps == 4


def test_chunks_are_released_when_the_buffer_closes_but_those_of_a_batch_on_its_way():
    own = Made()
    buffer = own.buffer
    buffer.sample_batches(2, [0])
    on_its_way = own.push("a", 2, 0)
    buffer.sample_batches(2, [0])
    own.push("a", 1, 0)
    buffer.close()
    assert [ref["chunk"] for ref in own.released] == ["c2"]
    assert buffer.holds(on_its_way)
    buffer.drop_batches()
    assert not buffer.holds(on_its_way)


def test_a_restarted_coordinator_asks_for_what_is_missing_only():
    own = Made(first=1 << 40)
    refs = [(0, {"chunk": "c1", "rows": 3, "collect_iter": 5, "task_id": "a", "grant": 7, "number": 1})]
    own.buffer.restore_chunks(refs)
    own.buffer.sample_batches(8, [5])
    grant = own.buffer.grant("a")
    assert (grant.id, grant.steps) == (1 << 40, 5)


def test_the_classic_form_is_refused():
    with pytest.raises(TypeError, match="chunks of rows"):
        Made().buffer.push({"data_id": "d"})


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["collect", "part", "leave", "learn", "restart"]), st.integers(0, 2)), max_size=60
    )
)
def test_every_row_is_learned_from_once_by_the_version_after_its_own_or_counted_as_stale(events):
    """Collectors come and go and learners are restarted in any order; nothing is lost and nothing comes twice."""
    own, size, version = Made(), 12, 0
    buffer, pushed, learned = own.buffer, {}, []
    buffer.sample_batches(size, [version])
    for kind, which in events:
        task = f"t{which}"
        if kind in ("collect", "part"):
            grant = buffer.grant(task)
            if grant is not None:
                rows = grant.steps if kind == "collect" else max(1, grant.steps // 2)
                assert grant.version == version
                pushed[own.push(task, rows, version, grant if kind == "collect" else None)] = (rows, version)
            if kind == "part":
                buffer.leave(task)
        elif kind == "leave":
            buffer.leave(task)
        else:
            version = version if kind == "learn" else max(0, version - 1)
            while batches := buffer.sample_batches(size, [version]):
                (batch,) = batches
                assert len(batch["rows"]) == size
                assert {pushed[chunk][1] for chunk in batch["chunks"]} == {version}
                learned += [(batch["chunks"][place], row) for place, row in batch["rows"].tolist()]
                buffer.batch_loaded(batch["batch"])
                version += 1
    assert len(set(learned)) == len(learned)
    total = sum(rows for rows, _ in pushed.values())
    assert total == len(learned) + own.stale + buffer.count()
    # A chunk is kept exactly as long as it is needed.
    assert len(own.released) + buffer.chunk_count == len(pushed)
    assert np.all([buffer.holds(chunk) != (chunk in {ref["chunk"] for ref in own.released}) for chunk in pushed])
