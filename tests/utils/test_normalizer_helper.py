"""Normalisers of data sets: DI-engine's numbers, and what they were fitted to as a state."""

import math

import numpy as np
import pytest

from ding.utils.normalizer_helper import DatasetNormalizer


def wave(shape: tuple[int, ...], phase: float) -> np.ndarray:
    return np.sin(0.7 * np.arange(math.prod(shape)) + phase).reshape(shape)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GaussianNormalizer", [0.571124, 1.12264, 1.11832, 0.890064, -0.232067, -1.12217]),
        ("LimitsNormalizer", [0.532004, 0.903061, 0.973589, 0.76546, -0.0736864, -0.803425]),
    ],
)
def test_values_are_normalised_and_a_state_does_the_same(name, expected):
    episodes = np.stack([wave((5, 3), 0.1), wave((5, 3), 0.7)])
    normalizer = DatasetNormalizer({"observations": episodes, "actions": episodes}, name, [4, 3])
    x = wave((2, 3), 0.4)
    found = normalizer.normalize(x, "observations")
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-5)
    np.testing.assert_allclose(normalizer.unnormalize(found, "observations"), x, rtol=1e-5)
    restored = DatasetNormalizer.from_state_dict(normalizer.state_dict())
    np.testing.assert_array_equal(restored.normalize(x, "observations"), found)
    assert (restored.observation_dim, restored.action_dim) == (3, 3)


def test_a_restored_distribution_is_the_same():
    rows = wave((50, 2), 0.3)
    normalizer = DatasetNormalizer({"observations": rows}, "CDFNormalizer")
    restored = DatasetNormalizer.from_state_dict(normalizer.state_dict())
    found = normalizer.normalize(rows, "observations")
    assert np.abs(found).max() <= 1
    np.testing.assert_array_equal(restored.normalize(rows, "observations"), found)
    np.testing.assert_array_equal(
        restored.unnormalize(found, "observations"), normalizer.unnormalize(found, "observations")
    )
