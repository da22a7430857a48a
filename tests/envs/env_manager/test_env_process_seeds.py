"""The global generators of processes with envs: each env sees numbers of its own, which follow from its seed."""

import random

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium import spaces

from ding.envs import DingEnvWrapper, create_env_manager

PROCESSES = [
    {"type": "subprocess"},
    {"type": "async_subprocess"},
    pytest.param({"type": "subprocess", "context": "spawn"}, marks=pytest.mark.slow),
    {"type": "subprocess", "envs_per_worker": 2},
    {"type": "gym_vector", "vectorization_mode": "async"},
]
IDS = ["subprocess", "async_subprocess", "spawn", "two in a process", "gym_vector"]


class Drawing(gymnasium.Env):
    """Shows what it drew from numpy, torch and Python when it was built and at its last reset."""

    observation_space = spaces.Box(0, 1, (6,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self._built = self._draw()

    def _draw(self) -> list[float]:
        return [float(np.random.rand()), float(torch.rand(())), random.random()]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([*self._built, *self._draw()], np.float32), {}

    def step(self, action):
        return np.zeros(6, np.float32), 1.0, True, False, {}


def make():
    return DingEnvWrapper(Drawing(), EasyDict())


def first_draws(cfg, seed, **seeding):
    """Return what each of four envs drew, float32 ``[4, 6]``."""
    manager = create_env_manager(EasyDict(cfg), [make] * 4)
    try:
        if seed is not None:
            manager.seed(seed, **seeding)
        manager.launch()
        obs = manager.ready_obs
        return np.stack([np.asarray(obs[env_id]) for env_id in range(4)])
    finally:
        manager.close()


@pytest.mark.parametrize("cfg", PROCESSES, ids=IDS)
def test_each_env_has_numbers_of_its_own_that_follow_from_its_seed(cfg):
    drawn = first_draws(cfg, [5, 6, 7, 8])
    assert len(np.unique(drawn)) == drawn.size
    np.testing.assert_array_equal(drawn, first_draws(cfg, [5, 6, 7, 8]))
    assert not np.isin(drawn, first_draws(cfg, [15, 16, 17, 18])).any()


@pytest.mark.parametrize("cfg", PROCESSES, ids=IDS)
def test_envs_without_seeds_have_numbers_that_nobody_else_has(cfg):
    np.random.seed(0)
    torch.manual_seed(0)
    drawn = first_draws(cfg, None)
    assert len(np.unique(drawn)) == drawn.size
    assert not np.isin(drawn, first_draws(cfg, None)).any()


@pytest.mark.parametrize("cfg", [PROCESSES[0], PROCESSES[-1]], ids=[IDS[0], IDS[-1]])
def test_with_a_static_seed_each_episode_draws_the_same_numbers(cfg):
    manager = create_env_manager(EasyDict(cfg), [make] * 2)
    manager.seed([3, 4], dynamic_seed=False)
    manager.launch()
    try:
        before = [np.array(manager.ready_obs[env_id]) for env_id in range(2)]
        manager.step({0: np.array([0]), 1: np.array([1])})
        while len(manager.ready_obs) < 2:
            pass
        for env_id in range(2):
            np.testing.assert_array_equal(manager.ready_obs[env_id], before[env_id])
    finally:
        manager.close()


class DrawingSteps(Drawing):
    """Draws in each step, too, and can be saved in the middle of an episode."""

    def step(self, action):
        return np.array([*self._draw(), *self._draw()], np.float32), 1.0, False, False, {}

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


@pytest.mark.parametrize("envs_per_worker", [1, 2])
def test_a_saved_env_continues_with_the_numbers_of_its_process(envs_per_worker):
    def launched(seeds):
        cfg = EasyDict(type="subprocess", envs_per_worker=envs_per_worker)
        manager = create_env_manager(cfg, [lambda: DingEnvWrapper(DrawingSteps(), EasyDict())] * 2)
        manager.seed(seeds)
        manager.launch()
        return manager

    def stepped(manager):
        timesteps = manager.step({0: np.array([0]), 1: np.array([0])})
        return np.stack([timesteps[env_id].obs for env_id in range(2)])

    first, other = launched([1, 2]), launched([3, 4])
    try:
        stepped(first)
        state = first.get_state()
        after = stepped(first)
        other.set_state(state)
        np.testing.assert_array_equal(stepped(other), after)
    finally:
        first.close()
        other.close()


def test_the_base_manager_leaves_the_generators_of_its_process_alone():
    drawn = first_draws({"type": "base"}, 0)
    assert len(np.unique(drawn)) == drawn.size
    manager = create_env_manager(EasyDict(type="base"), [lambda: gymnasium_counter()] * 2)
    state, torch_state, python_state = np.random.get_state(), torch.get_rng_state(), random.getstate()
    manager.seed([1, 2])
    manager.launch()
    manager.close()
    assert np.array_equal(np.random.get_state()[1], state[1])
    assert np.random.get_state()[2] == state[2]
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state


def gymnasium_counter():
    return DingEnvWrapper(cfg=EasyDict(env_id="CartPole-v1"))


class Sampling(gymnasium.Env):
    """Draws from its spaces, which belong to the class."""

    observation_space = spaces.Dict({"a": spaces.Box(0, 1, (2,), np.float32), "b": spaces.Discrete(1000)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def sampled(cfg, seed):
    """Return what two envs showed in two steps, after an env of their class with another seed was reset."""
    manager = create_env_manager(EasyDict(cfg), [lambda: DingEnvWrapper(Sampling(), EasyDict())] * 2)
    manager.seed(seed)
    manager.launch()
    try:
        other = DingEnvWrapper(Sampling(), EasyDict())
        other.seed(1)
        other.reset()
        drawn = []
        for _ in range(2):
            manager.step({0: np.array([0]), 1: np.array([1])})
            drawn += [manager.ready_obs[env_id]["a"].tolist() for env_id in range(2)]
        return drawn
    finally:
        manager.close()


@pytest.mark.parametrize("kind", ["base", "subprocess", "gym_vector"])
def test_envs_that_sample_their_spaces_follow_their_seeds(kind):
    cfg = {"type": kind}
    drawn = sampled(cfg, [5, 6])
    assert drawn == sampled(cfg, [5, 6])
    assert len(np.unique(drawn)) == 8
    assert not np.isin(drawn, sampled(cfg, [15, 16])).any()
