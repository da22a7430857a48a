"""Every fault of an env is raised in the parent, within its time, and leaves no process."""

import os
import signal
import time

import numpy as np
import pytest

from ding.data import BaseEnvTimestep
from ding.envs.env_manager import (
    AsyncSubprocessEnvManager,
    EnvCrashedError,
    EnvDataError,
    EnvManagerError,
    EnvResetError,
    EnvStepError,
    EnvTimeoutError,
    SyncSubprocessEnvManager,
)
from ding.envs.testing import CountingEnv

ONE = np.array([1])
BOTH = {0: ONE, 1: ONE}


class OddEnv(CountingEnv):
    """Does ``cfg['odd']`` at its second step."""

    def __init__(self, cfg=None):
        super().__init__(cfg)
        self.odd = cfg["odd"]

    def step(self, action):
        timestep = super().step(action)
        return self.odd(timestep) if self.core.t == 2 else timestep


def fail_exit(timestep):
    raise SystemExit(3)


def fail_abort(timestep):
    os.abort()


def fail_kill(timestep):
    os.kill(os.getpid(), signal.SIGKILL)


def bad_reward(timestep):
    return BaseEnvTimestep(timestep.obs, np.zeros(3, np.float32), timestep.done, timestep.info)


def bad_obs(timestep):
    return BaseEnvTimestep("nothing", timestep.reward, timestep.done, timestep.info)


def bad_info(timestep):
    return BaseEnvTimestep(timestep.obs, timestep.reward, timestep.done, {"function": lambda: None})


def no_timestep(timestep):
    return 7


def odd(function):
    return lambda: OddEnv({"odd": function})


def counting(fault=None, **cfg):
    return lambda: CountingEnv({"episode_length": 4, "fault": fault, **cfg})


@pytest.fixture
def make():
    managers = []

    def build(fns, cls=SyncSubprocessEnvManager, **cfg):
        manager = cls(fns, {"retry_waiting_time": 0.01, **cfg})
        manager.seed(10)
        managers.append(manager)
        return manager

    yield build
    for manager in managers:
        manager.close()


def pids(manager):
    return manager.worker_pids


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def play(manager):
    """Step until a fault ends it."""
    for _ in range(1000):
        manager.step(dict.fromkeys(manager.ready_obs, ONE))


def assert_closed(manager, processes):
    assert manager.closed
    assert not any(map(is_running, processes))


FAULTS = {
    "raise": (counting({"kind": "raise", "step": 2}), EnvStepError, "InjectedFault: episode 0, step 2"),
    "exit": (odd(fail_exit), EnvStepError, "SystemExit: 3"),
    "kill": (odd(fail_kill), EnvCrashedError, "killed by SIGKILL"),
    "abort": (odd(fail_abort), EnvCrashedError, "killed by SIGABRT"),
    "shape": (counting({"kind": "shape", "step": 2}), EnvDataError, r"shape \(3,\), expected \(2,\)"),
    "dtype": (counting({"kind": "dtype", "step": 2}), EnvDataError, "dtype complex128, expected float32"),
    "nan": (counting({"kind": "nan", "step": 2}), EnvDataError, "NaN in the observation"),
    "nan reward": (counting({"kind": "nan_reward", "step": 2}), EnvDataError, "NaN in the reward"),
    "reward": (odd(bad_reward), EnvDataError, r"reward of shape \(3,\), expected \(1,\)"),
    "obs": (odd(bad_obs), EnvDataError, "str"),
    "info": (odd(bad_info), EnvStepError, "pickle"),
    "no timestep": (odd(no_timestep), EnvStepError, "TypeError"),
}


@pytest.mark.parametrize("cls", [SyncSubprocessEnvManager, AsyncSubprocessEnvManager])
@pytest.mark.parametrize("name", FAULTS)
def test_a_failing_step_is_reported_with_env_and_seed(make, name, cls):
    fn, error, text = FAULTS[name]
    manager = make([counting(), fn], cls, **({"wait_num": 2} if cls is AsyncSubprocessEnvManager else {}))
    manager.launch()
    processes = pids(manager)
    with pytest.raises(error, match=text) as caught:
        play(manager)
    assert type(caught.value) is error
    assert caught.value.env_id == 1
    assert caught.value.seed == 11
    assert_closed(manager, processes)


def test_the_traceback_of_the_env_is_reported(make):
    manager = make([counting({"kind": "raise", "step": 1})])
    manager.launch()
    with pytest.raises(EnvStepError) as caught:
        manager.step({0: ONE})
    assert 'raise InjectedFault(f"episode' in str(caught.value)
    assert "_disturb" in caught.value.original


def test_the_stack_of_a_dead_env_is_reported(make):
    manager = make([odd(fail_abort)])
    manager.launch()
    manager.step({0: ONE})
    with pytest.raises(EnvCrashedError) as caught:
        manager.step({0: ONE})
    assert "in fail_abort" in caught.value.original


@pytest.mark.parametrize("cls", [SyncSubprocessEnvManager, AsyncSubprocessEnvManager])
def test_a_hanging_step_is_reported_in_time_with_its_stack(make, cls):
    manager = make([counting(), counting({"kind": "hang", "step": 1})], cls, step_timeout=1.0)
    manager.launch()
    processes = pids(manager)
    with pytest.raises(EnvTimeoutError, match=r"no answer to step within 1\.0 s") as caught:
        # The other one is left alone: on a busy machine it might be late, too.
        manager.step({1: ONE})
    assert caught.value.env_id == 1
    assert "in _disturb" in caught.value.original
    assert_closed(manager, processes)


def test_a_hang_that_ends_in_time_is_none(make):
    manager = make([counting({"kind": "hang", "step": 1, "hang_s": 0.05})], step_timeout=30)
    manager.launch()
    assert manager.step({0: ONE}).obs.tolist() == [[0, 1]]


def test_a_late_caller_does_not_make_an_env_late(make):
    manager = make([counting()] * 2, AsyncSubprocessEnvManager, wait_num=1, step_wait_timeout=0.0, step_timeout=1.0)
    manager.launch()
    manager.step(BOTH)
    deadline = time.monotonic() + 1.1
    while time.monotonic() < deadline:
        sum(range(1000))
    manager.reset()
    assert manager.ready_obs_id == [0, 1]


@pytest.mark.parametrize("kind", ["raise", "kill", "shape"])
@pytest.mark.parametrize("retry_type", ["reset", "renew"])
def test_a_reset_is_tried_again(make, kind, retry_type):
    # A killed process forgets that the fault struck: only its second episode is bad then, once per process.
    episode = 1 if kind == "kill" or retry_type == "renew" else None
    fault = {"kind": kind, "step": 0, "times": 1, "episode": episode if kind != "shape" else 1}
    manager = make([counting(), counting(fault, episode_length=2)], retry_type=retry_type, max_retry=2)
    manager.launch()
    for _ in range(2):
        manager.step(BOTH)
    assert manager.ready_obs_id == [0, 1]
    assert manager.ready_obs[1][1] == 0
    assert manager.step(BOTH)[1].obs[1] == 1


def test_a_renewed_env_gets_a_seed_of_its_own(make):
    fault = {"kind": "raise", "step": 0, "episode": 1}
    manager = make([counting(fault, episode_length=1)] * 2, retry_type="renew", max_retry=1)
    manager.launch()
    manager.step(BOTH)
    seeds = manager.seeds
    assert [len(s) for s in seeds] == [1, 1]
    assert seeds[0] != seeds[1]
    assert seeds[0][0][0] not in (10, 11)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"kind": "raise", "step": 0}, "InjectedFault: episode 2, step 0"),
        ({"kind": "kill", "step": 0}, "killed by SIGKILL"),
        ({"kind": "hang", "step": 0}, "no answer to reset within 0.2 s"),
    ],
    ids=["raise", "kill", "hang"],
)
def test_a_reset_that_never_works_is_reported(make, fault, text):
    manager = make([counting(), counting(fault)], max_retry=2, reset_timeout=0.2)
    with pytest.raises(
        EnvResetError, match=r"Env 1 could not be reset: all 3 attempts failed, the last with .*" + text
    ) as caught:
        manager.launch()
    assert caught.value.env_id == 1
    # A new process gets a new seed; what is reported is the one that the env last got.
    assert (caught.value.seed == 11) == (fault["kind"] == "raise")
    assert manager.closed


def test_an_env_that_cannot_be_built_is_reported(make):
    def broken():
        if os.getpid() == parent:
            return CountingEnv({})
        raise KeyError("no such game")

    parent = os.getpid()
    manager = make([broken] * 2)
    with pytest.raises(EnvManagerError, match=r"Env [01] could not be built: KeyError: 'no such game'") as caught:
        manager.launch()
    assert "in broken" in caught.value.original
    assert manager.closed


def test_an_env_that_is_built_too_slowly_is_reported(make):
    def slow():
        if os.getpid() != parent:
            signal.pause()
        return CountingEnv({})

    parent = os.getpid()
    with pytest.raises(EnvManagerError, match=r"no answer to build within 0\.3 s") as caught:
        make([slow], connect_timeout=0.3).launch()
    assert "in slow" in caught.value.original


class SlowResetEnv(CountingEnv):
    """Takes ``cfg['seconds'][n]`` for its reset n, those beyond none."""

    def __init__(self, cfg):
        super().__init__({"episode_length": 2})
        self.seconds = list(cfg["seconds"])

    def reset(self):
        time.sleep(self.seconds.pop(0) if self.seconds else 0.0)
        return super().reset()


@pytest.mark.parametrize("cls", [SyncSubprocessEnvManager, AsyncSubprocessEnvManager])
def test_connect_timeout_ends_a_first_reset_that_hangs(make, cls):
    manager = make([counting(), lambda: SlowResetEnv({"seconds": [600.0]})], cls, connect_timeout=0.4, max_retry=0)
    start = time.monotonic()
    with pytest.raises(EnvResetError, match=r"Env 1 .*to reset within 0\.4 s \(env.*connect_timeout\)") as caught:
        manager.launch()
    assert time.monotonic() - start < 20.0
    assert "in reset" in caught.value.original
    assert manager.closed


def test_a_first_reset_may_take_as_long_as_reset_timeout(make):
    manager = make([lambda: SlowResetEnv({"seconds": [1.0]})], connect_timeout=0.4, reset_timeout=60.0)
    manager.launch()
    assert list(manager.ready_obs) == [0]


def test_a_warning_names_a_later_reset_without_a_limit(make, caplog):
    manager = make([lambda: SlowResetEnv({"seconds": [0.0, 1.5]}), counting()], connect_timeout=0.5)
    manager.launch()
    for _ in range(2):
        steps = manager.step({0: ONE, 1: ONE})
    assert steps[0].done
    assert list(manager.ready_obs) == [0, 1]
    warnings = [record.getMessage() for record in caplog.records if "no answer to reset" in record.getMessage()]
    assert warnings[0].startswith("env 0 ")
    assert "env.manager.reset_timeout sets a limit" in warnings[0]


def test_a_function_that_cannot_be_pickled_is_reported(make):
    import threading

    lock = threading.Lock()
    manager = make([lambda: (lock, CountingEnv({}))[1]], context="spawn")
    with pytest.raises(TypeError, match="pickle"):
        manager.launch()
    assert manager.closed


@pytest.mark.parametrize("kind", ["raise", "kill", "hang"])
def test_a_failing_step_is_recovered_with_more_retries(make, kind):
    fault = {"kind": kind, "step": 2, "episode": 0, "times": 1}
    manager = make([counting(), counting(fault)], max_retry=2, step_timeout=1.0 if kind == "hang" else None)
    manager.launch()
    manager.step(BOTH)
    step = manager.step(BOTH)[1]
    assert step.info["abnormal"] is True
    assert step.info["error"]
    assert (step.obs.tolist(), step.reward.tolist(), step.done) == ([0, 1], [0], False)
    assert manager.ready_obs_id == [0]
    with pytest.raises(AssertionError, match="its state is ERROR"):
        manager.step({1: ONE})
    manager.reset({1: None})
    assert manager.ready_obs_id == [0, 1]
    assert manager.step(BOTH)[1].obs[1] == 1


def test_too_many_failing_steps_are_reported(make):
    manager = make([counting({"kind": "raise", "step": 1})], max_retry=2)
    manager.launch()
    for _ in range(2):
        assert manager.step({0: ONE})[0].info["abnormal"]
        manager.reset({0: None})
    with pytest.raises(EnvStepError):
        manager.step({0: ONE})


def test_an_abnormal_step_waits_for_a_reset(make):
    manager = make([counting(abnormal_steps=[2], episode_length=2)] * 2, episode_num=2)
    manager.launch()
    manager.step(BOTH)
    assert manager.step({0: ONE})[0].info["abnormal"]
    assert not manager.env_state_done(0)
    assert manager.ready_obs_id == [1]
    manager.reset({0: None})
    assert manager.ready_obs_id == [0, 1]


@pytest.mark.parametrize("max_retry", [1, 2])
def test_a_process_that_dies_between_two_steps(make, max_retry):
    manager = make([counting()] * 2, max_retry=max_retry)
    manager.launch()
    manager.step(BOTH)
    os.kill(pids(manager)[1], signal.SIGKILL)
    if max_retry == 1:
        with pytest.raises(EnvCrashedError, match="killed by SIGKILL"):
            manager.step(BOTH)
        return
    assert manager.step(BOTH)[1].info["abnormal"]
    manager.reset({1: None})
    assert manager.step(BOTH).obs.tolist() == [[0, 3], [0, 1]]


def test_a_death_takes_the_envs_of_the_same_process_with_it(make):
    fns = [counting(), odd(fail_kill), counting()]
    manager = make(fns, max_retry=2, envs_per_worker=2)
    manager.launch()
    manager.step({0: ONE, 1: ONE, 2: ONE})
    step = manager.step({1: ONE, 2: ONE})
    assert step[1].info["abnormal"]
    assert step[2].obs.tolist() == [0, 2]
    # Env 0 was not stepped, but its episode is gone.
    assert manager.step({0: ONE})[0].info["abnormal"]
    manager.reset({0: None, 1: None})
    assert manager.step({0: ONE, 1: ONE, 2: ONE}).obs.tolist() == [[0, 1], [0, 1], [0, 3]]


def test_envs_of_one_process_are_timed_one_by_one(make):
    # All together take longer than one may.
    slow = {"kind": "hang", "step": 1, "hang_s": 0.6}
    manager = make([counting(slow)] * 3, envs_per_worker=3, step_timeout=1.7)
    manager.launch()
    assert manager.step({0: ONE, 1: ONE, 2: ONE}).obs.tolist() == [[0, 1]] * 3


def test_timesteps_without_shared_memory_are_checked_for_nan(make):
    manager = make([counting({"kind": "nan", "step": 1})], shared_memory=False)
    manager.launch()
    with pytest.raises(EnvDataError, match="NaN"):
        manager.step({0: ONE})


def test_nan_passes_when_asked_for(make):
    manager = make([counting({"kind": "nan", "step": 1})], check_data=False)
    manager.launch()
    assert np.isnan(manager.step({0: ONE}).obs).all()


def test_the_timestep_type_is_the_public_one(make):
    manager = make([counting()])
    manager.launch()
    assert isinstance(manager.step({0: ONE})[0], BaseEnvTimestep)
