"""Envs under a supervisor: the same run in threads and processes, resets and steps that fail."""

import threading

import gymnasium
import numpy as np
import pytest
from ding.envs.env_manager.env_supervisor import EnvRetryType, EnvState

from ding.data import BaseEnvTimestep
from ding.envs import EnvSupervisor
from ding.framework.supervisor import ChildType

BOTH = pytest.mark.parametrize("kind", list(ChildType))


class Counter:
    """Observes ``[t, number of resets]``; an episode has three steps. Action -1 fails, -2 takes too long."""

    observation_space = gymnasium.spaces.Box(0, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    reward_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)

    def __init__(self, failures=0):
        self.t, self.resets, self.extra, self.seeds = 0, 0, 7, []
        self._failures, self._released = failures, threading.Event()

    def seed(self, seed, dynamic_seed=None):
        self.seeds.append((seed, dynamic_seed))

    def reset(self, first=0):
        if self._failures:
            self._failures -= 1
            raise RuntimeError("no connection")
        self.t, self.resets = first, self.resets + 1
        return self.obs()

    def step(self, action):
        if action == -1:
            raise ValueError("bad action")
        if action == -2:
            self._released.wait(60)
        self.t += 1
        info = {"TimeLimit.truncated": True} if self.t == 3 else {}
        return BaseEnvTimestep(self.obs(), np.float32([1]), self.t == 3, info)

    def obs(self):
        return np.array([self.t, self.resets], np.float32)

    def close(self):
        self._released.set()


class Dicts(Counter):
    """Observes a dict."""

    observation_space = gymnasium.spaces.Dict({"a": Counter.observation_space})

    def obs(self):
        return {"a": super().obs()}


class Fails(Counter):
    """The first two resets of a child fail; the one of the constructor, which asks for the spaces, does not."""

    made = 0

    def __init__(self):
        Fails.made += 1
        super().__init__(failures=0 if Fails.made == 1 else 2)


@pytest.fixture
def made():
    envs = []

    def make(kind, classes=(Counter, Counter), **kwargs):
        envs.append(EnvSupervisor(type_=kind, env_fn=list(classes), **kwargs))
        return envs[-1]

    yield make
    for one in envs:
        one.close(1.0)


def by_env(timesteps):
    return {int(one.env_id): one for one in timesteps}


@BOTH
def test_two_episodes_of_two_envs(made, kind):
    envs = made(kind, episode_num=2)
    assert (envs.env_num, envs.closed, envs.env_states) == (2, True, {0: EnvState.VOID, 1: EnvState.VOID})
    envs.seed(5, dynamic_seed=False)
    envs.launch()
    assert envs.seeds == [[(5, False)], [(6, False)]]
    assert envs.extra == [7, 7]
    assert envs.ready_obs.tolist() == [[0, 1], [0, 1]]
    seen = []
    for _ in range(6):
        first = by_env(envs.step({0: 1, 1: 0}))[0]
        seen.append((*first.obs.tolist(), bool(first.done)))
    assert seen == [(t, resets, t == 3) for resets in (1, 2) for t in (1, 2, 3)]
    assert first.info.TimeLimit_truncated
    assert (envs.done, envs.ready_obs_id, envs.ready_obs.shape) == (True, [], (0,))
    assert envs.env_state_done(1)
    envs.close()
    assert envs.closed
    envs.launch()
    assert envs.ready_obs.tolist() == [[0, 1], [0, 1]]
    with pytest.raises(AssertionError, match="close them first"):
        envs.launch()


@BOTH
def test_a_step_that_fails_is_a_timestep_and_resets_the_env(made, kind):
    envs = made(kind, (Dicts, Dicts))
    envs.launch()
    ended = by_env(envs.step({0: -1, 1: 0}))
    assert (ended[0].obs, ended[0].done, ended[0].info.abnormal) == (None, None, True)
    assert isinstance(ended[0].info.err, ValueError)
    assert envs.ready_obs.a.tolist() == [[0, 2], [1, 1]]


@BOTH
def test_results_one_by_one(made, kind):
    envs = made(kind)
    envs.launch([{"first": 1}, {"first": 2}], block=False)
    assert {envs.recv().proc_id for _ in range(2)} == {0, 1}
    assert envs.ready_obs[:, 0].tolist() == [1, 2]
    assert envs.step({0: 0, 1: 0}, block=False) is None
    replies = [envs.recv() for _ in range(3)]
    assert sorted((one.proc_id, one.method) for one in replies) == [(0, "step"), (1, "reset"), (1, "step")]
    # The reset after the episode got its arguments, too.
    assert envs.ready_obs.tolist() == [[2, 1], [2, 2]]
    envs.reset({0: {"first": 0}})
    assert envs.ready_obs[0].tolist() == [0, 2]
    with pytest.raises(RuntimeError, match="no step or reset is under way"):
        envs.recv()


@pytest.mark.parametrize(("tries", "works"), [(None, False), (2, False), (3, True)])
def test_a_reset_is_tried_so_often(made, tries, works):
    Fails.made = 0
    envs = made(ChildType.THREAD, (Fails,), max_try=tries)
    if works:
        envs.launch()
        assert envs.ready_obs_id == [0]
        return
    with pytest.raises(RuntimeError, match=rf"env 0: .*max_try\({tries or 1}\).*no connection"):
        envs.launch()
    assert envs.closed


def test_a_new_env_is_made_before_the_next_try(made):
    Fails.made = 0
    envs = made(ChildType.THREAD, (Fails,), max_try=9, retry_type="renew")
    assert EnvRetryType("renew") is EnvRetryType.RENEW
    with pytest.raises(RuntimeError, match=r"max_try\(9\)"):
        envs.launch()
    # One for the spaces, and one for each try.
    assert Fails.made == 10


def test_a_step_that_takes_too_long_is_abnormal(made):
    envs = made(ChildType.PROCESS, (Counter,), step_timeout=0.05)
    envs.launch()
    assert envs.step({0: -2}, block=False) is None
    reply = envs.recv(ignore_err=True)
    assert isinstance(reply.err, TimeoutError)
    assert reply.data.info.abnormal
    assert envs.env_states == {0: EnvState.RESET}
    # It does not wait for an env that answers nothing.
    envs.close()
    assert envs.closed


def test_mistakes(made, caplog):
    envs = made(ChildType.THREAD, max_retry=2, wait_num=3)
    assert "ignores the arguments wait_num" in caplog.text
    assert "max_retry" in caplog.text
    for call in (lambda: envs.step({0: 1}), envs.reset):
        with pytest.raises(AssertionError, match="launch them first"):
            call()
    with pytest.raises(AssertionError, match="3 were given for 2 envs"):
        envs.seed([1, 2, 3])
    with pytest.raises(TypeError, match="seed must be"):
        envs.seed("1")
    with pytest.raises(AttributeError, match="'EnvSupervisor' object has no attribute 'nothing'"):
        _ = envs.nothing
    envs.launch()
    with pytest.raises(AssertionError, match="at least one env"):
        envs.step({})
    with pytest.raises(ValueError, match="env_fn must be"):
        EnvSupervisor(env_fn=[])
