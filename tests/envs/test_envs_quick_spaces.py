"""Spaces with a cheap test of membership answer as gymnasium's do."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from ding.envs.env._making import make_gym_env
from ding.envs.env._quick_spaces import QuickDiscrete, QuickMultiDiscrete, quicken_membership

ACTIONS = [0, 1, 2, 3, 4, -1, 10**30, True, 1.0, "1", None, [1], (1,), np.array([1]), np.array(1)]
ACTIONS += [kind(value) for kind in (np.int64, np.int32, np.uint8, np.float32) for value in (0, 2, 3, 7)]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("start", [0, 2])
def test_discrete(dtype, start) -> None:
    space = spaces.Discrete(3, start=start, dtype=dtype)
    quick = QuickDiscrete.of(space)
    for action in ACTIONS:
        assert quick.contains(action) == space.contains(action), action
    assert quick == space
    assert space == quick
    assert repr(quick) == repr(space)


@given(st.lists(st.integers(-2, 5), min_size=1, max_size=4), st.sampled_from([np.int64, np.int32, np.float64]))
def test_multi_discrete(values, dtype) -> None:
    space = spaces.MultiDiscrete([4, 4], start=[1, 1])
    quick = QuickMultiDiscrete.of(space)
    array = np.array(values, dtype=dtype)
    for action in (array, values, array.reshape(-1, 1)):
        assert quick.contains(action) == space.contains(action)


def test_copies_and_random_state() -> None:
    for space in (spaces.Discrete(1000, seed=3), spaces.MultiDiscrete([1000, 1000], seed=3)):
        holder = type("Holder", (), {})()
        holder.action_space = copy.deepcopy(space)
        quick = quicken_membership(holder).action_space
        assert type(quick) is not type(space)
        twin = pickle.loads(pickle.dumps(quick))  # noqa: S301 - made here
        draws = [np.asarray(item.sample()).tolist() for item in (space, quick, twin, copy.deepcopy(twin))]
        assert draws[0] == draws[1] == draws[2]


def test_other_spaces_stay_as_they_are() -> None:
    for space in (spaces.MultiDiscrete([2, 3]), spaces.Box(0, 1, (2,)), QuickDiscrete.of(spaces.Discrete(2))):
        holder = type("Holder", (), {})()
        holder.action_space = space
        assert quicken_membership(holder).action_space is space


def test_envs_made_by_id_still_refuse_what_is_no_action() -> None:
    env = make_gym_env("CartPole-v1")
    assert type(env.unwrapped.action_space) is QuickDiscrete
    env.reset(seed=0)
    with pytest.raises(AssertionError, match="invalid"):
        env.step(2)
    twin = gymnasium.make("CartPole-v1")
    env.reset(seed=4)
    twin.reset(seed=4)
    for action in (1, 0, np.int64(1)):
        np.testing.assert_array_equal(env.step(action)[0], twin.step(action)[0])
    env.close()
    twin.close()
