"""Envs that call ``sys.exit``, report themselves abnormal or change their dtype: the same in each kind of manager."""

import os
import signal
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest

from ding.envs import BaseEnvManager, EnvManagerError, EnvResetError, EnvStepError, create_env_manager
from ding.envs.testing import CountingEnv

MANAGERS = {
    "base": {"type": "base"},
    "subprocess": {"type": "subprocess"},
    "without shared memory": {"type": "subprocess", "shared_memory": False},
    "async": {"type": "async_subprocess", "wait_num": 2, "step_wait_timeout": None},
}


@pytest.fixture(params=MANAGERS)
def make(request):
    managers = []

    def build(fns, **cfg):
        manager = create_env_manager({**MANAGERS[request.param], "retry_waiting_time": 0.0, **cfg}, fns)
        managers.append(manager)
        return manager

    yield build
    for manager in managers:
        manager.close()


def act(manager):
    return {env_id: np.array([0]) for env_id in manager.ready_obs_id}


def play(manager):
    """Launch, and do two steps."""
    manager.launch()
    manager.step(act(manager))
    return manager.step(act(manager))


def second_episode(manager):
    """Launch, and begin the second episode of all envs, for which an asynchronous manager waits, too."""
    manager.launch()
    manager.step(act(manager))
    manager.reset()


class Does(CountingEnv):
    """Calls ``function`` in place of the call ``name``, once, or in its second step once."""

    def __init__(self, name, function, cfg=None):
        super().__init__(cfg)
        self.name, self.function, self.left = name, function, 1

    def _strike(self, name):
        if self.name == name and self.left:
            self.left -= 1
            self.function()

    def step(self, action):
        if self.core.t == 1:
            self._strike("step")
        return super().step(action)

    def reset(self, **kwargs):
        self._strike("reset")
        return super().reset(**kwargs)

    def close(self):
        self._strike("close")
        super().close()


def leave():
    sys.exit(0)


class TestExit:
    def test_it_is_a_failed_step(self, make):
        manager = make([partial(Does, "step", leave), CountingEnv])
        manager.launch()
        manager.step(act(manager))
        with pytest.raises(EnvStepError, match=r"SystemExit: 0 \(it called sys\.exit\(0\)\)") as caught:
            manager.step(act(manager))
        assert caught.value.env_id == 0
        assert "in leave" in caught.value.original
        assert manager.closed

    @pytest.mark.parametrize("cfg", [{"on_env_failure": "restart"}, {"max_retry": 2}], ids=str)
    def test_it_is_recovered_like_other_failures(self, make, cfg):
        manager = make([partial(Does, "step", leave), CountingEnv], **cfg)
        manager.launch()
        manager.step(act(manager))
        steps = manager.step(act(manager))
        assert steps[0].info["abnormal"] is True
        assert "SystemExit" in steps[0].info["error"]
        np.testing.assert_array_equal(steps.obs, [[0, 1], [0, 2]])
        np.testing.assert_array_equal(steps.reward, [[0], [2]])
        manager.reset({0: None})
        assert manager.ready_obs[0][1] == 0

    def test_a_step_is_done_again_where_that_is_asked_for(self, make):
        manager = make([partial(Does, "step", leave)], retry_step=True, max_retry=2)
        manager.launch()
        manager.step(act(manager))
        assert manager.step(act(manager)).obs.tolist() == [[0, 2]]

    def test_a_reset_is_tried_again(self, make):
        manager = make([partial(Does, "reset", leave)])
        manager.launch()
        assert manager.ready_obs_id == [0]

    def test_a_reset_that_never_works(self, make):
        manager = make([partial(Does, "reset", leave)], max_retry=0)
        with pytest.raises(EnvResetError, match="SystemExit: 0"):
            manager.launch()
        assert manager.closed

    def test_an_env_that_cannot_be_built(self, make):
        def build():
            return leave() if built else built.append(1) or CountingEnv()

        built = []
        manager = make([build])
        with pytest.raises(EnvManagerError, match="Env 0 could not be built: SystemExit: 0"):
            manager.launch()

    def test_the_first_env_that_cannot_be_built(self):
        with pytest.raises(EnvManagerError, match="Env 0 could not be built: SystemExit: 0"):
            BaseEnvManager([leave])

    def test_closing_goes_on(self):
        manager = BaseEnvManager([partial(Does, "close", leave), CountingEnv])
        manager.launch()
        cores = manager.core
        manager.close()
        assert cores[1].closed

    @pytest.mark.parametrize("wish", [KeyboardInterrupt, GeneratorExit])
    def test_other_wishes_pass(self, wish):
        def stop():
            raise wish

        manager = BaseEnvManager([partial(Does, "step", stop)], {"on_env_failure": "restart"})
        manager.launch()
        manager.step(act(manager))
        with pytest.raises(wish):
            manager.step(act(manager))
        manager.close()

    @pytest.mark.parametrize("name", ["step", "reset"])
    def test_an_exit_of_a_signal_handler_is_no_fault_of_the_env(self, name):
        previous = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
        manager = BaseEnvManager(
            [partial(Does, name, lambda: os.kill(os.getpid(), signal.SIGTERM))], {"on_env_failure": "restart"}
        )
        try:
            with pytest.raises(SystemExit, match="143"):
                play(manager)
        finally:
            signal.signal(signal.SIGTERM, previous)
            manager.close()


class Abnormal(CountingEnv):
    """Reports step ``at`` of its second episode as abnormal."""

    def __init__(self, at, obs, reward, cfg=None):
        super().__init__(cfg)
        self.at, self.broken = at, {"obs": obs, "reward": reward}

    def step(self, action):
        timestep = super().step(action)
        if (self.core.episode, self.core.t) != (1, self.at):
            return timestep
        return timestep._replace(**self.broken, info={"abnormal": True})


NAN = np.full(2, np.nan, np.float32)


class TestAbnormal:
    @pytest.mark.parametrize("at", [1, 2])
    @pytest.mark.parametrize(
        ("obs", "reward"), [(None, None), (NAN, NAN[:1]), (None, float("nan"))], ids=["none", "nan", "scalar"]
    )
    def test_the_observation_before_it_and_no_reward(self, make, at, obs, reward):
        manager = make([partial(Abnormal, at, obs, reward), CountingEnv])
        second_episode(manager)
        for _ in range(at):
            steps = manager.step(act(manager))
        assert steps[0].info["abnormal"]
        np.testing.assert_array_equal(steps.obs, [[1, at - 1], [1, at]])
        assert steps.obs.dtype == np.float32
        np.testing.assert_array_equal(steps.reward, [[0], [at]])
        manager.reset({0: None})
        assert manager.ready_obs[0][1] == 0
        assert manager.step(act(manager))[0].obs[1] == 1

    def test_dict_observations(self, make):
        fns = [partial(Abnormal, 1, None, None, {"dict_obs": True}), partial(CountingEnv, {"dict_obs": True})]
        manager = make(fns)
        second_episode(manager)
        steps = manager.step(act(manager))
        np.testing.assert_array_equal(steps.obs["count"], [[1, 0], [1, 1]])
        np.testing.assert_array_equal(steps.obs["flag"], [[0], [1]])

    def test_what_is_sound_stays(self, make):
        manager = make([partial(Abnormal, 1, np.array([7, 7], np.float32), np.array([3], np.float32))])
        second_episode(manager)
        steps = manager.step(act(manager))
        assert (steps.obs.tolist(), steps.reward.tolist()) == ([[7, 7]], [[3]])


class AbnormalEnd(CountingEnv):
    """The end of its first episode is abnormal."""

    def __init__(self):
        super().__init__({"episode_length": 2})

    def step(self, action):
        timestep = super().step(action)
        if timestep.done and self.core.episode == 0:
            timestep.info["abnormal"] = True
        return timestep


class TestAbnormalEnd:
    def test_it_is_no_episode_and_the_env_waits_for_a_reset(self, make):
        manager = make([AbnormalEnd, partial(CountingEnv, {"episode_length": 9})], episode_num=1)
        end = play(manager)[0]
        assert (end.done, end.info["abnormal"]) == (True, True)
        assert manager.ready_obs_id == [1]
        assert not manager.env_state_done(0)
        with pytest.raises(AssertionError, match="its state is ERROR"):
            manager.step({0: np.array([0])})
        manager.reset({0: None})
        np.testing.assert_array_equal(manager.ready_obs[0], [1, 0])
        manager.step(act(manager))
        assert manager.step(act(manager))[0].done
        assert manager.env_state_done(0)


class DoubleReward(CountingEnv):
    """Pays float64, an array or a number."""

    def __init__(self, as_number):
        super().__init__()
        self.as_number = as_number

    def step(self, action):
        timestep = super().step(action)
        reward = timestep.reward.astype(np.float64)
        return timestep._replace(reward=reward[0] if self.as_number else reward)


@pytest.mark.parametrize("as_number", [False, True])
def test_rewards_are_float32_in_batches_and_as_given_in_timesteps(make, as_number):
    steps = play(make([partial(DoubleReward, as_number)] * 2))
    assert (steps.reward.dtype, steps.reward.tolist()) == (np.float32, [[2.0], [2.0]])
    reward = steps[1].reward
    assert (reward.dtype, reward.shape, reward.tolist()) == (np.float64, *(((), 2.0) if as_number else ((1,), [2.0])))


def test_what_numpy_no_longer_converts_comes_with_what_to_write(make):
    class Careless(CountingEnv):
        def step(self, action):
            if np.shape(action):
                # What numpy 2.4 and later say of int(action).
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
            return super().step(action)

    manager = make([Careless])
    manager.launch()
    with pytest.raises(EnvStepError, match=r"Python scalars \(.*write action\.item\(\) instead of int\(action\)"):
        manager.step(act(manager))


class PlainReward(Does):
    """Its rewards are numbers."""

    def step(self, action):
        timestep = super().step(action)
        return timestep._replace(reward=float(timestep.reward[0]))


def test_a_failed_step_among_rewards_that_are_numbers(make):
    manager = make([partial(PlainReward, "step", leave), partial(PlainReward, "", leave)], max_retry=2)
    assert play(manager).reward.tolist() == [[0], [2]]


class Doubles(CountingEnv):
    """Returns float64 at the resets and in the steps that are named, where its space declares float32."""

    def __init__(self, steps, cfg=None, space=None):
        super().__init__(cfg)
        self.steps = steps
        self.observation_space = space or self.observation_space

    def _form(self, obs):
        if self.core.t not in self.steps:
            return obs
        return {**obs, "count": obs["count"].astype(np.float64)} if isinstance(obs, dict) else obs.astype(np.float64)

    def reset(self, **kwargs):
        return self._form(super().reset(**kwargs))

    def step(self, action):
        timestep = super().step(action)
        return timestep._replace(obs=self._form(timestep.obs))


class TestDtypes:
    @pytest.mark.parametrize("dict_obs", [False, True])
    @pytest.mark.parametrize("steps", [(0,), (1, 2), (0, 1, 2)], ids=["resets", "steps", "always"])
    def test_that_of_the_space(self, make, steps, dict_obs):
        cfg = {"dict_obs": dict_obs}
        manager = make([partial(Doubles, steps, cfg), partial(CountingEnv, cfg)])
        manager.launch()
        for episode in range(2):
            for t in range(1, 4):
                ready, obs = manager.ready_obs.columns, manager.step(act(manager)).obs
                for columns in (ready, obs):
                    assert (columns["count"] if dict_obs else columns).dtype == np.float32
                np.testing.assert_array_equal(obs["count"] if dict_obs else obs, [[episode, t]] * 2)
            manager.reset()

    def test_ints_of_a_space_of_floats(self, make):
        class Ints(CountingEnv):
            def reset(self, **kwargs):
                return super().reset(**kwargs).astype(np.int64)

        manager = make([Ints])
        manager.launch()
        assert manager.ready_obs.columns.dtype == np.float32
        assert manager.step(act(manager)).obs.dtype == np.float32

    def test_floats_of_a_space_of_ints_stay(self, make):
        space = gymnasium.spaces.Box(0, 9, (2,), np.uint8)
        manager = make([partial(Doubles, (), space=space)] * 2)
        manager.launch()
        assert manager.ready_obs.columns.dtype == np.float32
        assert manager.step(act(manager)).obs.dtype == np.float32
