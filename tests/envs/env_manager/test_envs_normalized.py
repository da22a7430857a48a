"""``obs_norm`` and ``reward_norm`` in a run: one set of statistics, whatever the manager."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium import spaces

from ding.envs import (
    AsyncSubprocessEnvManager,
    BaseEnv,
    BaseEnvManager,
    BaseEnvManagerV2,
    BaseEnvTimestep,
    DingEnvWrapper,
    EvalEpisodeReturnWrapper,
    FrameStackWrapper,
    GymVectorEnvManager,
    ObsNormWrapper,
    RewardNormWrapper,
    SubprocessEnvManagerV2,
    SyncSubprocessEnvManager,
)
from ding.envs.env.base_env import EnvConfigError
from ding.framework import OnlineRLContext, task
from ding.framework.middleware import StepCollector, eps_greedy_handler
from ding.policy import DQNPolicy
from ding.rl_utils.normalization import Normalization
from ding.rollout import v1_interface
from ding.utils import deep_merge_dicts

OBS_NORM, REWARD_NORM = {"type": "obs_norm"}, {"type": "reward_norm", "kwargs": {"reward_discount": 0.9}}
STACK = partial(FrameStackWrapper, n_frames=2)
LENGTH = 5


class Stairs(gymnasium.Env):
    """Observation ``(1000 * number + t, t)``, reward ``number + t``; an episode has ``5 + number`` steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def _obs(self):
        return np.array([1000 * self.number + self.t, self.t], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        return self._obs(), float(self.number + self.t), self.t >= LENGTH + self.number, False, {}

    def get_state(self):
        return self.t

    def set_state(self, state):
        self.t = state


def make_env(number: int, wrappers=(OBS_NORM, REWARD_NORM), **cfg) -> DingEnvWrapper:
    return DingEnvWrapper(Stairs(number), {"env_wrapper": [*wrappers, {"type": "eval_episode_return"}], **cfg})


def view_of(cls=BaseEnvManager, reads_only=False, statistics=None, **kwargs):
    manager = cls([partial(make_env, number, **kwargs) for number in range(3)], cls.default_config())
    view = v1_interface(manager)
    statistics = statistics or Normalization()
    view.use(statistics, reads_only)
    view.launch()
    return view, statistics


def play(view, num_steps: int = 12):
    seen = [np.asarray(view.ready_obs.columns)]
    rewards, returns = [], []
    for _ in range(num_steps):
        ids = view.ready_obs.env_ids
        timesteps = view.step({int(env_id): 1 for env_id in ids})
        rewards.append(np.array(timesteps.reward))
        returns += [float(np.asarray(info["eval_episode_return"]).item()) for info in timesteps.infos.values()]
        seen.append(np.asarray(view.ready_obs.columns))
    return np.array(seen), np.array(rewards), returns


def raw_of(num_steps: int = 12):
    """All observations in the order in which they come, and the discounted returns."""
    envs = [Stairs(number) for number in range(3)]
    batches = [np.array([env.reset()[0] for env in envs])]
    returns, gamma_returns = np.zeros(3), []
    for _ in range(num_steps):
        steps = [env.step(1) for env in envs]
        batches.append(np.array([step[0] for step in steps]))
        returns = returns * 0.9 + np.array([step[1] for step in steps])
        gamma_returns.append(returns.copy())
        ended = [number for number, step in enumerate(steps) if step[2]]
        if ended:
            batches.append(np.array([envs[number].reset()[0] for number in ended]))
            returns[ended] = 0.0
    return np.concatenate(batches), np.array(gamma_returns)


MANAGERS = [BaseEnvManager, BaseEnvManagerV2, SyncSubprocessEnvManager, SubprocessEnvManagerV2, GymVectorEnvManager]


@pytest.mark.parametrize("cls", MANAGERS)
def test_all_envs_of_all_managers_share_the_statistics_of_what_they_returned(cls):
    view, statistics = view_of(cls)
    try:
        _, _, returns = play(view)
    finally:
        view.close()
    obs, gamma_returns = raw_of()
    constants = statistics.obs_constants()
    np.testing.assert_allclose(constants.mean, obs.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(constants.std, obs.std(axis=0), rtol=1e-3)
    state = statistics.state_dict()
    assert round(state["obs"]["count"]) == len(obs)
    np.testing.assert_allclose(float(state["returns"]["mean"]), gamma_returns.mean(), rtol=1e-5)
    # Those of the env, not scaled.
    assert returns[0] == sum(range(1, LENGTH + 1))


def test_the_asynchronous_manager_counts_each_observation_once():
    view, statistics = view_of(AsyncSubprocessEnvManager)
    try:
        num_steps, ends = 0, 0
        while ends < 4:
            ready = view.ready_obs
            timesteps = view.step(dict.fromkeys(ready, 1))
            num_steps += len(timesteps)
            ends += int(np.count_nonzero(timesteps.done)) if len(timesteps) else 0
        counted = round(statistics.state_dict()["obs"]["count"])
    finally:
        view.close()
    assert 3 + num_steps <= counted <= 3 + num_steps + ends


def test_observations_are_normalised_from_the_first_one_on():
    view, statistics = view_of()
    first = np.asarray(view.ready_obs.columns)
    assert np.abs(first).max() <= 3
    timesteps = view.step({0: 1, 1: 1, 2: 1})
    # What is ready is what the step returned.
    np.testing.assert_array_equal(timesteps.obs, view.ready_obs.columns)
    expected = statistics.normalized_obs(np.array([[1, 1], [1001, 1], [2001, 1]], np.float32))
    np.testing.assert_array_equal(timesteps.obs, expected)
    assert timesteps.obs.dtype == np.float32
    view.close()


def test_rewards_are_divided_by_the_deviation_of_the_returns_after_30_steps():
    view, _ = view_of()
    _, rewards, _ = play(view)
    _, gamma_returns = raw_of()
    np.testing.assert_array_equal(rewards[0, :, 0], [1, 2, 3])
    # The last step has the statistics of all.
    steps = [(12 - 1) % (LENGTH + number) + 1 + number for number in range(3)]
    np.testing.assert_allclose(rewards[-1, :, 0], steps / gamma_returns.std(), rtol=1e-2)
    view.close()


def test_an_evaluator_reads_the_statistics_and_its_rewards_are_those_of_the_env():
    view, statistics = view_of()
    play(view)
    before = statistics.state_dict()
    evaluator, _ = view_of(reads_only=True, statistics=statistics)
    obs, rewards, _ = play(evaluator, 2)
    assert repr(statistics.state_dict()) == repr(before)
    np.testing.assert_array_equal(rewards[:, :, 0], [[1, 2, 3], [2, 3, 4]])
    raw = np.array([[0, 0], [1000, 0], [2000, 0]], np.float32)
    np.testing.assert_array_equal(obs[0], statistics.normalized_obs(raw))
    view.close()
    evaluator.close()


def test_a_manager_that_is_reset_behind_the_view_begins_new_episodes():
    manager = BaseEnvManager([partial(make_env, number) for number in range(3)], BaseEnvManager.default_config())
    view = v1_interface(manager)
    assert v1_interface(manager) is view
    view.use(Normalization(), False)
    manager.launch()
    play(view, 2)
    manager.reset()
    first = np.asarray(view.ready_obs.columns)[:, 1]
    assert (first < 0).all(), "t = 0 is below the mean of t"
    manager.close()


def test_by_hand_each_env_has_its_own_statistics():
    manager = BaseEnvManager([partial(make_env, number) for number in range(3)], BaseEnvManager.default_config())
    manager.launch()
    np.testing.assert_array_equal(manager.ready_obs.columns[:, 0], [0, 1000, 2000])
    manager.close()
    env = ObsNormWrapper(Stairs(2))
    obs, _ = env.reset()
    assert obs[0] == 2000
    assert env.data_count == 1


def test_shared_norm_false_keeps_the_statistics_per_env():
    manager = BaseEnvManager([partial(make_env, number, shared_norm=False) for number in range(3)])
    assert v1_interface(manager) is manager


class Doubled(gymnasium.ObservationWrapper):
    def observation(self, observation):
        return 2 * observation


def test_a_wrapper_that_uses_normalised_observations_is_refused():
    manager = BaseEnvManager([partial(make_env, 0, wrappers=(OBS_NORM, Doubled))])
    with pytest.raises(EnvConfigError, match=r"Doubled comes after obs_norm .* list obs_norm after it"):
        v1_interface(manager)
    fine = BaseEnvManager([partial(make_env, 0, wrappers=(Doubled, OBS_NORM))])
    assert v1_interface(fine) is not fine


@pytest.mark.parametrize("cls", MANAGERS)
def test_a_stack_of_frames_is_normalised_by_the_statistics_of_single_frames(cls):
    view, statistics = view_of(cls, wrappers=(OBS_NORM, STACK))
    try:
        seen, _, _ = play(view, 2)
        constants = statistics.obs_constants()
        play(view, 10)
    finally:
        view.close()
    # Both frames of a stack by the statistics of now.
    raw = np.array([[[1000 * number + t, t] for t in (1, 2)] for number in range(3)])
    np.testing.assert_allclose(seen[-1], np.clip((raw - constants.mean) / constants.std, -3, 3), rtol=1e-4, atol=1e-5)
    obs, _ = raw_of()
    constants = statistics.obs_constants()
    assert constants.mean.shape == (2,)
    assert round(statistics.state_dict()["obs"]["count"]) == len(obs)
    np.testing.assert_allclose(constants.mean, obs.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(constants.std, obs.std(axis=0), rtol=1e-3)


class Lazy(BaseEnv):
    """An own env that makes its wrappers at the first reset, as many of DI-engine do."""

    observation_space, action_space = Stairs.observation_space, Stairs.action_space
    reward_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, cfg=None, in_constructor=False):
        self._cfg, self._made = cfg, None
        if in_constructor:
            self._make()

    def _make(self):
        self._made = RewardNormWrapper(ObsNormWrapper(Stairs()), 0.9)

    def seed(self, seed, dynamic_seed=True):
        pass

    def reset(self):
        if self._made is None:
            self._make()
        return self._made.reset()[0]

    def step(self, action):
        obs, reward, terminated, truncated, info = self._made.step(0)
        return BaseEnvTimestep(obs, np.array([reward], np.float32), terminated or truncated, info)

    def random_action(self):
        return np.array([0])

    def close(self):
        pass

    def __repr__(self):
        return "Lazy()"


@pytest.mark.parametrize("cls", [BaseEnvManager, BaseEnvManagerV2, GymVectorEnvManager])
def test_norms_that_an_env_makes_at_its_first_reset_are_named(cls, caplog):
    kinds = ((partial(Lazy), 1), (partial(Lazy, {"shared_norm": False}), 0), (partial(Lazy, in_constructor=True), 0))
    for env_fn, warnings in kinds:
        caplog.clear()
        settings = cls.default_config() | {"max_episode_steps": 3}
        manager = cls([env_fn], settings)
        view = v1_interface(manager)
        assert hasattr(view, "use") == (env_fn.keywords == {"in_constructor": True})
        view.launch()
        # The limit of steps, which replaces reset() of an env, too, counts from each reset.
        lengths = [bool(view.step({0: 0}).done[0]) for _ in range(6)]
        manager.close()
        assert lengths == [False, False, True] * 2
        found = [record.getMessage() for record in caplog.records if "at the first reset" in record.getMessage()]
        assert len(found) == warnings
        assert all("Lazy makes its reward_norm and obs_norm" in text for text in found)
        assert all("env.shared_norm=False" in text for text in found)


def test_steps_that_are_tried_again_do_not_hide_norms():
    settings = {"retry_step": True, "max_retry": 2}
    manager = BaseEnvManager([partial(make_env, 0)], BaseEnvManager.default_config() | settings)
    assert v1_interface(manager) is not manager


def test_a_manager_that_is_open_already_says_that_its_statistics_stay_per_env(caplog):
    manager = BaseEnvManager([partial(make_env, number) for number in range(3)], BaseEnvManager.default_config())
    manager.launch()
    assert v1_interface(manager) is manager
    assert "leave launch() to the worker" in caplog.text
    manager.close()


def test_states_of_envs_hold_what_was_normalised():
    view, statistics = view_of()
    play(view, 7)
    states, learned = view.get_state(), statistics.state_dict()
    other, same = view_of()
    other.set_state(states)
    same.load_state_dict(learned)
    for one, two in zip(play(view), play(other)):
        np.testing.assert_array_equal(one, two)
    assert repr(statistics.state_dict()) == repr(same.state_dict())
    view.close()
    other.close()


def test_statistics_of_another_shape_are_refused():
    _, statistics = view_of()
    other = Normalization()
    other.load_state_dict(statistics.state_dict() | {"obs": {**statistics.state_dict()["obs"], "mean": [0.0] * 3}})
    with pytest.raises(ValueError, match="shape"):
        view_of(statistics=other)


@pytest.mark.parametrize("wrapped_by", ["config", "hand"])
def test_a_hand_made_env_in_a_task_shares_the_statistics_of_the_policy(wrapped_by):
    def by_hand():
        return DingEnvWrapper(EvalEpisodeReturnWrapper(ObsNormWrapper(Stairs())))

    env_fn = by_hand if wrapped_by == "hand" else partial(make_env, 0)
    model = {"obs_shape": 2, "action_shape": 2, "encoder_hidden_size_list": [8]}
    cfg = deep_merge_dicts(DQNPolicy.default_config(), {"cuda": False, "model": model, "collect": {"n_sample": 12}})
    policy = DQNPolicy(cfg)
    envs = BaseEnvManagerV2([env_fn] * 3, BaseEnvManagerV2.default_config())
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        task.use(eps_greedy_handler(EasyDict(policy={"other": {"eps": cfg.other.eps}})))
        task.use(StepCollector(EasyDict(seed=0, policy=cfg), policy.collect_mode, envs))
        task.run(2)
    state = policy.learn_mode.state_dict()["normalization"]
    # Three first observations, and three of each of eight steps, of which one ends an episode in each env.
    assert round(state["obs"]["count"]) == 3 + 3 * 8 + 3
