"""DequeBuffer against a plain list: the same random actions, the same contents."""

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from ding.data import DequeBuffer, TransitionBatch
from ding.data.buffer import NotEnoughDataError
from ding.data.buffer.middleware import PriorityExperienceReplay, use_time_check

GROUPS = st.sampled_from(["a", "b", None])


class DequeBufferMachine(RuleBasedStateMachine):
    """The model is a list of ``[index, x, meta]``, oldest first."""

    indices = Bundle("indices")

    @initialize(size=st.integers(1, 7))
    def start(self, size):
        self.size = size
        self.buffer = DequeBuffer(size)
        self.per = PriorityExperienceReplay(self.buffer)
        self.prioritised = self.buffer.view().use(self.per)
        self.model = []
        self.next_x = 0

    def _added(self, index, x, meta):
        self.model = (self.model + [[index, x, meta]])[-self.size :]

    @rule(target=indices, group=GROUPS, through_per=st.booleans())
    def push(self, group, through_per):
        meta = {} if group is None else {"g": group}
        record = (self.prioritised if through_per else self.buffer).push({"x": self.next_x}, dict(meta))
        if through_per:
            meta["priority"] = 1.0
        self._added(record.index, self.next_x, meta)
        self.next_x += 1
        return record.index

    @rule(target=indices, groups=st.lists(GROUPS, min_size=1, max_size=9), with_meta=st.booleans())
    def extend(self, groups, with_meta):
        xs = list(range(self.next_x, self.next_x + len(groups)))
        batch = TransitionBatch({"x": torch.tensor(xs)})
        indices = self.buffer.extend(batch, {"g": groups, "n": np.array(xs)} if with_meta else None)
        for index, x, group in zip(indices, xs, groups):
            self._added(index, x, {"g": group, "n": x} if with_meta else {})
        self.next_x += len(groups)
        return multiple(*indices)

    @rule(index=indices, meta=st.dictionaries(st.sampled_from(["g", "k"]), GROUPS), new_data=st.booleans())
    def update(self, index, meta, new_data):
        known = [record for record in self.model if record[0] == index]
        data = {"x": self.next_x} if new_data else None
        assert self.buffer.update(index, data=data, meta=dict(meta)) == bool(known)
        for record in known:
            record[2] = meta
            record[1] = self.next_x if new_data else record[1]
        self.next_x += 1

    @rule(some=st.lists(consumes(indices), max_size=4))
    def batch_update(self, some):
        known = self.buffer.batch_update(some, metas={"k": list(range(len(some)))})
        assert known.tolist() == [any(record[0] == index for record in self.model) for index in some]
        for number, index in enumerate(some):
            for record in self.model:
                if record[0] == index:
                    record[2] = {**record[2], "k": number}

    @rule(some=st.lists(indices, max_size=4))
    def delete(self, some):
        self.buffer.delete(some)
        self.model = [record for record in self.model if record[0] not in some]

    @rule()
    def clear(self):
        self.buffer.clear()
        self.model = []

    @rule(size=st.integers(0, 8), replace=st.booleans(), start=st.integers(0, 7), length=st.integers(0, 8))
    def sample(self, size, replace, start, length):
        candidates = [record[0] for record in self.model[start : start + length]]
        enough = size <= len(candidates) or (replace and bool(candidates))
        try:
            sampled = self.buffer.sample(size, replace=replace, sample_range=slice(start, start + length))
        except NotEnoughDataError:
            assert not enough
            return
        assert enough
        found = [record.index for record in sampled]
        assert len(found) == size
        assert set(found) <= set(candidates)
        assert replace or len(set(found)) == size
        self._agree(sampled)

    @rule(unroll_len=st.one_of(st.none(), st.integers(1, 3)), data=st.data())
    def sample_groups(self, unroll_len, data):
        groups = {}
        for index, _, meta in self.model:
            groups.setdefault(meta.get("g"), []).append(index)
        legal = [members for members in groups.values() if len(members) >= (unroll_len or 1)]
        sampled = self.buffer.sample(len(legal), groupby="g", unroll_len=unroll_len)
        found = sorted([record.index for record in group] for group in sampled)
        for members in found:
            whole = next(group for group in legal if members[0] in group)
            begin = whole.index(members[0])
            assert members == whole[begin : begin + (unroll_len or len(whole))]
            assert len(members) == (unroll_len or len(whole))
        assert len({next(i for i, group in enumerate(legal) if members[0] in group) for members in found}) == len(legal)

    @rule(size=st.integers(1, 5))
    def sample_by_priority(self, size):
        try:
            sampled = self.prioritised.sample(size)
        except NotEnoughDataError:
            assert not self.model
            return
        assert {record.index for record in sampled} <= {record[0] for record in self.model}
        assert len(sampled) == size
        assert np.count_nonzero(self.per.sum_tree.leaves) == len(self.model)

    @rule()
    def use_up_one(self):
        if self.model:
            view = self.buffer.view()
            (record,) = view.use(use_time_check(view, max_use=1)).sample(1)
            self.model = [row for row in self.model if row[0] != record.index]

    def _agree(self, records):
        expected = {record[0]: record for record in self.model}
        for record in records:
            _, x, meta = expected[record.index]
            # A view with use_time_check writes its count into the meta of stored objects.
            found = {key: value for key, value in record.meta.items() if key not in ("use_count", "priority_idx")}
            assert int(record.data["x"]) == x
            assert found == meta

    @invariant()
    def contents_agree(self):
        if not hasattr(self, "buffer"):
            return
        assert [record.index for record in self.buffer] == [record[0] for record in self.model]
        assert self.buffer.count() == len(self.model)
        assert [self.buffer.indices.get(record[0]) for record in self.model] == list(range(len(self.model)))
        self._agree(self.buffer)


TestDequeBufferMachine = DequeBufferMachine.TestCase
TestDequeBufferMachine.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
