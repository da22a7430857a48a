"""A state that makes no sense is refused as a whole."""

import pytest
import torch
from buffer_rows import batch, numbers

from ding.data import SchemaError, TransitionBatch
from ding.data.replay.errors import BufferArgumentError
from ding.worker import AdvancedReplayBuffer, NaiveReplayBuffer, SequenceReplayBuffer

DAMAGES = [
    ("data", None), ("data", []), ("data", "x"), ("data", {"obs": torch.ones(2, 3)}), ("tail", -1), ("tail", 99),
    ("tail", None), ("valid_count", 4), ("valid_count", -1), ("valid_count", float("inf")), ("push_count", "x"),
    ("generator", {}), ("generator", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "key", "value"),
    [(cls, *damage) for cls in (NaiveReplayBuffer, AdvancedReplayBuffer, SequenceReplayBuffer) for damage in DAMAGES]
    + [(SequenceReplayBuffer, "ends", [True]), (SequenceReplayBuffer, "ends", 1)]
    + [(cls, "tail", 2) for cls in (NaiveReplayBuffer, SequenceReplayBuffer)]
    + [
        (AdvancedReplayBuffer, key, value)
        for key, value in [
            ("positions", [0, 1, 1]), ("positions", None), ("head", 1), ("span", 2), ("slots", {}), ("beta", None),
            ("max_priority", "x"), ("next_unique_id", []), ("sample_calls", "x"), ("head", 8), ("anneal_step", -1),
        ]
    ],
)  # fmt: skip
def test_a_damaged_state_is_refused_and_changes_nothing(make, cls, key, value):
    source, buffer, twin = (make(cls, 8) for _ in range(3))
    source.push(batch(0, 3), 0)
    state = {**source.state_dict(), key: value}
    buffer.push(batch(50, 5), 0)
    before = buffer.state_dict()
    twin.load_state_dict(before)
    with pytest.raises((BufferArgumentError, SchemaError)):
        buffer.load_state_dict(state)
    assert (buffer.count(), buffer.push_count) == (5, 5)
    size = (1, 2, 0) if cls is SequenceReplayBuffer else (3, 0)
    for _ in range(5):
        assert str(buffer.sample(*size)) == str(twin.sample(*size))
    buffer.push(batch(55, 5), 0)
    twin.push(batch(55, 5), 0)
    after, expected = buffer.state_dict(), twin.state_dict()
    assert numbers(TransitionBatch(after["data"])) == numbers(TransitionBatch(expected["data"]))
    assert str({**after, "data": 0}) == str({**expected, "data": 0})


def test_slots_of_a_full_ring_are_counted_once(make):
    source, buffer = make(AdvancedReplayBuffer, 4), make(AdvancedReplayBuffer, 4)
    source.push(batch(0, 6), 0)
    for span in (5, 99):
        with pytest.raises(BufferArgumentError, match=f"{span} slots before slot 2 of 4"):
            buffer.load_state_dict({**source.state_dict(), "span": span})
    state = source.state_dict()
    source.load_state_dict(state)
    assert numbers(TransitionBatch(source.state_dict()["data"])) == [2, 3, 4, 5]


def test_a_slot_that_is_taken_but_holds_no_element_is_damage(make):
    source, buffer = make(AdvancedReplayBuffer, 8), make(AdvancedReplayBuffer, 8)
    source.push(batch(0, 3), 0)
    state = source.state_dict()
    state["slots"]["unique_id"][5] = 7
    with pytest.raises(BufferArgumentError, match="not where its slots are taken"):
        buffer.load_state_dict(state)


@pytest.mark.parametrize("storage", [{}, {"elide_next_obs": True}])
def test_a_hole_at_the_end_of_the_ring_is_one_in_the_state(make, storage):
    """The slots that are left are 2, 3, 0 and 1: from 3 to 0 is no step to the neighbour."""
    buffer, other = (make(AdvancedReplayBuffer, 5, max_use=1, storage=storage) for _ in range(2))
    buffer.push(batch(0, 7), 0)
    assert numbers(buffer.sample(1, 0, sample_range=slice(2, 3))) == [4]
    other.load_state_dict(buffer.state_dict())
    assert other.count() == 4
    assert [numbers(other.sample(1, 0, sample_range=slice(0, 1)))[0] for _ in range(4)] == [2, 3, 5, 6]


def test_more_rows_than_places_are_refused(make):
    buffer = make(NaiveReplayBuffer, 8, storage={"elide_next_obs": True})
    buffer.push(batch(0, 5), 0)
    with pytest.raises(SchemaError, match="5 rows for 3 positions"):
        make(NaiveReplayBuffer, 8).load_state_dict({**buffer.state_dict(), "valid_count": 3, "tail": 3})
