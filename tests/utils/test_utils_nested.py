"""The walks over nested data and the rows of batches, with the rules that hold in all packages."""

from collections import namedtuple

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.utils.nested import (
    dotted,
    iter_along,
    iter_leaves,
    iter_nested,
    iter_paths,
    map_leaves,
    map_nested,
    map_paths,
    map_together,
    mappings_in,
    with_leaves,
)
from ding.utils.rows import is_bundle, num_rows, put, take, take_rows

Pair = namedtuple("Pair", ["left", "right"])
TREE = {"a": 1, "b": EasyDict(c=[2, (3, None)], f={}), "e": Pair(4, 5)}


def test_containers_are_mappings_lists_and_tuples():
    assert list(iter_nested(TREE)) == [1, 2, 3, None, 4, 5]
    doubled = map_nested(lambda leaf: leaf and 2 * leaf, TREE)
    assert doubled == {"a": 2, "b": {"c": [4, (6, None)], "f": {}}, "e": Pair(8, 10)}
    assert type(doubled["b"]) is dict
    assert type(doubled["e"]) is Pair
    assert with_leaves(TREE, iter("uvwxyz"))["b"]["c"] == ["v", ("w", "x")]
    assert list(iter_along({"x": (0, 0)}, {"x": [[1], [2]], "y": 3})) == [[1], [2]]
    assert [sorted(mapping) for mapping in mappings_in([TREE])] == [["a", "b", "e"], ["c", "f"], []]


def test_a_list_in_columns_is_a_leaf():
    columns = {"a": [1, 2], "b": {"c": None}}
    assert map_leaves(type, columns) == {"a": list, "b": {"c": type(None)}}
    assert map_together(lambda one, other: (one, other), columns, {"a": 3, "b": {"c": 4}, "more": 5}) == {
        "a": ([1, 2], 3),
        "b": {"c": (None, 4)},
    }
    assert list(iter_leaves(columns)) == [("a", [1, 2]), ("b.c", None)]
    assert list(iter_leaves(7)) == [("", 7)]
    assert map_paths(lambda path, leaf: path, columns) == {"a": "a", "b": {"c": "b.c"}}


def test_paths():
    tree = {"a": {"b": 1, "c": {}}, "d": (2, 3)}
    assert list(iter_paths(tree)) == [(("a", "b"), 1), (("d",), (2, 3))]
    assert list(iter_paths(tree, empty=True, sequences=(tuple,))) == [
        (("a", "b"), 1),
        (("a", "c"), {}),
        (("d", 0), 2),
        (("d", 1), 3),
    ]
    assert dotted(tree) == {"a.b": 1, "d": (2, 3)}
    assert dotted({}, empty=True) == {}


def test_rows_of_columns():
    columns = {"t": torch.arange(4), "n": {"a": np.arange(4.0)}, "l": list("abcd")}
    part = take(columns, slice(1, 3))
    part["t"][0] = 9
    assert columns["t"].tolist() == [0, 9, 2, 3]
    assert part["l"] == ["b", "c"]
    square = take(columns, np.array([[3, 0], [2, 2]]))
    assert square["t"].tolist() == [[3, 0], [2, 2]]
    assert square["n"]["a"].shape == (2, 2)
    assert square["l"] == [["d", "a"], ["c", "c"]]
    put(columns, np.array([3, 0]), {"t": torch.tensor([7, 8]), "n": {"a": np.array([7.0, 8.0])}, "l": ["y", "z"]})
    assert (columns["t"].tolist(), columns["n"]["a"].tolist()) == ([8, 9, 2, 7], [8.0, 1.0, 2.0, 7.0])
    assert columns["l"] == ["z", "b", "c", "y"]


@pytest.mark.parametrize(
    ("key", "value", "bundle"),
    [
        ("obs", [torch.zeros(3, 2), np.zeros((3, 1))], True),
        ("obs", [{"image": torch.zeros(3, 2), "collate_ignore_x": "text"}], True),
        ("prev_state", [torch.zeros(3, 2)] * 3, False),
        ("collate_ignore_parts", [torch.zeros(3, 2)] * 3, False),
        ("names", ["a", "b", "c"], False),
        ("prev", [None, torch.zeros(3, 1), None], False),
    ],
)
def test_a_list_in_a_batch_holds_columns_or_rows(key, value, bundle):
    assert is_bundle(value, key) is bundle
    taken = take_rows({key: value}, np.array([2, 0]))[key]
    if bundle:
        assert num_rows({key: value}) == 3
        assert len(taken) == len(value)
    else:
        assert len(taken) == 2
        assert taken[0] is value[2]
