"""``BaseEnvManager`` and its v2 interface: data, episodes, seeds and faults, on envs with known numbers."""

import math
import signal
import threading
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch
from ding.envs import (
    BaseEnv,
    BaseEnvManager,
    BaseEnvManagerV2,
    DingEnvWrapper,
    EnvDataError,
    EnvManagerError,
    EnvResetError,
    EnvStepError,
    EnvTimeoutError,
    create_env_manager,
    get_env_manager_cls,
    setup_ding_env_manager,
)
from ding.envs.testing import CountingEnv, CountingGymEnv, InjectedFault


def classic(**cfg):
    return CountingEnv(cfg)


def wrapped(**cfg):
    return DingEnvWrapper(CountingGymEnv(**cfg))


@pytest.fixture(params=[classic, wrapped], ids=["classic", "fast"])
def make(request):
    """The same env through the classic protocol and through the fast one."""

    def build(num=2, manager=None, lengths=None, faults=None, **cfg):
        fns = [
            partial(
                request.param,
                **{**cfg, **({"episode_length": lengths[i]} if lengths else {})},
                **({"fault": faults.get(i)} if faults else {}),
            )
            for i in range(num)
        ]
        return BaseEnvManager(fns, {"retry_waiting_time": 0.0, **(manager or {})})

    return build


def act(manager):
    return {env_id: np.array([0]) for env_id in manager.ready_obs_id}


class TestData:
    def test_ready_obs_and_timesteps_are_columns_of_exact_numbers(self, make):
        manager = make(3)
        manager.launch()
        ready = manager.ready_obs
        assert isinstance(ready, EnvBatch)
        assert list(ready) == [0, 1, 2]
        np.testing.assert_array_equal(ready.columns, np.zeros((3, 2)))
        steps = manager.step(EnvBatch(ready.env_ids, torch.ones(3, 1, dtype=torch.int64)))
        assert isinstance(steps, TimestepBatch)
        assert steps.obs.dtype == np.float32
        assert steps.reward.dtype == np.float32
        np.testing.assert_array_equal(steps.obs, [[0, 1]] * 3)
        np.testing.assert_array_equal(steps.reward, [[1.0]] * 3)
        assert not steps.done.any()
        assert isinstance(steps[1], BaseEnvTimestep)
        assert steps[1].done is False
        assert steps[1].reward.shape == (1,)
        manager.close()

    def test_final_obs_in_the_timestep_and_first_obs_in_ready_obs(self, make):
        manager = make(2, lengths=[2, 3])
        manager.launch()
        manager.step(act(manager))
        steps = manager.step(act(manager))
        np.testing.assert_array_equal(steps.obs, [[0, 2], [0, 2]])
        np.testing.assert_array_equal(steps.done, [True, False])
        assert not steps.truncated.any()
        assert np.asarray(steps[0].info["eval_episode_return"]).item() == 3.0
        assert "TimeLimit.truncated" not in steps[0].info
        np.testing.assert_array_equal(manager.ready_obs.columns, [[1, 0], [0, 2]])
        manager.close()

    def test_truncation_is_kept_apart(self, make):
        manager = make(2, lengths=[1, 2], truncate=True)
        manager.launch()
        steps = manager.step(act(manager))
        np.testing.assert_array_equal(steps.done, [True, False])
        np.testing.assert_array_equal(steps.truncated, [True, False])
        assert steps[0].info["TimeLimit.truncated"] is True
        manager.close()

    def test_arrays_handed_out_are_not_written_to_later(self, make):
        manager = make(2, lengths=[2, 3])
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

    def test_dict_observations_become_nested_columns(self, make):
        manager = make(2, dict_obs=True, lengths=[2, 3])
        manager.launch()
        manager.step(act(manager))
        steps = manager.step(act(manager))
        np.testing.assert_array_equal(steps.obs["count"], [[0, 2], [0, 2]])
        np.testing.assert_array_equal(steps.obs["flag"], [[0], [0]])
        ready = manager.ready_obs
        np.testing.assert_array_equal(ready[0]["count"], [1, 0])
        np.testing.assert_array_equal(ready[1]["count"], [0, 2])
        manager.close()

    def test_stepping_some_envs_leaves_the_others(self, make):
        manager = make(3)
        manager.launch()
        steps = manager.step({2: np.array([0]), 0: np.array([0])})
        assert list(steps) == [2, 0]
        np.testing.assert_array_equal(manager.ready_obs.columns, [[0, 1], [0, 0], [0, 1]])
        manager.step({1: np.array([0])})
        np.testing.assert_array_equal(manager.ready_obs.columns, [[0, 1]] * 3)
        manager.close()

    def test_fast_and_classic_actions(self):
        manager = BaseEnvManager([partial(wrapped, info_every_step=True) for _ in range(2)])
        manager.launch()
        forms = [{0: 1, 1: np.array([0])}, {0: torch.tensor([1]), 1: torch.tensor([0])}, {0: np.int64(1), 1: 0}]
        for actions in forms:
            steps = manager.step(actions)
            taken = [steps[i].info["action"] for i in range(2)]
            assert taken == [1, 0]
            assert all(type(value) is int for value in taken)
        manager.close()

    def test_observations_that_do_not_stack_become_a_list_column(self):
        class Ragged(CountingEnv):
            def __init__(self, size):
                super().__init__({})
                self._size = size
                self.observation_space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(9))

            def reset(self):
                super().reset()
                return np.arange(self._size)

            def step(self, action):
                _, *rest = super().step(action)
                return BaseEnvTimestep(np.arange(self._size), *rest)

        manager = BaseEnvManager([partial(Ragged, 2), partial(Ragged, 3)])
        manager.launch()
        assert [len(obs) for obs in manager.ready_obs.values()] == [2, 3]
        steps = manager.step({0: 0, 1: 0})
        assert isinstance(steps.obs, list)
        assert [len(step.obs) for step in steps.values()] == [2, 3]
        manager.close()

    def test_scalar_rewards_become_a_column(self):
        class Scalar(CountingEnv):
            def step(self, action):
                obs, _, done, info = super().step(action)
                return BaseEnvTimestep(obs, 2.5, done, info)

        manager = BaseEnvManager([Scalar, Scalar])
        manager.launch()
        np.testing.assert_array_equal(manager.step({0: 0, 1: 0}).reward, [[2.5], [2.5]])
        manager.close()


class TestLife:
    def test_states_and_closing(self, make):
        manager = make(2)
        assert manager.closed
        with pytest.raises(AssertionError, match="launch"):
            manager.step({0: 0})
        manager.launch()
        assert not manager.closed
        with pytest.raises(AssertionError, match="closed env manager"):
            manager.launch()
        manager.close()
        manager.close()
        assert manager.closed
        manager.launch()
        assert manager.ready_obs_id == [0, 1]
        manager.close()

    def test_reset_param_must_name_every_env(self, make):
        with pytest.raises(AssertionError, match="1 entries for 2 envs"):
            make(2).launch({0: {}})

    def test_episode_num_ends_each_env(self, make):
        manager = make(2, manager={"episode_num": 2}, lengths=[1, 2])
        manager.launch()
        manager.step(act(manager))
        assert not manager.done
        manager.step(act(manager))
        assert manager.env_state_done(0)
        assert manager.ready_obs_id == [1]
        np.testing.assert_array_equal(manager.ready_obs.columns, [[1, 0]])
        with pytest.raises(AssertionError, match="env 0 cannot be stepped: its state is DONE"):
            manager.step({0: 0})
        manager.step(act(manager))
        manager.step(act(manager))
        assert manager.done
        assert len(manager.ready_obs) == 0
        manager.close()

    def test_without_auto_reset_a_finished_env_waits(self, make):
        manager = make(2, manager={"auto_reset": False}, lengths=[1, 3])
        manager.launch()
        manager.step(act(manager))
        assert manager.ready_obs_id == [1]
        manager.reset({0: None})
        assert manager.ready_obs_id == [0, 1]
        np.testing.assert_array_equal(manager.ready_obs.columns, [[1, 0], [0, 1]])
        manager.close()

    def test_reset_arguments_are_remembered_for_automatic_resets(self):
        manager = BaseEnvManager([partial(classic, episode_length=1)])

        def reset(self, **kwargs):
            self.reset_kwargs.append(kwargs)
            return self.core.reset()[0]

        original, CountingEnv.reset = CountingEnv.reset, reset
        try:
            manager.launch({0: {"task": 7}})
            manager.step({0: 0})
            manager.reset()
        finally:
            CountingEnv.reset = original
        assert manager.reset_kwargs == [[{"task": 7}] * 3]
        manager.close()

    def test_seeds(self):
        manager = BaseEnvManager([classic] * 3)
        manager.seed(10)
        manager.launch()
        manager.reset()
        assert manager.seeds == [[(10, True)], [(11, True)], [(12, True)]]
        manager.seed([5, 6, 7], dynamic_seed=False)
        manager.seed({1: 99})
        manager.reset()
        assert [seeds[-1] for seeds in manager.seeds] == [(5, False), (99, True), (7, False)]
        with pytest.raises(AssertionError, match="2 seeds for 3 envs"):
            manager.seed([1, 2])
        for bad in ("1", None, True, {}, 1.5):
            with pytest.raises(TypeError, match="seed must be"):
                manager.seed(bad)
        with pytest.raises(AssertionError, match=r"unknown envs \[5\]"):
            manager.seed({5: 1})
        with pytest.raises(AssertionError, match="unknown env 3"):
            manager.reset({3: None})
        manager.close()

    def test_the_same_seed_gives_the_same_run(self):
        def run():
            manager = BaseEnvManager([partial(DingEnvWrapper, cfg={"env_id": "CartPole-v1"}) for _ in range(2)])
            manager.seed(3)
            manager.launch()
            rng = np.random.default_rng(0)
            columns = [manager.step({i: int(rng.integers(2)) for i in range(2)}).obs for _ in range(60)]
            manager.close()
            return np.stack(columns)

        np.testing.assert_array_equal(run(), run())

    def test_attribute_access(self, make):
        manager = make(2)
        manager.launch()
        assert manager.observation_space.shape == (2,)
        with pytest.raises(AttributeError, match="no_such_thing"):
            manager.no_such_thing
        with pytest.raises(RuntimeError, match=r"'random_action2|get_wrapper_attr"):
            manager.get_wrapper_attr
        assert len(manager.metadata) == 2
        assert set(manager.random_action()) == {0, 1}
        manager.close()

    def test_config_mistakes(self):
        with pytest.raises(ValueError, match="retry_type must be 'reset' or 'renew', not 'again'"):
            BaseEnvManager([classic], {"retry_type": "again"})
        with pytest.raises(ValueError, match="step_timeout must be above 0"):
            BaseEnvManager([classic], {"step_timeout": -1})
        with pytest.raises(ValueError, match="at least one env"):
            BaseEnvManager([])

    def test_default_config_and_factories(self):
        cfg = BaseEnvManager.default_config()
        assert cfg.episode_num == math.inf
        assert cfg.max_retry == 1
        assert cfg.cfg_type == "BaseEnvManagerDict"
        cfg.max_retry = 5
        assert BaseEnvManager.default_config().max_retry == 1
        asked = {"type": "base", "episode_num": 3}
        manager = create_env_manager(asked, [classic])
        assert type(manager) is BaseEnvManager
        assert asked["type"] == "base"
        assert get_env_manager_cls({"type": "base_v2"}) is BaseEnvManagerV2
        with pytest.raises(KeyError, match="base"):
            create_env_manager({"type": "bas"}, [classic])


class TestFaults:
    def test_a_failing_step_names_env_seed_and_original_traceback(self, make):
        manager = make(2, fault={"kind": "raise", "step": 2})
        manager.seed(40)
        manager.launch()
        manager.step(act(manager))
        with pytest.raises(EnvStepError) as caught:
            manager.step(act(manager))
        error = caught.value
        assert (error.env_id, error.seed) == (0, 40)
        assert "Env 0 step raised: InjectedFault: episode 0, step 2" in str(error)
        assert "in _disturb" in error.original
        assert isinstance(error.__cause__, InjectedFault)
        assert isinstance(error, RuntimeError)
        assert manager.closed

    def test_a_failing_reset_is_tried_again(self, make):
        manager = make(1, manager={"max_retry": 2}, fault={"kind": "raise", "step": 0, "times": 2})
        manager.launch()
        np.testing.assert_array_equal(manager.ready_obs[0], [2, 0])
        manager.close()

    def test_a_reset_that_never_works(self, make):
        manager = make(1, manager={"max_retry": 2}, fault={"kind": "raise", "step": 0})
        manager.seed(7)
        with pytest.raises(
            EnvResetError, match=r"Env 0 could not be reset: all 3 attempts failed, the last with .*InjectedFault"
        ) as caught:
            manager.launch()
        assert caught.value.seed == 7
        assert manager.closed

    def test_renew_builds_and_seeds_a_new_env(self):
        made = []

        def fn():
            fault = {"kind": "raise", "step": 0} if len(made) == 1 else None
            made.append(CountingEnv({"fault": fault}))
            return made[-1]

        manager = BaseEnvManager([fn], {"retry_type": "renew", "retry_waiting_time": 0.0})
        manager.seed(4)
        manager.launch()
        reference, broken, renewed = made
        assert broken.core.closed
        assert manager.core == [renewed.core]
        ((seed, dynamic),) = renewed.seeds
        assert seed != 4
        assert dynamic is True
        manager.close()

    def test_seeds_of_renewed_envs_differ_and_repeat(self):
        def renewals():
            made = []

            def fn():
                made.append(CountingEnv({"fault": {"kind": "raise", "step": 0} if len(made) < 4 else None}))
                return made[-1]

            cfg = {"retry_type": "renew", "retry_waiting_time": 0.0, "max_retry": 3}
            manager = BaseEnvManager([fn], cfg)
            manager.seed(7)
            manager.launch()
            manager.close()
            return [env.seeds[0][0] for env in made[1:]]

        first = renewals()
        assert first == renewals()
        assert first[0] == 7
        assert len(set(first)) == 4

    def test_renew_keeps_a_static_seed(self):
        made = []

        def fn():
            made.append(CountingEnv({"fault": {"kind": "raise", "step": 0} if len(made) == 1 else None}))
            return made[-1]

        manager = BaseEnvManager([fn], {"retry_type": "renew", "retry_waiting_time": 0.0})
        manager.seed(4, dynamic_seed=False)
        manager.launch()
        assert made[2].seeds == [(4, False)]
        manager.close()

    def test_more_than_one_retry_recovers_a_failing_step(self, make):
        manager = make(2, manager={"max_retry": 2}, lengths=[5, 5], fault={"kind": "raise", "step": 2, "times": 1})
        manager.launch()
        manager.step(act(manager))
        steps = manager.step(act(manager))
        assert steps[0].info["abnormal"] is True
        assert "InjectedFault" in steps[0].info["error"]
        assert steps[0].done is False
        np.testing.assert_array_equal(steps[0].obs, [0, 1])
        assert 0 not in manager.ready_obs_id
        with pytest.raises(AssertionError, match="its state is ERROR"):
            manager.step({0: 0})
        manager.reset({0: None})
        np.testing.assert_array_equal(manager.ready_obs[0], [1, 0])
        manager.close()

    def test_an_env_that_reports_itself_abnormal_stays_ready(self, make):
        manager = make(2, abnormal_steps=[1], lengths=[3, 5])
        manager.launch()
        assert manager.step(act(manager))[0].info["abnormal"] is True
        assert manager.ready_obs_id == [0, 1]
        manager.reset({0: None})
        assert [manager.ready_obs[env_id][1] for env_id in (0, 1)] == [0, 1]
        manager.close()

    def test_retry_step_does_a_failing_step_again(self, make):
        settings = {"max_retry": 2, "retry_step": True, "retry_waiting_time": 0.0}
        manager = make(1, manager=settings, lengths=[5], fault={"kind": "raise", "step": 1, "times": 1})
        manager.launch()
        assert "abnormal" not in manager.step(act(manager))[0].info
        manager.close()

    def test_retry_step_raises_in_the_end(self):
        class Broken(CountingEnv):
            tries = 0

            def step(self, action):
                Broken.tries += 1
                raise ArithmeticError("broken")

        manager = BaseEnvManager([Broken], {"max_retry": 3, "retry_step": True, "retry_waiting_time": 0.0})
        manager.launch()
        with pytest.raises(RuntimeError, match="ArithmeticError: broken"):
            manager.step({0: 1})
        assert (Broken.tries, manager.closed) == (3, True)

    @pytest.mark.parametrize(
        ("kind", "text"), [("shape", r"shape \(3,\)"), ("dtype", "complex128"), ("nan", "NaN in the obs")]
    )
    @pytest.mark.parametrize("dict_obs", [False, True])
    def test_bad_observations_are_reported_by_env(self, make, kind, text, dict_obs):
        manager = make(3, dict_obs=dict_obs, faults={1: {"kind": kind, "step": 2}})
        manager.seed(100)
        manager.launch()
        manager.step(act(manager))
        with pytest.raises(EnvDataError, match=text) as caught:
            manager.step(act(manager))
        assert (caught.value.env_id, caught.value.seed) == (1, 101)
        assert manager.closed

    def test_nan_reward(self, make):
        manager = make(2, fault={"kind": "nan_reward", "step": 1})
        manager.launch()
        with pytest.raises(EnvDataError, match="Env 0 returned bad data: NaN in the reward"):
            manager.step(act(manager))

    def test_check_data_can_be_switched_off(self, make):
        manager = make(1, manager={"check_data": False}, fault={"kind": "nan", "step": 1})
        manager.launch()
        assert np.isnan(manager.step(act(manager)).obs).all()
        manager.close()

    def test_infinite_observations_pass(self):
        class Infinite(CountingEnv):
            def step(self, action):
                _, *rest = super().step(action)
                return BaseEnvTimestep(np.array([np.inf, -np.inf], dtype=np.float32), *rest)

        manager = BaseEnvManager([Infinite])
        manager.launch()
        np.testing.assert_array_equal(manager.step({0: 0}).obs, [[np.inf, -np.inf]])
        manager.close()

    def test_a_hanging_step_is_cut_off_and_the_alarm_restored(self, make):
        def handler(signum, frame):
            raise AssertionError("not for us")

        previous = signal.signal(signal.SIGALRM, handler)
        try:
            manager = make(2, manager={"step_timeout": 0.5}, fault={"kind": "hang", "step": 2})
            manager.launch()
            manager.step(act(manager))
            with pytest.raises(EnvTimeoutError, match=r"Env 0 step took longer than step_timeout=0.5 s"):
                manager.step(act(manager))
            assert signal.getsignal(signal.SIGALRM) is handler
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        finally:
            signal.signal(signal.SIGALRM, previous)

    def test_a_hanging_reset_is_tried_again(self, make):
        manager = make(1, manager={"reset_timeout": 0.5}, fault={"kind": "hang", "step": 0, "times": 1})
        manager.launch()
        np.testing.assert_array_equal(manager.ready_obs[0], [1, 0])
        manager.close()

    def test_timeouts_in_another_thread_do_not_break_the_manager(self, make, caplog):
        results = []

        def work():
            manager = make(1, manager={"step_timeout": 5.0})
            manager.launch()
            results.append(manager.step(act(manager)).obs)
            manager.close()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(20)
        np.testing.assert_array_equal(results[0], [[0, 1]])
        assert "no effect outside of the main thread" in caplog.text

    def test_every_error_is_an_env_manager_error(self):
        assert {EnvResetError, EnvStepError, EnvTimeoutError, EnvDataError} <= set(EnvManagerError.__subclasses__())


class TestV2:
    def build(self, num=2, manager=None, **cfg):
        return BaseEnvManagerV2([partial(wrapped, **cfg) for _ in range(num)], manager or {})

    def test_arrays_in_and_trees_out(self):
        manager = self.build(2, episode_length=1, truncate=True)
        manager.launch()
        obs = manager.ready_obs
        np.testing.assert_array_equal(obs, np.zeros((2, 2)))
        steps = manager.step(np.array([[0], [1]]))
        assert [step.env_id.item() for step in steps] == [0, 1]
        np.testing.assert_array_equal(steps[0].obs, [0, 1])
        assert steps[0].done.item() is True
        assert steps[0].info.TimeLimit_truncated is True
        assert float(steps[0].info["eval_episode_return"][0]) == 1.0
        manager.close()

    def test_no_ready_env_gives_an_empty_array(self):
        manager = self.build(1, {"episode_num": 1}, episode_length=1)
        manager.launch()
        manager.step([0])
        assert manager.ready_obs.shape == (0, 2)
        manager.close()

    def test_actions_belong_to_the_envs_that_were_handed_out(self):
        manager = self.build(2, {"auto_reset": False}, episode_length=2, info_every_step=True)
        manager.launch()
        manager.step_batch({0: 0})
        assert manager.ready_obs.shape == (2, 2)
        manager.step_batch({0: 0})
        # Env 0 is over now; the two actions were for envs 0 and 1.
        with pytest.raises(AssertionError, match="env 0 cannot be stepped"):
            manager.step([0, 1])
        manager.ready_obs
        (step,) = manager.step([1])
        assert (step.env_id, step.info.action) == (1, 1)
        manager.close()

    def test_wrong_number_of_actions(self):
        manager = self.build(2)
        manager.launch()
        with pytest.raises(AssertionError, match="3 actions for the 2 envs"):
            manager.step([0, 0, 0])
        manager.close()

    def test_trees_of_dict_observations(self):
        manager = self.build(2, dict_obs=True)
        manager.launch()
        assert manager.ready_obs.count.shape == (2, 2)
        assert manager.step([0, 0])[1].obs.flag.tolist() == [1]
        manager.close()


def test_base_env_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        BaseEnv({})


def test_setup_ding_env_manager_copies_the_env():
    pattern = DingEnvWrapper(CountingGymEnv(episode_length=2))
    manager = setup_ding_env_manager(pattern, 2, debug=True)
    manager.launch()
    manager.step([0, 0])
    assert pattern.reset().tolist() == [0, 0]
    assert manager.ready_obs.tolist() == [[0, 1], [0, 1]]
    manager.close()
    with pytest.raises(ValueError, match="not 'player'"):
        setup_ding_env_manager(pattern, 2, caller="player")


class Broken(CountingEnv):
    """Reports one step as abnormal, with nothing in it or with NaN, in the form that ``missing`` names."""

    def __init__(self, missing):
        super().__init__({"episode_length": 4})
        self.missing = missing

    def step(self, action):
        timestep = super().step(action)
        if (self.core.episode, self.core.t) != (0, 2):
            return timestep
        nan = np.full(2, np.nan, np.float32)
        obs, reward = {"both": (None, None), "reward": (timestep.obs, None), "nan": (nan, nan[:1])}[self.missing]
        return timestep._replace(obs=obs, reward=reward, info={"abnormal": True})


@pytest.mark.parametrize("kind", ["base", "subprocess"])
@pytest.mark.parametrize("missing", ["both", "reward", "nan"])
def test_an_abnormal_step_need_hold_nothing(kind, missing):
    manager = create_env_manager({"type": kind}, [partial(Broken, missing), partial(CountingEnv, {})])
    manager.launch()
    try:
        manager.step(act(manager))
        timesteps = manager.step(act(manager))
        assert timesteps[0].info["abnormal"]
        assert [float(one.reward[0]) for one in timesteps.values()] == [0.0, 2.0]
        assert not np.isnan(np.asarray(timesteps[0].obs)).any()
        manager.reset({0: None})
        assert manager.step(act(manager))[0].obs.tolist() == [1, 1]
    finally:
        manager.close()


class DoubleAtReset(CountingEnv):
    """Its space says float32, its resets return float64."""

    def reset(self, **kwargs):
        obs = super().reset(**kwargs)
        return {**obs, "count": obs["count"].astype(np.float64)} if isinstance(obs, dict) else obs.astype(np.float64)


@pytest.mark.parametrize("dict_obs", [False, True])
def test_observations_have_the_dtype_that_their_space_declares(dict_obs):
    cfg = {"episode_length": 2, "dict_obs": dict_obs}
    manager = BaseEnvManager([partial(DoubleAtReset, cfg), partial(CountingEnv, cfg)], {})
    manager.launch()
    for _ in range(5):
        columns = manager.ready_obs.columns
        assert (columns["count"] if dict_obs else columns).dtype == np.float32
        manager.step(act(manager))
    manager.close()


def test_the_env_of_the_spaces_has_the_name_of_di_engine():
    manager = BaseEnvManager([lambda: DingEnvWrapper(cfg={"env_id": "CartPole-v1"})], BaseEnvManager.default_config())
    # A script reads it, whatever its underscore says.
    assert getattr(manager, "_env" + "_ref") is manager.env_ref
