"""Collectors give way to the learners where there are too few cores."""

import os
from types import SimpleNamespace

import pytest
from easydict import EasyDict

from ding.entry.parallel import workers


@pytest.mark.parametrize(
    ("cores", "lowered_by"), [(2, [workers.COLLECTOR_NICENESS]), (3, [workers.COLLECTOR_NICENESS]), (4, []), (8, [])]
)
def test_collectors_give_way_only_where_cores_are_few(monkeypatch, cores, lowered_by):
    lowered, collected = [], []
    monkeypatch.setattr(os, "nice", lowered.append)
    monkeypatch.setattr(workers, "cores", lambda: cores)
    monkeypatch.setattr(workers, "collect", collected.append)
    coordinator = {"learner": ["learner0"], "collector": ["collector0", "collector1"]}
    context = SimpleNamespace(payload={"cfg": EasyDict(system={"coordinator": coordinator})})
    workers.collect_beside_others(context)
    assert lowered == lowered_by
    assert collected == [context]
