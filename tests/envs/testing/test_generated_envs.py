"""The generator of envs: what it emits is a function of seed, episode, step and actions."""

from copy import deepcopy

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings

from ding.envs import BaseEnvManager
from ding.envs.testing import (
    GeneratedEnv,
    GeneratedEnvSpec,
    ReferenceLoop,
    check_manager,
    env_specs,
    make_env,
    reference_rollout,
)

VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
SPEC = GeneratedEnvSpec(VECTOR, episode_lengths=(2, 3), endings=("terminated", "truncated"), info_form="full")


@settings(max_examples=50)
@given(env_specs())
def test_equal_seeds_and_actions_give_equal_episodes(spec):
    space = spec.action_space
    space.seed(0)
    actions = [space.sample() for _ in range(6)]
    first, again = (reference_rollout(deepcopy(spec), actions, seed=7) for _ in range(2))
    assert repr(first) == repr(again)
    assert len(first) == 6


def test_another_seed_or_action_gives_another_episode():
    (one,), (other,), (third,) = (reference_rollout(SPEC, [action], seed) for action, seed in ((0, 0), (1, 0), (0, 1)))
    assert not np.array_equal(one.obs, other.obs)
    assert not np.array_equal(one.obs, third.obs)


def test_lengths_and_ends_take_their_turns():
    steps = reference_rollout(SPEC, [0] * 5, seed=0)
    assert [step.terminated for step in steps] == [False, True, False, False, False]
    assert [step.truncated for step in steps] == [False, False, False, False, True]
    assert [(step.info["episode"], step.info["t"]) for step in steps] == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]


def test_an_action_outside_of_the_space_is_an_error():
    env = GeneratedEnv(GeneratedEnvSpec(VECTOR, spaces.Box(0.0, 1.0, (2,))))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="is not in"):
        env.step(np.array([0.5, 1.5], np.float32))


def test_unknown_forms_are_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match="Did you mean 'float32'"):
        GeneratedEnvSpec(VECTOR, reward_form="flaot32")


def test_a_reused_array_is_filled_again():
    env = GeneratedEnv(GeneratedEnvSpec(VECTOR, reuse_obs=True))
    first, _ = env.reset(seed=0)
    assert env.step(0)[0] is first


@pytest.mark.parametrize("api", ["gymnasium", "ding", "gym"])
def test_the_env_of_each_api_steps(api):
    env = make_env(GeneratedEnvSpec(VECTOR, api=api, episode_lengths=(1,)))
    env.seed(3)
    loop = ReferenceLoop(env.core.description if api == "ding" else GeneratedEnvSpec(VECTOR, episode_lengths=(1,)), 3)
    assert np.array_equal(env.reset(), loop.obs)
    assert env.step(1).done


class Deaf(BaseEnvManager):
    """Gives an action to the wrong env."""

    def step(self, actions):
        return super().step({env_id: actions[1 - env_id] for env_id in actions})


class Stale(BaseEnvManager):
    """Resets once too often."""

    def launch(self, reset_param=None):
        super().launch(reset_param)
        self.reset()


def test_check_manager_finds_what_is_wrong():
    check_manager(BaseEnvManager, SPEC)
    for manager, text in ((Deaf, r"env \d, episode 0, step \d and one, obs"), (Stale, "env 0, episode 0, step 0")):
        with pytest.raises(AssertionError, match=text):
            check_manager(manager, SPEC)
