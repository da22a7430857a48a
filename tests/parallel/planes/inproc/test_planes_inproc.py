"""What is special about the planes in the memory of a process: they share by name, until that is forgotten."""

import pytest
import torch

from ding.data import TransitionBatch
from ding.parallel.planes import InprocDataPlane, InprocWeightPlane, StorageFull, forget_inproc_planes


def batch_of(rows: int) -> TransitionBatch:
    return TransitionBatch({"obs": torch.ones(rows, 4)})


def test_a_forgotten_root_is_empty() -> None:
    root = "to be forgotten"
    InprocDataPlane(root).put(batch_of(1))
    InprocWeightPlane(root, "p").publish({"w": torch.ones(1)}, 0)
    forget_inproc_planes(root)
    assert InprocDataPlane(root).chunks() == []
    assert InprocWeightPlane(root, "p").newest() is None


def test_those_who_hold_what_was_forgotten_go_on() -> None:
    root = "held"
    plane = InprocDataPlane(root)
    ref = plane.put(batch_of(2))
    forget_inproc_planes(root)
    assert len(plane.get(ref)) == 2


def test_planes_without_a_name_are_alone_and_a_share_is_counted_over_all_writers_of_a_name() -> None:
    assert InprocDataPlane().put(batch_of(1))["chunk"] not in InprocDataPlane().chunks()
    root = "shared"
    ref = InprocDataPlane(root).put(batch_of(3))
    plane = InprocDataPlane(root, max_bytes=ref["bytes"])
    with pytest.raises(StorageFull, match="'shared'"):
        plane.put(batch_of(3))
    assert plane.release([ref]) == 1
    assert plane.put(batch_of(3))["rows"] == 3
    forget_inproc_planes(root)
