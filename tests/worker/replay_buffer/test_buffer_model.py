"""A plain-Python model and the real buffers get the same operations; their contents must agree."""

import itertools
import os
import tempfile

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ding.data import TransitionBatch
from ding.data.storage import ElidedRows, is_elided
from ding.worker import AdvancedReplayBuffer, NaiveReplayBuffer

STORAGES = {
    "columns": {},
    "elided": {"elide_next_obs": True},
    "stacks": {"frame_stack": 2},
    "mapped": {"path": "maps"},
    "device": {"device": "cpu"},
    "objects": {},
}
SIZE = 7


def rows_of(first, count, kind):
    """Transitions whose every field tells their number; every third obs begins an episode."""
    rows = []
    for number in range(first, first + count):
        obs = torch.tensor([[number, number], [number + 1, number + 1]], dtype=torch.float32)
        if number % 3 == 0:
            obs[0] = -number
        row = {"obs": obs, "next_obs": obs + 1, "n": number, "collect_iter": number}
        if kind == "objects" and number % 2:
            row["odd"] = "yes"
        rows.append(row)
    return rows


def as_pushed(rows, kind, form):
    if form == "list" or kind == "objects":
        return rows
    return TransitionBatch({
        "obs": torch.stack([row["obs"] for row in rows]), "next_obs": torch.stack([row["next_obs"] for row in rows]),
        "n": np.array([row["n"] for row in rows]), "collect_iter": np.array([row["collect_iter"] for row in rows]),
    })  # fmt: skip


def check_row(found, expected):
    assert int(found["n"]) == expected["n"]
    assert torch.equal(found["obs"], expected["obs"])
    assert torch.equal(found["next_obs"], expected["next_obs"])
    assert found.get("odd") == expected.get("odd")


class BufferMachine(RuleBasedStateMachine):
    """Common rules; ``model`` maps unique numbers to rows, oldest first."""

    cls: type
    config: dict = {}

    def __init__(self):
        super().__init__()
        self.old_folder = os.getcwd()
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        self.number = 0
        self.pushed = 0
        self.model = {}

    @initialize(kind=st.sampled_from(sorted(STORAGES)))
    def build(self, kind):
        self.kind = kind
        self.buffer = self.new_buffer()

    def new_buffer(self):
        storage = {**STORAGES[self.kind], "mixed_rows": self.kind == "objects"}
        return self.cls({"replay_buffer_size": SIZE, "storage": storage, **self.config}, instance_name="model")

    def teardown(self):
        if hasattr(self, "buffer"):
            self.buffer.close()
        os.chdir(self.old_folder)
        self.folder.cleanup()

    @rule(count=st.integers(0, 2 * SIZE), form=st.sampled_from(["list", "batch", "single"]))
    def push(self, count, form):
        count = 1 if form == "single" else count
        rows = rows_of(self.number, count, self.kind)
        if rows:
            self.buffer.push(rows[0] if form == "single" else as_pushed(rows, self.kind, form), self.number)
        self.note_push(rows)

    def note_push(self, rows):
        for row in rows:
            self.model[self.number] = row
            self.number += 1
        self.pushed += len(rows)
        for number in [n for n in self.model if n < self.number - SIZE]:
            self.drop(number)

    def drop(self, number):
        del self.model[number]

    @precondition(lambda self: self.kind != "objects" and self.model)
    @rule()
    def push_what_does_not_fit(self):
        (row,) = rows_of(self.number, 1, self.kind)
        for bad in ({**row, "more": 1}, {**row, "obs": torch.zeros(3)}, {"n": 1}):
            with pytest.raises(ValueError):
                self.buffer.push(bad, 0)

    @rule()
    def clear(self):
        self.buffer.clear()
        for number in list(self.model):
            self.drop(number)

    def contents(self, buffer):
        data = buffer.state_dict()["data"]
        if data is None:
            return []
        if is_elided(data):
            rows = ElidedRows(data)
            data = rows.expand(0, rows.count)
        return TransitionBatch(data).rows() if isinstance(data, dict) else data

    @invariant()
    def agree(self):
        if not hasattr(self, "buffer"):
            return
        found = self.contents(self.buffer)
        assert [int(row["n"]) for row in found] == list(self.model)
        for row, expected in zip(found, self.model.values()):
            check_row(row, expected)
        assert self.buffer.count() == len(self.model)
        assert self.buffer.push_count == self.pushed


class NaiveMachine(BufferMachine):
    cls = NaiveReplayBuffer

    @rule(
        size=st.integers(0, SIZE + 1),
        replace=st.booleans(),
        low=st.integers(-SIZE, SIZE),
        high=st.integers(-SIZE, SIZE),
    )
    def sample(self, size, replace, low, high):
        part = slice(low, high)
        among = list(self.model)[part]
        if size and len(self.model) >= (1 if replace else size) and not among:
            with pytest.raises(ValueError):
                self.buffer.sample(size, 0, sample_range=part, replace=replace)
            return
        sampled = self.buffer.sample(size, 0, sample_range=part, replace=replace)
        if size and (not self.model or (size > len(among) and not replace)):
            assert sampled is None
            return
        found = [int(row["n"]) for row in sampled]
        assert len(found) == size
        assert set(found) <= set(among) or not size
        assert replace or len(set(found)) == size
        for row in sampled:
            check_row(row, self.model[int(row["n"])])

    @rule()
    def state(self):
        other = self.new_buffer()
        other.load_state_dict(self.buffer.state_dict())
        self.buffer.close()
        self.buffer = other

    @rule()
    def save_and_load(self):
        self.buffer.save_data("data")
        other = self.new_buffer()
        other.load_data("data")
        assert [int(row["n"]) for row in self.contents(other)] == list(self.model)
        other.close()


class AdvancedMachine(BufferMachine):
    cls = AdvancedReplayBuffer
    config = {"max_use": 4, "alpha": 0.5, "anneal_step": 0}

    def __init__(self):
        super().__init__()
        self.priority, self.use = {}, {}
        self.largest = 1.0
        self.old = []

    def note_push(self, rows):
        for row in rows:
            self.priority[row["n"]] = self.largest
            self.use[row["n"]] = 0
        super().note_push(rows)

    def drop(self, number):
        super().drop(number)
        del self.priority[number], self.use[number]

    @rule()
    def clear(self):
        super().clear()
        self.largest = 1.0

    @rule(size=st.integers(1, SIZE), keep=st.booleans())
    def sample(self, size, keep):
        sampled = self.buffer.sample(size, 50)
        if size > len(self.model):
            assert sampled is None
            return
        weights = {n: p**0.5 for n, p in self.priority.items()}
        for row in sampled:
            self.use[int(row["n"])] += 1
        for row in sampled:
            number = int(row["n"])
            check_row(row, self.model[number])
            assert row["replay_unique_id"] == f"model_{number}"
            assert self.use[number] >= 4 or self.buffer.table.unique_id[row["replay_buffer_idx"]] == number
            assert row["priority"] == pytest.approx(self.priority[number])
            assert row["IS"] == pytest.approx((min(weights.values()) / weights[number]) ** 0.4)
            assert row["use"] == self.use[number]
            assert row["staleness"] == 50 - number
        if keep:
            self.old = list(sampled)
        for number in [n for n, use in self.use.items() if use >= 4]:
            self.drop(number)

    @rule(data=st.data())
    def update(self, data):
        priorities = data.draw(st.lists(st.floats(0, 100), min_size=len(self.old), max_size=len(self.old)))
        before = self.buffer.dropped_update_count
        gone = 0
        self.buffer.update({
            "replay_unique_id": [row["replay_unique_id"] for row in self.old],
            "replay_buffer_idx": [row["replay_buffer_idx"] for row in self.old],
            "priority": priorities,
        })  # fmt: skip
        for row, priority in zip(self.old, priorities):
            number = int(row["n"])
            if number in self.model:
                self.priority[number] = priority + 1e-5
                self.largest = max(self.largest, priority)
            else:
                gone += 1
        assert self.buffer.dropped_update_count - before == gone

    @rule()
    def state(self):
        other = self.new_buffer()
        other.load_state_dict(self.buffer.state_dict())
        self.buffer.close()
        self.buffer = other

    @invariant()
    def trees_agree(self):
        if not hasattr(self, "buffer"):
            return
        tree, table = self.buffer.priorities.tree, self.buffer.table
        leaves = dict(zip(table.unique_id.tolist(), tree.leaves.tolist()))
        leaves.pop(-2, None)
        assert leaves == pytest.approx({n: p**0.5 for n, p in self.priority.items()})
        assert tree.total == pytest.approx(sum(leaves.values()))
        assert self.buffer.priorities.largest == self.largest


TestNaiveModel = NaiveMachine.TestCase
TestAdvancedModel = AdvancedMachine.TestCase
TestNaiveModel.settings = TestAdvancedModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize(("cls", "kind"), list(itertools.product([NaiveReplayBuffer, AdvancedReplayBuffer], STORAGES)))
def test_every_storage_gives_the_same_samples(make, cls, kind):
    """With the same seed the storage makes no difference to what is drawn."""
    from ding.utils import set_pkg_seed

    def drawn(kind):
        set_pkg_seed(3)
        buffer = make(cls, 20, storage={**STORAGES[kind], "mixed_rows": kind == "objects"})
        buffer.push(as_pushed(rows_of(0, 33, kind), kind, "batch"), 0)
        return [[int(row["n"]) for row in buffer.sample(6, 0)] for _ in range(5)]

    assert drawn(kind) == drawn("columns")
