from collections import namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ding.torch_utils import get_shape0
from ding.utils.data import (
    default_collate,
    default_decollate,
    diff_shape_collate,
    timestep_collate,
    ttorch_collate,
)

Pair = namedtuple("Pair", "x y")


def equal(left, right):
    return left.dtype == right.dtype and torch.equal(left, right)


def test_transitions():
    batch = default_collate(
        [
            {
                "obs": torch.full((3,), float(i)),
                "action": torch.tensor([i]),
                "done": bool(i),
                "reward": 0.5 * i,
                "iter": i,
                "name": f"t{i}",
                "pair": Pair(np.array([i, i]), [i]),
                "collate_ignore_info": {"any": i},
            }
            for i in range(2)
        ]
    )
    assert equal(batch["obs"], torch.tensor([[0.0] * 3, [1.0] * 3]))
    assert equal(batch["action"], torch.tensor([0, 1]))
    assert equal(batch["done"], torch.tensor([False, True]))
    assert equal(batch["reward"], torch.tensor([0.0, 0.5]))
    assert equal(batch["iter"], torch.tensor([0, 1]))
    assert batch["name"] == ["t0", "t1"]
    assert isinstance(batch["pair"], Pair)
    assert equal(batch["pair"].x, torch.tensor([[0, 0], [1, 1]]))
    assert equal(batch["pair"].y[0], torch.tensor([0, 1]))
    assert batch["collate_ignore_info"] == [{"any": 0}, {"any": 1}]


def test_one_wide_samples():
    for sample in (torch.tensor([1.0]), np.ones(1, np.float32)):
        assert default_collate([sample] * 2).shape == (2,)
        assert default_collate([sample] * 2, cat_1dim=False).shape == (2, 1)


def test_numpy_keeps_its_dtype():
    assert equal(default_collate([np.float64(1.5)]), torch.tensor([1.5], dtype=torch.float64))
    assert default_collate([np.zeros((2, 2), np.uint8)]).dtype == torch.uint8
    assert equal(default_collate([1, 2.5]), torch.tensor([1.0, 2.5]))


@pytest.mark.parametrize(
    ("batch", "error"),
    [([None], TypeError), ([], ValueError), ([[1], [1, 2]], ValueError), ([np.array(["a"])], TypeError)],
)
def test_what_cannot_be_collated(batch, error):
    with pytest.raises(error):
        default_collate(batch)


def test_errors_name_the_key():
    with pytest.raises(TypeError, match="key 'obs': key 'x': cannot collate samples of type NoneType"):
        default_collate([{"obs": {"x": None}}])
    with pytest.raises(RuntimeError, match="key 'obs'"):
        default_collate([{"obs": torch.zeros(2)}, {"obs": torch.zeros(3)}])


@given(st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_decollate_inverts(size, width, nested):
    obs = torch.arange(size * (width + 1)).reshape(size, width + 1).float()
    rows = [{"obs": row, "action": torch.tensor([i])} for i, row in enumerate(obs)]
    if nested:
        rows = [{"inner": row} for row in rows]
    back = default_decollate(default_collate(rows))
    for row, found in zip(rows, back):
        row, found = (row["inner"], found["inner"]) if nested else (row, found)
        assert torch.equal(row["obs"], found["obs"])
        assert found["action"].shape == (1,)
        assert torch.equal(row["action"], found["action"])
    assert len(back) == size


def test_decollate_of_other_parts():
    batch = {
        "logit": [torch.zeros(2, 3), torch.ones(2, 3)],
        "prev_state": ["s0", "s1"],
        "dist": torch.distributions.Normal(torch.zeros(2), torch.ones(2)),
    }
    first, second = default_decollate(batch)
    assert first["prev_state"] == "s0"
    assert second["dist"] is None
    assert torch.equal(second["logit"][1], torch.ones(3))
    with pytest.raises(TypeError, match="int"):
        default_decollate({"a": 1})


def piece(start, steps=3):
    return {
        "obs": [torch.tensor([start + t, 0.0]) for t in range(steps)],
        "action": [torch.tensor([start + t]) for t in range(steps)],
        "deep": [{"z": np.full(2, start + t)} for t in range(steps)],
        "done": [t == steps - 1 for t in range(steps)],
        "prev_state": [None if t == 0 else (start, t) for t in range(steps)],
        "names": [f"{start}{t}" for t in range(steps)],
        "weight": 0.5,
    }


def test_time_comes_first():
    pieces = [piece(0), piece(10)]
    batch = timestep_collate(pieces)
    assert batch["obs"].shape == (3, 2, 2)
    assert batch["obs"][:, :, 0].tolist() == [[0, 10], [1, 11], [2, 12]]
    assert batch["action"].tolist() == [[0, 10], [1, 11], [2, 12]]
    assert batch["deep"]["z"][2].tolist() == [[2, 2], [12, 12]]
    assert equal(batch["done"], torch.tensor([[False, False], [False, False], [True, True]]))
    assert batch["prev_state"] == [(None, None), ((0, 1), (10, 1)), ((0, 2), (10, 2))]
    assert batch["names"] == [["00", "100"], ["01", "101"], ["02", "102"]]
    assert equal(batch["weight"], torch.tensor([0.5, 0.5]))
    assert list(pieces[0]) == list(piece(0))  # the samples are left as they were


def test_steps_that_are_lists_stay_a_list_of_steps():
    pieces = [
        {
            "action": [[torch.tensor([b]), torch.tensor([b + 10])], [torch.tensor([b + 20]), torch.tensor([b + 30])]],
            "obs": {"agent": [torch.ones(3), torch.zeros(3)], "deep": {"x": [b, b + 1]}},
        }
        for b in range(3)
    ]
    batch = timestep_collate(pieces)
    numbers = [[part.tolist() for part in step] for step in batch["action"]]
    assert numbers == [[[0, 1, 2], [10, 11, 12]], [[20, 21, 22], [30, 31, 32]]]
    assert batch["obs"]["agent"].shape == (2, 3, 3)
    assert batch["obs"]["deep"]["x"].tolist() == [[0, 1, 2], [1, 2, 3]]


def test_time_first_of_lists_of_steps():
    as_steps = [[{"obs": torch.tensor([b, t]), "r": torch.tensor([t])} for t in range(3)] for b in range(2)]
    batch = timestep_collate(as_steps)
    assert batch["obs"].tolist() == [[[0, 0], [1, 0]], [[0, 1], [1, 1]], [[0, 2], [1, 2]]]
    assert batch["r"].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_pieces_must_be_equally_long():
    with pytest.raises(ValueError, match=r"key 'obs': .*\[2, 3\]"):
        timestep_collate([piece(0, 2), piece(0, 3)])
    with pytest.raises(TypeError, match="int"):
        timestep_collate([1])


def test_different_shapes_stay_lists():
    batch = diff_shape_collate(
        [
            {"a": torch.zeros(2), "b": torch.zeros(1), "c": None, "d": (1, [2.0])},
            {"a": torch.zeros(3), "b": torch.ones(1), "c": torch.ones(1), "d": (3, [4.0])},
        ]
    )
    assert [tuple(a.shape) for a in batch["a"]] == [(2,), (3,)]
    assert equal(batch["b"], torch.tensor([[0.0], [1.0]]))
    assert batch["c"][0] is None
    assert equal(batch["d"][0], torch.tensor([1, 3]))
    assert equal(batch["d"][1][0], torch.tensor([2.0, 4.0]))


def test_trees():
    rows = [{"obs": {"x": torch.tensor([float(i), 1.0])}, "reward": torch.tensor([float(i)])} for i in range(2)]
    batch = ttorch_collate(rows)
    assert equal(batch["obs"]["x"], torch.tensor([[0.0, 1.0], [1.0, 1.0]]))
    assert equal(batch["reward"], torch.tensor([0.0, 1.0]))
    assert batch.obs.x is batch["obs"]["x"]
    assert type(ttorch_collate(rows, json=True)) is dict
    assert ttorch_collate(rows, json=True, cat_1dim=False)["reward"].shape == (2, 1)


class ForeignTree:
    """A tree of ``treetensor``: no mapping, and ``json`` makes dicts of it."""

    def __init__(self, **fields):
        self._fields = fields

    def json(self):
        return {key: value.json() if isinstance(value, ForeignTree) else value for key, value in self._fields.items()}


def test_trees_of_another_package():
    trees = [ForeignTree(obs=ForeignTree(x=torch.full((3,), float(i))), reward=torch.tensor([i])) for i in range(2)]
    batch = ttorch_collate(trees)
    assert equal(batch.obs.x, torch.tensor([[0.0] * 3, [1.0] * 3]))
    assert equal(batch.reward, torch.tensor([0, 1]))
    assert get_shape0(trees[0]) == get_shape0(trees) == get_shape0([torch.zeros(3, 2)]) == 3
