import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.data.sum_tree import SumTree

CAPACITIES = [1, 2, 15, 16, 17, 8192, 8193, 140_000]


def filled(capacity, seed=0, zeros=0.5):
    rng = np.random.default_rng(seed)
    leaves = rng.integers(1, 8, capacity).astype(float)
    leaves[rng.random(capacity) < zeros] = 0.0
    leaves[rng.integers(capacity)] = 3.0
    tree = SumTree(capacity)
    tree.set_range(0, capacity, leaves)
    return tree, leaves


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_every_unit_of_mass_finds_its_leaf(capacity):
    tree, leaves = filled(capacity)
    assert tree.total == leaves.sum()
    mass = np.arange(0, leaves.sum(), 0.5)
    expected = np.repeat(np.arange(capacity), (2 * leaves).astype(int))
    np.testing.assert_array_equal(tree.draw(mass, None)[0], expected)
    drawn, weights = tree.draw((mass + 0.25) / leaves.sum())
    np.testing.assert_array_equal(drawn, expected)
    np.testing.assert_array_equal(weights, leaves[expected])


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_masses_outside_find_a_leaf_above_zero(capacity):
    tree, leaves = filled(capacity)
    found, _ = tree.draw(np.array([leaves.sum(), np.nextafter(leaves.sum(), np.inf), 2 * leaves.sum()]), None)
    assert (leaves[found] > 0).all()


def test_only_leaf_above_zero_is_the_first_one():
    tree = SumTree(40)
    tree.set(np.array([0]), 0.7)
    np.testing.assert_array_equal(tree.draw(np.array([0.0, 0.7, 9.0]), None)[0], [0, 0, 0])


def test_empty_tree_refuses_a_draw():
    tree = SumTree(20)
    assert tree.smallest() == np.inf
    with pytest.raises(ValueError, match="every leaf"):
        tree.draw(np.array([0.5]))
    tree.set(np.array([3]), 1.0)
    tree.clear()
    with pytest.raises(ValueError, match="every leaf"):
        tree.draw(np.array([0.0]), None)


def test_capacity_must_be_positive():
    with pytest.raises(ValueError, match="capacity"):
        SumTree(0)


def test_weights_of_very_different_size_are_drawn_correctly():
    tree = SumTree(9000)
    tree.set_range(0, 9000, 1e-12)
    tree.set(np.array([4321]), 1e12)
    drawn, _ = tree.draw(np.random.default_rng(0).random(1000))
    assert (drawn == 4321).all()


operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("set"),
            st.lists(
                st.tuples(st.integers(0, 299), st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0])), min_size=1, max_size=9
            ),
        ),
        st.tuples(
            st.just("range"), st.tuples(st.integers(0, 299), st.integers(1, 40), st.sampled_from([0.0, 1.0, 3.0]))
        ),
        st.tuples(st.just("clear"), st.none()),
    ),
    max_size=15,
)


@settings(max_examples=60, deadline=None)
@given(operations)
def test_sums_and_minimum_follow_a_plain_array(steps):
    tree, model = SumTree(300), np.zeros(300)
    for name, value in steps:
        if name == "set":
            index, values = zip(*value)
            tree.set(np.array(index), np.array(values))
            for i, v in value:
                model[i] = v
        elif name == "range":
            start, count, weight = value
            tree.set_range(start, min(300, start + count), weight)
            model[start : start + count] = weight
        else:
            tree.clear()
            model[:] = 0
        np.testing.assert_array_equal(tree.leaves, model)
        assert tree.total == model.sum()
        assert tree.smallest() == model.min(where=model > 0, initial=np.inf)
        if model.any():
            mass = np.arange(0, model.sum(), 0.5)
            np.testing.assert_array_equal(tree.draw(mass, None)[0], np.repeat(np.arange(300), (2 * model).astype(int)))


def test_state_round_trip_is_bit_exact():
    tree, _ = filled(9000, seed=3)
    tree.set(np.arange(0, 9000, 7), np.random.default_rng(1).random(1286))
    other = SumTree(9000)
    other.load_state_dict(tree.state_dict())
    fractions = np.random.default_rng(2).random(500)
    np.testing.assert_array_equal(other.draw(fractions), tree.draw(fractions))
    assert other.total == tree.total
    assert other.smallest() == tree.smallest()
    with pytest.raises(ValueError):
        SumTree(100_000).load_state_dict(tree.state_dict())


def test_a_draw_from_equal_leaves_gives_what_the_sums_give():
    points = np.arange(64) + np.random.default_rng(0).random(64)
    for count in (1, 3, 16, 700, 9000):
        even, summed = SumTree(9000), SumTree(9000)
        even.set_range(0, count, 0.5)
        summed.set_range(0, count, np.full(count, 0.5))
        assert even.smallest() == 0.5
        for drawn, expected in zip(even.draw(points, 64), summed.draw(points, 64)):
            np.testing.assert_array_equal(drawn, expected)
            assert drawn.dtype == expected.dtype


def test_last_point_of_equal_leaves_is_in_the_last_leaf():
    tree = SumTree(100)
    tree.set_range(0, 7, 0.1)
    drawn, weights = tree.draw(np.array([np.nextafter(1.0, 0.0), 1.0]))
    np.testing.assert_array_equal(drawn, [6, 6])
    np.testing.assert_array_equal(weights, [0.1, 0.1])


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: tree.set(np.array([3]), 2.0),
        lambda tree: tree.set_range(20, 30, 1.0),  # behind a gap
        lambda tree: tree.set_range(11, 12, 1.0),  # behind a gap of one
        lambda tree: tree.set_range(10, 12, 2.0),
        lambda tree: tree.set_range(2, 4, 0.0),
        lambda tree: tree.set_range(10, 12, np.array([1.0, 1.0])),
    ],
)
def test_equal_leaves_get_sums_when_one_differs(change):
    tree = SumTree(9000)
    tree.set_range(0, 10, 1.0)
    tree.draw(np.array([0.5]))
    change(tree)
    leaves = tree.leaves.copy()
    points = (np.arange(2 * leaves.sum()) + 0.5) / (2 * leaves.sum())
    np.testing.assert_array_equal(tree.draw(points)[0], np.repeat(np.arange(9000), (2 * leaves).astype(int)))
    assert tree.smallest() == leaves[leaves > 0].min()
    assert tree.total == leaves.sum()


def test_equal_leaves_that_are_set_again_stay_what_they_are():
    tree = SumTree(100)
    tree.set_range(0, 10, 0.5)
    tree.set_range(2, 4, 0.5)
    np.testing.assert_array_equal(tree.draw(np.arange(10) + 0.5, 10)[0], np.arange(10))
    assert tree.total == 5.0


def test_points_beyond_the_total_are_in_the_last_held_leaf():
    tree = SumTree(40)
    tree.set(np.array([2, 9, 30]), 1.0)
    np.testing.assert_array_equal(tree.draw(np.array([0.5, 1.5, 2.5, 3.0, 99.0]), None)[0], [2, 9, 30, 30, 30])


def test_state_of_equal_leaves_goes_on_as_it_was():
    tree, other = SumTree(9000), SumTree(9000)
    tree.set_range(0, 4000, 0.3)
    other.load_state_dict(tree.state_dict())
    points = np.random.default_rng(2).random(500)
    for changed in (tree, other):
        changed.set_range(4000, 9000, 0.3)
    np.testing.assert_array_equal(other.draw(points), tree.draw(points))
    for changed in (tree, other):
        changed.set(np.array([17]), 5.0)
    np.testing.assert_array_equal(other.draw(points), tree.draw(points))
    assert other.smallest() == tree.smallest() == 0.3
