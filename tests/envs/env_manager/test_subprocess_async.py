"""``async_subprocess``: a step returns with those that answered."""

import multiprocessing

import numpy as np
import pytest

from ding.envs.env_manager import AsyncSubprocessEnvManager
from ding.envs.testing import CountingEnv

LIMIT_S = 60.0


class GatedEnv(CountingEnv):
    """Waits for its gate in each step or reset that its gate is for."""

    def __init__(self, cfg, gate):
        super().__init__(cfg)
        self.gate = gate

    def step(self, action):
        if self.gate is not None and not self.gate[0].acquire(timeout=LIMIT_S):
            raise TimeoutError("nobody opened the gate")
        return super().step(action)

    def reset(self, **kwargs):
        if self.gate is not None and self._core.episode >= 0 and not self.gate[1].acquire(timeout=LIMIT_S):
            raise TimeoutError("nobody opened the gate")
        return super().reset(**kwargs)


def gate():
    context = multiprocessing.get_context("fork")
    return context.Semaphore(0), context.Semaphore(0)


@pytest.fixture
def launch():
    managers = []

    def build(gates, lengths=None, **cfg):
        lengths = lengths or [9] * len(gates)
        fns = [lambda g=g, n=n: GatedEnv({"episode_length": n}, g) for g, n in zip(gates, lengths)]
        manager = AsyncSubprocessEnvManager(fns, {"step_wait_timeout": 0.0, **cfg})
        managers.append(manager)
        manager.launch()
        return manager

    yield build
    for manager in managers:
        manager.close()


def act(manager):
    return {env_id: np.array([1]) for env_id in manager.ready_obs}


def test_a_slow_env_does_not_hold_up_the_others(launch):
    slow = gate()
    manager = launch([None, None, slow])
    seen = set()
    first = manager.step(act(manager))
    assert 2 not in first
    seen.update(first)
    while len(seen) < 2:
        seen.update(manager.step({}))
    assert manager.ready_obs_id == [0, 1]
    assert list(manager.ready_obs) == [0, 1]
    slow[0].release()
    late = manager.step({0: np.array([1])})
    while 2 not in late:
        late = manager.step({0: np.array([1])} if 0 in late else {})
    assert late[2].obs.tolist() == [0, 1]
    assert 2 in manager.ready_obs_id


def test_wait_num_answers_are_waited_for(launch):
    manager = launch([None] * 4, wait_num=4)
    assert list(manager.step(act(manager))) == [0, 1, 2, 3]


def test_without_a_waiting_time_all_are_waited_for(launch):
    manager = launch([None] * 3, wait_num=1, step_wait_timeout=None)
    assert list(manager.step(act(manager))) == [0, 1, 2]


def test_more_than_wait_num_may_come(launch):
    manager = launch([None] * 2, wait_num=100)
    assert list(manager.step({1: np.array([1])})) == [1]


def test_a_step_waits_for_an_env_whose_episode_goes_on(launch):
    ending, going = gate(), gate()
    manager = launch([ending, going], lengths=[1, 9], wait_num=1)
    ending[0].release()
    going[0].release()
    step = manager.step(act(manager))
    assert 1 in step
    if 0 not in step:
        step = manager.step({})
        assert step[0].done
    ending[1].release()


def test_an_env_that_resets_is_not_ready(launch):
    # How often the other one is stepped until the reset is over depends on the machine: its episode is long.
    ending = gate()
    manager = launch([ending, None], lengths=[1, 10**9], wait_num=2)
    ending[0].release()
    step = manager.step(act(manager))
    assert step.done.tolist() == [True, False]
    assert manager.ready_obs_id == [1]
    assert manager.step(act(manager))[1].obs.tolist() == [0, 2]
    ending[1].release()
    while 0 not in manager.ready_obs:
        manager.step({1: np.array([1])})
    assert manager.ready_obs[0].tolist() == [1, 0]


def test_ready_obs_blocks_while_all_reset(launch):
    manager = launch([None, None], lengths=[1, 1], wait_num=2, episode_num=3)
    for episode in range(3):
        assert manager.ready_obs
        while len(manager.ready_obs) < 2:
            pass
        steps = dict(manager.step(act(manager)))
        while len(steps) < 2:
            steps.update(manager.step({}))
        assert [s.obs.tolist() for s in steps.values()] == [[episode, 1]] * 2
    assert manager.done
    assert list(manager.ready_obs) == []


def test_an_env_under_way_cannot_be_stepped(launch):
    slow = gate()
    manager = launch([None, slow], wait_num=1)
    manager.step(act(manager))
    with pytest.raises(AssertionError, match="cannot be stepped"):
        manager.step({1: np.array([1])})
    slow[0].release()


def test_a_reset_drops_the_step_under_way(launch):
    slow = gate()
    manager = launch([None, slow], wait_num=1)
    manager.step(act(manager))
    slow[0].release()
    slow[1].release()
    manager.reset({1: None})
    assert manager.ready_obs[1].tolist() == [1, 0]
    assert list(manager.step({0: np.array([1])})) == [0]


def test_the_first_observation_may_come_in_place(launch):
    manager = launch([None], lengths=[1], wait_num=1, reset_inplace=True)
    step = manager.step(act(manager))
    assert step.done.tolist() == [True]
    assert step[0].obs.tolist() == [1, 0]


def test_a_step_of_nothing_is_reported(launch):
    manager = launch([None])
    with pytest.raises(ValueError, match="no step is under way"):
        manager.step({})


def test_a_bad_wait_num_is_reported():
    with pytest.raises(ValueError, match="wait_num"):
        AsyncSubprocessEnvManager([lambda: CountingEnv({})], {"wait_num": 0})
