"""The seed tree: equal places give equal streams, different places never share one."""

import itertools
import random

import numpy as np
import pytest
import torch

from ding.utils import SeedTree, process_index, set_pkg_seed
from ding.utils.seed import set_process_index


@pytest.fixture
def generators():
    """The global generators are afterwards as they were."""
    state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])


def test_the_same_place_gives_the_same_seed_and_these_values_stay() -> None:
    assert SeedTree(3).derived("collector", process=1, index=2, purpose="collect") == SeedTree(3).derived(
        "collector", process=1, index=2, purpose="collect"
    )
    # Pinned: a resumed or repeated run of a later release plays the same episodes.
    assert SeedTree(0).env_seeds(3, "collector") == [1817638756, 1635837131, 1410163857]


def test_no_two_places_and_no_two_neighbouring_run_seeds_share_a_seed() -> None:
    places = itertools.product(
        range(6), ("collector", "evaluator", "learner", "node"), range(8), ("collect", "evaluate")
    )
    seeds = [
        value
        for seed, role, process, purpose in places
        for value in SeedTree(seed).env_seeds(16, role, process=process, purpose=purpose)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_process_gets_its_own_global_generators(generators) -> None:
    def draws(process: int) -> tuple[float, float, float]:
        SeedTree(0).seed_process("collector", process=process)
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    first, other, again = draws(0), draws(1), draws(0)
    assert first == again
    assert not set(first) & set(other)


def test_processes_of_one_script_differ_and_the_first_has_the_plain_seed(generators) -> None:
    def drawn(index: int, life: int = 0) -> float:
        set_process_index(index, life)
        try:
            set_pkg_seed(7)
            return float(np.random.rand())
        finally:
            set_process_index(0)

    assert drawn(0) == np.random.RandomState(7).rand()
    # A process that was started again does not repeat its numbers either.
    assert len({drawn(0), drawn(1), drawn(2), drawn(0, life=1), drawn(1, life=1)}) == 5
    assert drawn(1) == drawn(1)
    assert process_index() == 0


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed must be at least 0, got -1"):
        SeedTree(-1)
