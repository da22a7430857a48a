"""Interquartile means, probabilities of improvement and bootstrap intervals, by hand and as rliable 1.2.0."""

import numpy as np
import pytest

from ding.entry.view.seed_statistics import bootstrap_interval, interquartile_mean, probability_of_improvement

# Five and seven runs on three tasks, and what rliable 1.2.0 (with pandas 2, numpy 2.4) returned for them.
FIRST = [[0.6, 0.4, 0.3], [0.0, 0.5, -0.7], [-0.2, -0.5, 0.6], [0.0, -0.3, -0.8], [-0.3, 0.0, -0.3]]
SECOND = [
    *([1.6, 1.3, -2.4], [-1.6, 0.1, -0.1], [0.5, 0.5, 2.4], [-0.8, -0.1, 2.3]),
    *([0.9, 1.0, -0.2], [-1.3, 0.5, 0.4], [-0.9, -0.4, 0.2]),
]


def column(*values):
    return np.array(values, np.float64)[:, None]


def test_the_middle_half_is_averaged():
    assert interquartile_mean(column(5.0, -100.0, 1.0, 3.0, 2.0, 4.0, 1000.0, 6.0)) == 3.5
    assert interquartile_mean(column(1.0, 2.0, 6.0)) == 3.0
    assert interquartile_mean([[1.0, 2.0], [100.0, 4.0]]) == 3.0
    np.testing.assert_array_equal(interquartile_mean(np.stack([column(1.0, 3.0), column(5.0, 9.0)])), [2.0, 7.0])


def test_pairs_of_runs_are_counted_and_equal_ones_are_halves():
    # Of six pairs the first is higher in three, and equal in one.
    assert probability_of_improvement(column(1.0, 3.0), column(0.0, 2.0, 3.0)) == pytest.approx(3.5 / 6)
    tasks = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.0, -1.0]])
    assert probability_of_improvement(*tasks) == 0.75


def test_numbers_are_those_of_rliable():
    assert interquartile_mean(FIRST) == pytest.approx(-0.044444444444444446)
    assert probability_of_improvement(FIRST, SECOND) == pytest.approx(0.4095238095238095)
    np.testing.assert_allclose(bootstrap_interval(interquartile_mean, FIRST), (-0.3, 0.233), atol=0.02)
    np.testing.assert_allclose(bootstrap_interval(probability_of_improvement, FIRST, SECOND), (0.229, 0.6), atol=0.02)


def test_an_interval_of_few_runs_has_the_ends_that_all_draws_give():
    # Of the 27 draws of three runs, one is thrice the first (3.7 %) and one thrice the last.
    low, high = bootstrap_interval(interquartile_mean, column(0.0, 3.0, 9.0))
    assert (low, high) == (0.0, 9.0)
    assert bootstrap_interval(interquartile_mean, column(0.0, 3.0, 9.0), level=0.9) == (1.0, 7.0)
    assert bootstrap_interval(interquartile_mean, column(4.0, 4.0)) == (4.0, 4.0)
    np.testing.assert_array_equal(bootstrap_interval(interquartile_mean, column(1.0, np.inf, np.inf))[1], np.inf)


def test_a_large_bootstrap_in_parts_gives_the_same(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(6, 5, 1))
    whole = bootstrap_interval(interquartile_mean, scores)
    monkeypatch.setattr("ding.entry.view.seed_statistics._CHUNK", 60)
    np.testing.assert_array_equal(bootstrap_interval(interquartile_mean, scores), whole)
