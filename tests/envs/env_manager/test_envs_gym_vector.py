"""``GymVectorEnvManager`` over each kind of vector env and each autoreset mode."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from ding.data import EnvBatch
from ding.envs import (
    BaseEnvManager,
    DingEnvWrapper,
    EnvCrashedError,
    EnvDataError,
    EnvResetError,
    EnvStepError,
    EnvTimeoutError,
    GymVectorEnvManager,
)
from ding.envs.testing import CountingEnv, CountingGymEnv
from ding.utils.time_helper import alarm

LENGTHS = (2, 3)


def counting_fns(lengths=LENGTHS, **settings):
    return [partial(CountingGymEnv, episode_length=length, **settings) for length in lengths]


def given(mode, cfg=None, lengths=LENGTHS, **settings):
    """A manager around a vector env that the user made, with this autoreset mode."""
    return GymVectorEnvManager([lambda: SyncVectorEnv(counting_fns(lengths, **settings), autoreset_mode=mode)], cfg)


class Spaces:
    """No env."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def close(self):
        pass


def act(manager):
    return EnvBatch(manager.ready_obs.env_ids, torch.zeros(len(manager.ready_obs), 1, dtype=torch.int64))


@pytest.fixture(params=["built", AutoresetMode.SAME_STEP, AutoresetMode.DISABLED], ids=str)
def make(request):
    if request.param == "built":
        return lambda cfg=None, **settings: GymVectorEnvManager(counting_fns(**settings), cfg)
    return partial(given, request.param)


class TestAtOnce:
    """Modes in which every step is a transition of every env."""

    def test_exact_numbers(self, make):
        manager = make()
        manager.launch()
        assert manager.env_num == 2
        seen = []
        for _ in range(6):
            ready = np.array(manager.ready_obs.columns)
            steps = manager.step(act(manager))
            seen.append((ready.tolist(), steps.obs.tolist(), steps.reward[:, 0].tolist(), steps.done.tolist()))
        assert seen == [
            ([[0, 0], [0, 0]], [[0, 1], [0, 1]], [1, 1], [False, False]),
            ([[0, 1], [0, 1]], [[0, 2], [0, 2]], [2, 2], [True, False]),
            ([[1, 0], [0, 2]], [[1, 1], [0, 3]], [1, 3], [False, True]),
            ([[1, 1], [1, 0]], [[1, 2], [1, 1]], [2, 1], [True, False]),
            ([[2, 0], [1, 1]], [[2, 1], [1, 2]], [1, 2], [False, False]),
            ([[2, 1], [1, 2]], [[2, 2], [1, 3]], [2, 3], [True, True]),
        ]
        manager.close()

    def test_returns_and_infos_of_finished_episodes(self, make):
        manager = make(info_every_step=True)
        manager.launch()
        manager.step(act(manager))
        steps = manager.step(act(manager))
        assert list(steps.infos) == [0]
        assert steps[0].info["eval_episode_return"].tolist() == [3.0]
        assert steps[0].info["action"] == 0
        assert "TimeLimit.truncated" not in steps[0].info
        assert manager.step(act(manager))[1].info["eval_episode_return"].tolist() == [6.0]
        manager.close()

    def test_truncation_is_kept_apart(self, make):
        manager = make(truncate=True)
        manager.launch()
        manager.step(act(manager))
        steps = manager.step(act(manager))
        assert steps.done.tolist() == [True, False]
        assert steps.truncated.tolist() == [True, False]
        assert steps[0].info["TimeLimit.truncated"] is True
        manager.close()

    def test_dict_observations(self, make):
        manager = make(dict_obs=True)
        manager.launch()
        manager.step(act(manager))
        steps = manager.step(act(manager))
        assert steps.obs["count"].tolist() == [[0, 2], [0, 2]]
        assert manager.ready_obs[0]["count"].tolist() == [1, 0]
        manager.close()

    def test_arrays_handed_out_are_not_written_to_later(self, make):
        manager = make()
        manager.launch()
        seen = []
        for _ in range(7):
            obs = manager.ready_obs.columns
            steps = manager.step(act(manager))
            seen.append((obs, obs.copy(), steps.obs, steps.obs.copy()))
        for obs, obs_then, final, final_then in seen:
            np.testing.assert_array_equal(obs, obs_then)
            np.testing.assert_array_equal(final, final_then)
        manager.close()

    def test_episode_num(self, make):
        manager = make({"episode_num": 1})
        manager.launch()
        manager.step(act(manager))
        manager.step(act(manager))
        assert manager.ready_obs_id == [1]
        steps = manager.step(act(manager))
        assert list(steps) == [1]
        assert steps.obs.tolist() == [[0, 3]]
        assert manager.done
        assert len(manager.ready_obs) == 0
        manager.close()


class TestNextStep:
    def test_the_step_that_resets_is_no_transition(self):
        manager = given(AutoresetMode.NEXT_STEP)
        manager.launch()
        seen = []
        for _ in range(6):
            ready = manager.ready_obs.to_dict()
            steps = manager.step(act(manager))
            seen.append(
                (
                    {i: obs.tolist() for i, obs in ready.items()},
                    {i: (step.obs.tolist(), step.reward.tolist(), step.done) for i, step in steps.items()},
                )
            )
        assert seen == [
            ({0: [0, 0], 1: [0, 0]}, {0: ([0, 1], [1], False), 1: ([0, 1], [1], False)}),
            ({0: [0, 1], 1: [0, 1]}, {0: ([0, 2], [2], True), 1: ([0, 2], [2], False)}),
            ({1: [0, 2]}, {1: ([0, 3], [3], True)}),
            ({0: [1, 0]}, {0: ([1, 1], [1], False)}),
            ({0: [1, 1], 1: [1, 0]}, {0: ([1, 2], [2], True), 1: ([1, 1], [1], False)}),
            ({1: [1, 1]}, {1: ([1, 2], [2], False)}),
        ]
        manager.close()

    def test_returns_do_not_count_the_reset_step(self):
        manager = given(AutoresetMode.NEXT_STEP)
        manager.launch()
        returns = []
        for _ in range(12):
            for env_id, step in manager.step(act(manager)).items():
                if step.done:
                    returns.append((env_id, step.info["eval_episode_return"].item()))
        assert set(returns) == {(0, 3.0), (1, 6.0)}
        manager.close()

    def test_all_envs_finished_at_once(self):
        manager = given(AutoresetMode.NEXT_STEP, lengths=(2, 2))
        manager.launch()
        for _ in range(2):
            manager.step(act(manager))
        assert np.asarray(manager.ready_obs.columns).tolist() == [[1, 0], [1, 0]]
        manager.close()


class TestCartPole:
    def build(self, num=4, **manager):
        fns = [partial(DingEnvWrapper, cfg={"env_id": "CartPole-v1"})] * num
        return GymVectorEnvManager(fns, manager)

    def test_vectorised_env_is_used_and_every_step_is_a_transition(self):
        manager = self.build()
        manager.seed(0)
        manager.launch()
        lengths = np.zeros(4)
        finished = 0
        for _ in range(200):
            before = np.array(manager.ready_obs.columns)
            steps = manager.step(act(manager))
            assert list(steps) == [0, 1, 2, 3]
            # A transition moves the cart by at most its speed; the first observation of an episode would not.
            np.testing.assert_allclose(steps.obs[:, 0], before[:, 0] + 0.02 * before[:, 1], rtol=0, atol=1e-6)
            assert (steps.reward == 1.0).all()
            lengths += 1
            for i in np.flatnonzero(steps.done):
                assert steps.infos[i]["eval_episode_return"].item() == lengths[i]
                assert (np.abs(manager.ready_obs.columns[i]) <= 0.05).all()
                lengths[i] = 0
                finished += 1
        assert finished > 40
        manager.close()

    def test_seeds_decide_the_run(self):
        def first(seed):
            manager = self.build()
            manager.seed(seed)
            manager.launch()
            obs = np.array(manager.ready_obs.columns)
            manager.close()
            return obs

        np.testing.assert_array_equal(first(1), first(1))
        assert not np.array_equal(first(1), first([1, 2, 3, 5]))

    def test_sync_mode_seeds_each_env_as_a_single_one(self):
        manager = self.build(2, vectorization_mode="sync")
        manager.seed([11, 22])
        manager.launch()
        for env_id, seed in enumerate((11, 22)):
            single = gymnasium.make("CartPole-v1")
            np.testing.assert_array_equal(manager.ready_obs[env_id], single.reset(seed=seed)[0])
        manager.close()

    def test_static_seeds_repeat_the_episode(self):
        manager = self.build(2, vectorization_mode="sync")
        manager.seed(5, dynamic_seed=False)
        manager.launch()
        first = np.array(manager.ready_obs.columns)
        while not manager.step(act(manager)).done[0]:
            pass
        np.testing.assert_array_equal(manager.ready_obs[0], first[0])
        manager.close()

    def test_pendulum_actions_are_scaled(self):
        cfg = {"env_id": "Pendulum-v1", "act_scale": True}
        manager = GymVectorEnvManager([partial(DingEnvWrapper, cfg=cfg)] * 2)
        manager.seed(0)
        manager.launch()
        steps = manager.step(EnvBatch(np.arange(2), torch.tensor([[0.5], [-1.0]])))
        for env_id, torque in enumerate((1.0, -2.0)):
            single = gymnasium.make("Pendulum-v1")
            single.reset(seed=env_id)
            obs, reward, *_ = single.step(np.array([torque], dtype=np.float32))
            np.testing.assert_allclose(steps[env_id].obs, obs, rtol=1e-6)
            np.testing.assert_allclose(steps[env_id].reward, [reward], rtol=1e-6)
        manager.close()


class TestMistakes:
    def test_every_ready_env_needs_an_action(self):
        manager = GymVectorEnvManager(counting_fns())
        manager.launch()
        with pytest.raises(AssertionError, match=r"missing for \[1\]"):
            manager.step({0: 0})
        manager.close()

    def test_actions_in_another_order(self):
        manager = GymVectorEnvManager(counting_fns())
        manager.launch()
        manager.step({1: 1, 0: 0})
        assert manager.actions == [[0], [1]]
        manager.close()

    def test_unknown_mode_and_impossible_mode(self):
        fns = [partial(DingEnvWrapper, cfg={"env_id": "Acrobot-v1"})]
        with pytest.raises(ValueError, match=r"'asinc' is unknown.*async"):
            GymVectorEnvManager(fns, {"vectorization_mode": "asinc"}).launch()
        with pytest.raises(ValueError, match="Acrobot-v1 has no vectorised form"):
            GymVectorEnvManager(fns, {"vectorization_mode": "vector_entry_point"}).launch()

    def test_what_is_no_env_is_refused_by_name(self):
        with pytest.raises(TypeError, match="not Spaces"):
            GymVectorEnvManager([Spaces]).launch()

    def test_reset_arguments_are_refused(self):
        manager = GymVectorEnvManager(counting_fns())
        with pytest.raises(ValueError, match="no reset arguments"):
            manager.launch({0: {"task": 1}, 1: None})

    def test_replays_are_refused(self):
        with pytest.raises(NotImplementedError, match="manager 'base'"):
            GymVectorEnvManager(counting_fns()).enable_save_replay("x")


class TestFaults:
    def test_a_failing_env(self):
        manager = GymVectorEnvManager(counting_fns(fault={"kind": "raise", "step": 1}))
        manager.launch()
        with pytest.raises(EnvStepError, match="InjectedFault: episode 0, step 1"):
            manager.step(act(manager))
        assert manager.closed

    def test_a_hanging_env(self):
        manager = GymVectorEnvManager(counting_fns(fault={"kind": "hang", "step": 1}), {"step_timeout": 0.1})
        manager.launch()
        with pytest.raises(EnvTimeoutError, match=r"step_timeout=0\.1"):
            manager.step(act(manager))

    @pytest.mark.parametrize(("kind", "text"), [("nan", "NaN in the observation"), ("nan_reward", "NaN in the reward")])
    def test_nan(self, kind, text):
        fns = counting_fns()
        fns[1] = partial(CountingGymEnv, fault={"kind": kind, "step": 1})
        manager = GymVectorEnvManager(fns)
        manager.seed(30)
        manager.launch()
        with pytest.raises(EnvDataError, match=text) as caught:
            manager.step(act(manager))
        assert (caught.value.env_id, caught.value.seed) == (1, 31)

    def test_a_reset_of_some_envs(self):
        manager = GymVectorEnvManager(counting_fns())
        manager.launch()
        manager.step(act(manager))
        manager.reset({1: None})
        assert np.asarray(manager.ready_obs.columns).tolist() == [[0, 1], [1, 0]]
        manager.close()

    def test_close_and_launch_again(self):
        manager = given(AutoresetMode.DISABLED)
        manager.launch()
        manager.close()
        manager.close()
        manager.launch()
        assert len(manager.ready_obs) == 2
        manager.close()


class Odd(CountingGymEnv):
    """Does ``odd`` at its second step, the env with ``at_reset`` at its second reset."""

    def __init__(self, odd, at_reset=False):
        super().__init__(episode_length=2)
        self.odd, self.at_reset = odd, at_reset

    def reset(self, **kwargs):
        returned = super().reset(**kwargs)
        return self.odd(returned) if self.at_reset and self.episode == 1 else returned

    def step(self, action):
        returned = super().step(action)
        return self.odd(returned) if self.t == 2 and not self.at_reset else returned


HANG_S = 30.0


def hang(returned):
    threading.Event().wait(HANG_S)


ODD = {
    "hang": (hang, EnvTimeoutError, "step_timeout=0.5"),
    "killed": (lambda _: os.kill(os.getpid(), signal.SIGKILL), EnvCrashedError, r"Env 1 step.* \(killed by SIGKILL\)"),
    "ended": (lambda _: os._exit(3), EnvCrashedError, r"Env 1 step: its process died \(exit code 3\)"),
    "sys.exit": (lambda _: sys.exit(0), EnvCrashedError, r"Env 1 step: its process died \(exit code 0\)"),
    "shape": (lambda one: (np.zeros(5, np.float32), *one[1:]), EnvDataError, r"Env 1 .*shape \(5,\), expected \(2,\)"),
    "no obs": (lambda one: (None, *one[1:]), EnvDataError, "Env 1 returned bad data: observation None"),
    "info": (
        lambda one: (*one[:4], "text"),
        EnvDataError,
        "Env 1 returned bad data: info of type str, expected a dict",
    ),
    "no tuple": (lambda one: None, EnvStepError, "the vector env raised: TypeError"),
}


@pytest.fixture
def run_odd():
    """Steps a manager over processes, of which the second does something odd; whatever it raises, all of them end."""
    before = set(multiprocessing.active_children())

    def run(odd, at_reset=False, **cfg):
        manager = GymVectorEnvManager(
            [CountingGymEnv, partial(Odd, odd, at_reset)], {"vectorization_mode": "async", **cfg}
        )
        manager.launch()
        start = time.monotonic()
        try:
            for _ in range(4):
                manager.step(act(manager))
        finally:
            manager.close()
            assert time.monotonic() - start < HANG_S / 2
            assert manager.closed
            assert set(multiprocessing.active_children()) <= before

    return run


@pytest.mark.filterwarnings("ignore:.*Received the following error.*", "ignore:.*Shutting it down.*")
@pytest.mark.filterwarnings("ignore:.*Traceback.*", "ignore:.*Raising the last exception.*")
@pytest.mark.parametrize("kind", ODD)
def test_a_fault_of_an_env_in_a_process_ends_all_of_them(run_odd, kind):
    odd, error, text = ODD[kind]
    with pytest.raises(error, match=text):
        run_odd(odd, step_timeout=0.5 if kind == "hang" else None)


def test_processes_that_sigterm_does_not_end_are_not_waited_for(run_odd):
    # A forked process has the handlers of its parent, and a serial run has one for SIGTERM.
    previous = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        with pytest.raises(EnvTimeoutError):
            run_odd(hang, step_timeout=0.5)
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_an_automatic_reset_in_a_process_has_its_limit(run_odd):
    with pytest.raises(EnvTimeoutError, match=r"reset took longer than reset_timeout=0\.5"):
        run_odd(hang, at_reset=True, reset_timeout=0.5)


def test_a_process_that_dies_in_its_automatic_reset(run_odd):
    with pytest.raises(EnvCrashedError, match=r"Env 1 reset: its process died \(exit code 4\)"):
        run_odd(lambda _: os._exit(4), at_reset=True)


def test_an_interrupted_step_is_not_waited_for(run_odd):
    with pytest.raises(KeyboardInterrupt), alarm(0.5, KeyboardInterrupt):
        run_odd(hang)


def test_an_env_that_exits_is_a_failed_step():
    manager = GymVectorEnvManager([partial(Odd, lambda _: sys.exit(0))])
    manager.launch()
    manager.step(act(manager))
    with pytest.raises(EnvStepError, match=r"the vector env raised: SystemExit: 0 \(it called sys\.exit\(0\)\)"):
        manager.step(act(manager))
    assert manager.closed


def test_a_vector_env_that_cannot_close_does_not_hide_the_fault(caplog):
    class Stuck(SyncVectorEnv):
        def close_extras(self, **kwargs):
            raise OSError("no way out")

    manager = GymVectorEnvManager([lambda: Stuck([partial(Odd, hang)])], {"step_timeout": 0.5})
    manager.launch()
    manager.step(act(manager))
    with pytest.raises(EnvTimeoutError):
        manager.step(act(manager))
    assert "closing the vector env failed: OSError('no way out')" in caplog.text


class FailingReset(CountingGymEnv):
    """Its first ``times`` resets raise, of all envs together; ``left`` counts in a file for envs in processes."""

    def __init__(self, left):
        super().__init__()
        self.left = left

    def reset(self, **kwargs):
        left = int(self.left.read_text())
        if left:
            self.left.write_text(str(left - 1))
            raise ConnectionAbortedError("the game server is busy")
        return super().reset(**kwargs)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the log of gymnasium
@pytest.mark.parametrize("retry_type", ["reset", "renew"])
@pytest.mark.parametrize("mode", ["sync", "async"])
class TestRetriedResets:
    def manager(self, tmp_path, mode, retry_type, times, **cfg):
        left = tmp_path / "left"
        left.write_text(str(times))
        cfg = {"vectorization_mode": mode, "retry_type": retry_type, "retry_waiting_time": 0.0, **cfg}
        return GymVectorEnvManager([partial(FailingReset, left), CountingGymEnv], cfg)

    def test_a_reset_that_failed_is_done_again_with_the_same_seeds(self, tmp_path, mode, retry_type):
        manager = self.manager(tmp_path, mode, retry_type, times=1)
        manager.seed(7)
        manager.launch()
        try:
            assert [seeds[-1] for seeds in manager.seeds] == [7, 8]
            assert manager.step(act(manager)).obs.tolist() == [[0, 1], [0, 1]]
        finally:
            manager.close()

    def test_one_that_fails_always_is_an_error(self, tmp_path, mode, retry_type):
        manager = self.manager(tmp_path, mode, retry_type, times=9, max_retry=2)
        with pytest.raises(EnvResetError, match=r"all 3 attempts failed.*the game server is busy"):
            manager.launch()
        assert manager.closed


class TupleActionEnv(CountingGymEnv):
    """Ends its episode with an action outside of its space."""

    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.Tuple(
            [gymnasium.spaces.Discrete(3), gymnasium.spaces.Box(-1, 1, (2,), np.float32)]
        )

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(0)
        return obs, 1.0 + action[0], terminated or not self.action_space.contains(action), truncated, info


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_tuples_of_actions(mode):
    manager = GymVectorEnvManager([TupleActionEnv] * 2, {"vectorization_mode": mode})
    try:
        manager.launch()
        for actions in (
            {0: (1, np.zeros(2, np.float32)), 1: (2, np.ones(2, np.float32))},
            {0: (torch.tensor([1]), torch.zeros(2)), 1: (torch.tensor([2]), torch.ones(2))},
        ):
            steps = manager.step(actions)
            assert steps.reward[:, 0].tolist() == [2.0, 3.0]
            assert not steps.done.any()
    finally:
        manager.close()


class OwnEnv(CountingEnv):
    """Its evaluation counts otherwise than its rewards; what it was called with is in the infos of its ends."""

    def step(self, action):
        timestep = super().step(action)
        if timestep.done:
            timestep.info.update(eval_episode_return=100.0, action=action, seeds=len(self.seeds))
        return timestep


def own_envs():
    return [partial(OwnEnv, {"episode_length": length, "truncate": length == 3}) for length in LENGTHS]


class TestOwnEnvs:
    """Envs that are a ``BaseEnv`` and no env of gymnasium."""

    @pytest.mark.parametrize("mode", [None, "sync", "async"])
    def test_they_do_what_they_do_in_the_base_manager(self, mode):
        managers = [BaseEnvManager(own_envs()), GymVectorEnvManager(own_envs(), {"vectorization_mode": mode})]
        try:
            for manager in managers:
                manager.seed(5)
                manager.launch()
            for _ in range(7):
                assert managers[0].ready_obs == managers[1].ready_obs
                base, vector = (manager.step(act(manager)) for manager in managers)
                for name in ("obs", "reward", "done", "truncated"):
                    np.testing.assert_array_equal(getattr(base, name), getattr(vector, name))
                for position in np.flatnonzero(base.done).tolist():
                    infos = [dict(steps.infos[position]) for steps in (base, vector)]
                    assert infos[0].pop("action").tolist() == infos[1].pop("action").tolist() == [0]
                    assert infos[0] == infos[1]
            assert managers[1].seeds == [[(5, True)], [(6, True)]]
        finally:
            for manager in managers:
                manager.close()

    def test_static_seeds_come_with_each_episode(self):
        manager = GymVectorEnvManager(own_envs())
        manager.seed(5, dynamic_seed=False)
        manager.launch()
        for _ in range(3):
            manager.step(act(manager))
        assert [len(seeds) for seeds in manager.seeds] == [2, 2]
        manager.close()

    def test_rewards_of_several_numbers_are_refused(self):
        class Two(CountingEnv):
            def step(self, action):
                return super().step(action)._replace(reward=np.ones(2, np.float32))

        manager = GymVectorEnvManager([Two])
        manager.launch()
        with pytest.raises(EnvDataError, match=r"reward of shape \(2,\), expected \(1,\) as in env.reward_space"):
            manager.step(act(manager))

    def test_spaces_that_are_known_after_a_reset(self):
        class Lazy(CountingEnv):
            def __init__(self, cfg=None):
                super().__init__(cfg)
                self.later, self.observation_space = self.observation_space, None

            def reset(self, **kwargs):
                self.observation_space = self.later
                return super().reset(**kwargs)

        manager = GymVectorEnvManager([Lazy])
        manager.launch()
        assert manager.step(act(manager)).obs.tolist() == [[1, 1]]
        manager.close()
