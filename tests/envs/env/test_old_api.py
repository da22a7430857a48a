"""Envs whose class is gymnasium's and whose methods are those of the old gym: given, registered, inside of wrappers."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ding.envs import DingEnvWrapper
from ding.envs.env_manager import GymVectorEnvManager, SyncSubprocessEnvManager
from ding.envs.env_wrappers import GymToGymnasiumWrapper


class Old(gymnasium.Env):
    """4-field steps and bare observations, which are drawn; no end."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def step(self, action):
        return np.full(3, action / 2, np.float32), 0.5, False, {}


class Seeded(Old):
    """Takes seeds by the method."""

    def __init__(self):
        self.seeds = []

    def seed(self, seed=None):
        self.seeds.append(seed)


class Between(Old):
    """A signature of gym 0.22 to 0.25."""

    def __init__(self):
        self.seeds = []

    def reset(self, *, seed=None, return_info=False, options=None):
        self.seeds.append(seed)
        return super().reset()


class OnlySeed(Between):
    def reset(self, seed=None):
        return super().reset(seed=seed)


class OldWrapper(gymnasium.Wrapper):
    """A wrapper of the old API."""

    def reset(self):
        return self.env.reset()

    def step(self, action):
        obs, reward, done, info = self.env.step(action)
        return obs, reward * 10, done, info


KINDS = {"OldApi": Old, "OldApiSeeded": Seeded, "OldApiBetween": Between, "OldApiOnlySeed": OnlySeed}


@pytest.fixture(autouse=True)
def registered():
    for name, cls in KINDS.items():
        gymnasium.register(id=f"{name}-v0", entry_point=cls, max_episode_steps=3)
    yield
    for name in KINDS:
        del gymnasium.registry[f"{name}-v0"]


WAYS = {
    "env_id": lambda name: DingEnvWrapper(cfg={"env_id": name}),
    "made": lambda name: DingEnvWrapper(gymnasium.make(name)),
    "made without checker": lambda name: DingEnvWrapper(gymnasium.make(name, disable_env_checker=True)),
    "clone": lambda name: DingEnvWrapper(gymnasium.make(name)).clone(),
}


def episode(env):
    """First observation, and the steps until the end."""
    obs, steps = env.reset(), []
    while not steps or not steps[-1].done:
        steps.append(env.step(np.array([1])))
    return obs, steps


@pytest.mark.filterwarnings("ignore:.*WARN.*:UserWarning")
class TestRegistered:
    @pytest.mark.parametrize("name", KINDS)
    @pytest.mark.parametrize("way", WAYS)
    def test_plays_and_keeps_its_time_limit(self, way, name):
        env = WAYS[way](f"{name}-v0")
        env.seed(3)
        obs, steps = episode(env)
        assert (obs.shape, obs.dtype, len(steps)) == ((3,), np.float32, 3)
        assert steps[-1].info["TimeLimit.truncated"] is True
        assert steps[-1].info["eval_episode_return"].tolist() == [1.5]
        assert env.spec.max_episode_steps == 3
        assert type(env.unwrapped) is KINDS[name]
        env.close()

    @pytest.mark.parametrize("name", ["OldApiSeeded", "OldApiBetween", "OldApiOnlySeed"])
    @pytest.mark.parametrize("way", WAYS)
    def test_gets_its_seeds(self, way, name):
        env = WAYS[way](f"{name}-v0")
        env.seed(3, dynamic_seed=False)
        env.reset()
        env.reset()
        assert env.unwrapped.seeds == [3, 3]

    @pytest.mark.parametrize("way", WAYS)
    def test_its_generator_is_seeded_where_it_takes_no_seed(self, way):
        firsts = []
        for seed in (3, 3, 4):
            env = WAYS[way]("OldApi-v0")
            env.seed(seed)
            firsts.append(env.reset().tolist())
        assert firsts[0] == firsts[1] != firsts[2]

    @pytest.mark.parametrize("cls", [SyncSubprocessEnvManager, GymVectorEnvManager])
    def test_managers(self, cls):
        manager = cls([lambda: DingEnvWrapper(cfg={"env_id": "OldApi-v0"})] * 2, {})
        try:
            manager.launch()
            steps = [manager.step({0: np.array([0]), 1: np.array([1])}) for _ in range(3)]
            assert [step[1].done for step in steps] == [False, False, True]
        finally:
            manager.close()


def test_wrappers_of_gymnasium_around_a_given_env():
    env = DingEnvWrapper(gymnasium.wrappers.TimeLimit(gymnasium.wrappers.TransformReward(Old(), lambda r: r * 10), 2))
    _, steps = episode(env)
    assert [step.reward.tolist() for step in steps] == [[5.0], [5.0]]


def test_a_wrapper_of_the_old_api_sees_the_old_api():
    env = DingEnvWrapper(OldWrapper(Old()))
    env.reset()
    assert env.step(0).reward.tolist() == [5.0]


def test_an_env_of_gymnasium_stays_as_it_is():
    env = gymnasium.make("CartPole-v1")
    wrapped = DingEnvWrapper(env)
    assert wrapped.gym_env is env
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
    assert not isinstance(env, GymToGymnasiumWrapper)
