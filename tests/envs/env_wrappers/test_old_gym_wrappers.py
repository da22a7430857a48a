"""Wrappers of gym before 0.26 around envs of either API, and ours around envs of gym. A stand-in takes gym's place."""

import sys
from types import ModuleType, SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ding.envs import BaseEnvManager, DingEnvWrapper, check_array_space
from ding.envs.env_wrappers import (
    ActionRepeatWrapper,
    AllinObsWrapper,
    ClipRewardWrapper,
    EvalEpisodeReturnWrapper,
    FlattenObsWrapper,
    FrameStackWrapper,
    GymToGymnasiumWrapper,
    ObsPlusPrevActRewWrapper,
    ObsTransposeWrapper,
)


class GymSpace:
    def __init__(self, **fields):
        vars(self).update(fields)


class Box(GymSpace):
    def __init__(self, low, high, shape=None, dtype=np.float32):
        low, high = (np.full(shape or np.shape(low), bound, dtype) for bound in (low, high))
        super().__init__(low=low, high=high, shape=low.shape, dtype=np.dtype(dtype))


class Discrete(GymSpace):
    def __init__(self, n, start=0):
        super().__init__(n=n, start=start, shape=(), dtype=np.dtype(np.int64))


class Dict(GymSpace):
    def __init__(self, spaces=None, **named):
        parts = {**(spaces or {}), **named}
        assert all(isinstance(part, GymSpace) for part in parts.values()), "Values of the dict should be gym spaces"
        super().__init__(spaces=parts)


class GymEnv:
    @property
    def unwrapped(self):
        return self


class GymWrapper(GymEnv):
    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    @property
    def unwrapped(self):
        return self.env.unwrapped

    def step(self, action):
        return self.env.step(action)

    def reset(self, **kwargs):
        return self.env.reset(**kwargs)

    def seed(self, seed=None):
        return self.env.seed(seed)


for cls in (GymEnv, GymWrapper, GymSpace, Box, Discrete, Dict):
    cls.__module__ = "gym.standin"


@pytest.fixture(autouse=True)
def gym(monkeypatch):
    module = ModuleType("gym")
    module.Env, module.Wrapper = GymEnv, GymWrapper
    module.spaces = SimpleNamespace(Space=GymSpace, Box=Box, Discrete=Discrete, Dict=Dict)
    monkeypatch.setitem(sys.modules, "gym", module)
    return module


class Old(GymEnv):
    """Pays 5 and ends by a time limit at its second step."""

    observation_space, action_space = Box(-9, 9, (2,)), Discrete(2, start=1)
    seeds = ()

    def reset(self):
        self.t = 0
        return np.ones(2, np.float32)

    def seed(self, seed=None):
        self.seeds = (*self.seeds, seed)

    def step(self, action):
        self.t += 1
        info = {"TimeLimit.truncated": True} if self.t == 2 else {}
        return np.full(2, self.t, np.float32), 5.0, self.t == 2, info

    def close(self):
        pass


class New(gymnasium.Env):
    """The same of gymnasium."""

    observation_space, action_space = gymnasium.spaces.Box(-9, 9, (2,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed_of_reset, self.t = seed, 0
        return np.ones(2, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(2, self.t, np.float32), 5.0, False, self.t == 2, {}


class Twice(GymWrapper):
    """A wrapper of gym."""

    def reset(self, **kwargs):
        Dict(observation=self.env.observation_space)
        return self.env.reset(**kwargs) * 2

    def step(self, action):
        obs, reward, done, info = self.env.step(action)
        return obs * 2, reward, done, info


class NewTwice(gymnasium.ObservationWrapper):
    """A wrapper of gymnasium."""

    def observation(self, observation):
        return observation * 2


WRAP = {
    "class": Twice,
    "function": lambda env: Twice(env),
    "gymnasium's class": NewTwice,
    "gymnasium's function": lambda env: NewTwice(env),
    "ours in gym's": lambda env: Twice(ActionRepeatWrapper(env, 1)),
    "gym's in ours": lambda env: ActionRepeatWrapper(Twice(env), 1),
}


@pytest.mark.parametrize("wrap", WRAP)
@pytest.mark.parametrize("env_cls", [Old, New])
@pytest.mark.parametrize("and_ours", [False, True])
def test_a_callable_wraps_what_it_knows(env_cls, wrap, and_ours):
    wrappers = [WRAP[wrap], *([{"type": "clip_reward"}, {"type": "eval_episode_return"}] if and_ours else [])]
    env = DingEnvWrapper(env_cls(), {"env_wrapper": wrappers})
    assert env.reset().tolist() == [2, 2]
    assert env.step(np.array([1])).obs.tolist() == [2, 2]
    last = env.step(np.array([1]))
    assert (last.obs.tolist(), last.reward.tolist(), last.done) == ([4, 4], [1.0 if and_ours else 5.0], True)
    assert last.info["TimeLimit.truncated"] is True
    assert ("eval_episode_return" in last.info) is and_ours


def test_a_manager_steps_seeds_and_resets_them():
    inner = [Old(), Old(), Old()]
    made = iter(inner)
    manager = BaseEnvManager([lambda: DingEnvWrapper(next(made), {"env_wrapper": [Twice]})] * 2)
    manager.seed(3)
    manager.launch()
    steps = [manager.step({0: np.array([1]), 1: np.array([0])}) for _ in range(3)]
    assert [step.truncated.tolist() for step in steps] == [[False] * 2, [True] * 2, [False] * 2]
    assert [env.seeds for env in inner] == [(), (3,), (4,)]
    manager.close()


def test_the_seed_reaches_an_env_of_gymnasium_through_a_wrapper_of_gym():
    inner = New()
    env = DingEnvWrapper(inner, {"env_wrapper": [Twice]})
    env.seed(7)
    env.reset()
    assert inner.seed_of_reset == 7


def test_an_error_of_a_wrapper_is_its_own():
    def broken(env):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        DingEnvWrapper(New(), {"env_wrapper": [broken]})


@pytest.mark.parametrize("make", [ClipRewardWrapper, lambda env: ClipRewardWrapper(EvalEpisodeReturnWrapper(env))])
def test_ours_around_an_env_of_gym_speaks_as_gym(make):
    env = make(Old())
    assert env.reset().tolist() == [1, 1]
    obs, reward, done, info = env.step(1)
    assert (obs.tolist(), reward, done, info) == ([1, 1], 1.0, False, {})
    assert env.step(1)[2:][1]["TimeLimit.truncated"] is True
    assert env.action_space.start == 1


def test_ours_around_an_env_of_gymnasium_speaks_as_gymnasium():
    env = ClipRewardWrapper(New())
    assert env.reset(seed=0)[0].tolist() == [1, 1]
    assert env.step(1)[1:] == (1.0, False, False, {})


def test_a_subclass_of_ours_around_an_env_of_gym_gets_four_values():
    class Mine(FrameStackWrapper):
        def step(self, action):
            obs, reward, done, info = super().step(action)
            return obs, reward + 1, done, info

    env = Mine(Old(), n_frames=2)
    assert env.reset().shape == (2, 2)
    assert env.step(1)[1:3] == (6.0, False)
    wrapped = DingEnvWrapper(Mine(Old(), n_frames=2), {})
    wrapped.reset()
    assert wrapped.step(1).reward.tolist() == [6.0]


def test_observation_wrappers_of_ours_around_an_env_of_gym():
    class Frames(Old):
        observation_space = Box(0, 255, (4, 6, 3), np.uint8)

        def reset(self):
            super().reset()
            return np.zeros((4, 6, 3), np.uint8)

    assert ObsTransposeWrapper(Frames()).reset().shape == (3, 4, 6)


@pytest.mark.parametrize("with_info", [False, True])
def test_an_observation_of_two_parts_is_not_taken_for_an_observation_and_an_info(with_info):
    space = spaces.Tuple([spaces.Discrete(9), spaces.Dict(x=spaces.Discrete(5))])

    class TwoParts:
        observation_space, action_space = space, spaces.Discrete(2)

        def reset(self):
            return ((3, {"x": 4}), {"note": 1}) if with_info else (3, {"x": 4})

        def step(self, action):
            return (3, {"x": 4}), 1.0, False, {}

    obs, info = GymToGymnasiumWrapper(TwoParts()).reset()
    assert (obs, info) == ((3, {"x": 4}), {"note": 1} if with_info else {})


def test_wrappers_with_spaces_of_parts_take_an_env_of_gym():
    parts = AllinObsWrapper(Old())
    assert sorted(parts.observation_space.spaces) == ["obs", "reward"]
    assert parts.reset()["reward"].tolist() == [0.0]
    parts = ObsPlusPrevActRewWrapper(Old())
    assert sorted(parts.observation_space.spaces) == ["obs", "prev_action", "prev_reward_extrinsic"]
    assert FlattenObsWrapper(Old()).observation_space.shape == (2,)


def test_arrays_are_checked_against_spaces_of_gym():
    check_array_space(np.array([-9.0, 8.5], np.float32), Box(-9, 9, (2,)), "obs")
    with pytest.raises(AssertionError, match="above the upper bound"):
        check_array_space(np.array([-9.0, 9.5], np.float32), Box(-9, 9, (2,)), "obs")
