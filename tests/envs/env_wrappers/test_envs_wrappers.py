"""Each env wrapper on a scripted env, with exact numbers."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ding.envs import (
    ActionRepeatWrapper,
    AllinObsWrapper,
    ClipRewardWrapper,
    DelayRewardWrapper,
    EpisodicLifeWrapper,
    EvalEpisodeReturnWrapper,
    FireResetWrapper,
    FlatObsWrapper,
    FrameStackWrapper,
    GymHybridDictActionWrapper,
    GymToGymnasiumWrapper,
    MaxAndSkipWrapper,
    NoopResetWrapper,
    ObsNormWrapper,
    ObsPlusPrevActRewWrapper,
    ObsTransposeWrapper,
    RamWrapper,
    RewardNormWrapper,
    RunningMeanStd,
    ScaledFloatFrameWrapper,
    StaticObsNormWrapper,
    TimeLimitWrapper,
    WarpFrameWrapper,
    create_env_wrapper,
    update_shape,
)
from ding.envs.env.base_env import EnvConfigError
from ding.utils import ENV_WRAPPER_REGISTRY


class Script(gymnasium.Env):
    """Step t shows ``frames[t]`` and pays ``rewards[t]``; ``lives`` as an ALE game shows them; the end is at
    ``length``.
    """

    def __init__(self, frames=None, rewards=None, length=100, lives=None, space=None):
        self.frames = frames
        self.rewards = rewards
        self.length = length
        self.life_counts = lives
        self.observation_space = space or spaces.Box(0, 255, (2,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.actions = []
        self.resets = 0
        self.t = 0

    ale = property(lambda self: self)

    def lives(self):
        return self.life_counts[min(self.t, len(self.life_counts) - 1)]

    def _obs(self):
        return np.full(2, self.t, np.float32) if self.frames is None else self.frames[self.t]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.resets += 1
        return self._obs(), {}

    def step(self, action):
        self.actions.append(action)
        self.t += 1
        reward = 1.0 if self.rewards is None else self.rewards[self.t - 1]
        return self._obs(), reward, self.t >= self.length, False, {}


def test_noop_reset_draws_from_the_generator_of_the_env():
    def noops(seed):
        raw = Script()
        env = NoopResetWrapper(raw, 30)
        counts = []
        for i in range(20):
            raw.actions.clear()
            env.reset(seed=seed if i == 0 else None)
            assert set(raw.actions) == {0}
            counts.append(len(raw.actions))
        return counts

    assert noops(1) == noops(1)
    assert len(set(noops(1))) > 5
    assert 1 <= min(noops(1)) <= max(noops(1)) <= 30


def test_max_and_skip():
    frames = [np.array(pair) for pair in ([0, 0], [9, 9], [1, 5], [4, 2], [7, 7])]
    env = MaxAndSkipWrapper(Script(frames, [1, 2, 3, 4]), skip=3)
    env.reset()
    obs, reward, *_ = env.step(1)
    assert obs.tolist() == [4, 5]
    assert reward == 6.0


def test_max_and_skip_at_the_end_of_an_episode():
    raw = Script(length=1)
    env = MaxAndSkipWrapper(raw, skip=4)
    env.reset()
    obs, reward, terminated, *_ = env.step(1)
    assert (obs.tolist(), reward, terminated, len(raw.actions)) == ([1, 1], 1.0, True, 1)


def test_action_repeat():
    env = ActionRepeatWrapper(Script(rewards=[1, 2, 4, 8], length=3), 2)
    env.reset()
    assert env.step(0)[1] == 3.0
    assert env.step(0)[1:3] == (4.0, True)


def test_delay_reward():
    env = DelayRewardWrapper(Script(rewards=[1, 2, 4, 8, 16], length=5), 2)
    for _ in range(2):
        env.reset()
        assert [env.step(0)[1] for _ in range(5)] == [0.0, 3.0, 0.0, 12.0, 16.0]
    assert DelayRewardWrapper(Script(rewards=[7])).step(0)[1] == 7


def test_eval_episode_return_takes_numbers_and_arrays():
    env = EvalEpisodeReturnWrapper(Script(rewards=[1, np.float32(2.0), np.array([0.5])], length=3))
    for _ in range(2):
        env.reset()
        infos = [env.step(0)[4] for _ in range(3)]
        assert "eval_episode_return" not in infos[1]
        value = infos[2]["eval_episode_return"]
        assert (value.dtype, value.tolist()) == (np.float32, [3.5])


def test_clip_reward():
    env = ClipRewardWrapper(Script(rewards=[-3.0, 0.0, 8.0]))
    env.reset()
    assert [env.step(0)[1] for _ in range(3)] == [-1.0, 0.0, 1.0]


class TestEpisodicLife:
    def test_a_lost_life_ends_the_episode_but_not_the_game(self):
        raw = Script(lives=[3, 3, 2, 2, 2], length=5)
        env = EpisodicLifeWrapper(raw)
        env.reset()
        assert [env.step(1)[2] for _ in range(2)] == [False, True]
        obs, _ = env.reset()
        assert (raw.resets, raw.actions[-1], obs.tolist()) == (1, 0, [3, 3])
        env.step(1)
        assert env.step(1)[2] is True
        env.reset()
        assert raw.resets == 2

    def test_zero_lives_before_the_real_end_are_no_loss(self):
        env = EpisodicLifeWrapper(Script(lives=[1, 0, 0], length=3))
        env.reset()
        assert [env.step(1)[2] for _ in range(3)] == [False, False, True]

    def test_a_seed_resets_for_real(self):
        raw = Script(lives=[2, 1], length=9)
        env = EpisodicLifeWrapper(raw)
        env.reset()
        env.step(1)
        env.reset(seed=3)
        assert raw.resets == 2


def test_fire_reset():
    raw = Script()
    obs, _ = FireResetWrapper(raw).reset()
    assert (raw.actions, obs.tolist()) == ([1], [1, 1])


def test_time_limit_truncates():
    env = TimeLimitWrapper(Script(length=9), 2)
    for _ in range(2):
        env.reset()
        first, second = env.step(0), env.step(0)
        assert (first[3], first[4]) == (False, {"time_limit": False, "time_count": 1})
        assert (second[2], second[3], second[4]) == (False, True, {"time_limit": True, "time_count": 2})


def test_a_time_limit_may_be_the_end():
    env = create_env_wrapper(TimeLimitWrapper(Script(length=9), 2), {"type": "time_limit_is_end"})
    env.reset()
    assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (True, False)]


def test_hybrid_dict_actions_become_tuples():
    raw = Script()
    env = GymHybridDictActionWrapper(raw)
    env.reset()
    sample = env.action_space.sample()
    env.step(sample)
    assert raw.actions == [(sample["type"], sample["args"])]


class TestFrames:
    def test_warp_gray_and_resize(self):
        pytest.importorskip("cv2")
        frame = np.full((210, 160, 3), 100, np.uint8)
        env = WarpFrameWrapper(Script([frame], space=spaces.Box(0, 255, frame.shape, np.uint8)))
        obs, _ = env.reset()
        assert (obs.shape, obs.dtype, np.unique(obs).tolist()) == ((84, 84), np.uint8, [100])
        assert env.observation_space == spaces.Box(0, 255, (84, 84), np.uint8)

    def test_warp_keeps_leading_channels(self):
        pytest.importorskip("cv2")
        frame = np.stack([np.full((40, 40), value, np.uint8) for value in (1, 2, 3, 4)])
        env = WarpFrameWrapper(Script([frame], space=spaces.Box(0, 255, frame.shape, np.uint8)), size=20)
        obs, _ = env.reset()
        assert obs.shape == (4, 20, 20)
        assert obs[:, 0, 0].tolist() == [1, 2, 3, 4]

    def test_scale(self):
        frame = np.array([0, 51, 255], np.uint8)
        env = ScaledFloatFrameWrapper(Script([frame], space=spaces.Box(0, 255, (3,), np.uint8)))
        obs, _ = env.reset()
        np.testing.assert_allclose(obs, [0, 0.2, 1.0], rtol=1e-6)
        assert obs.dtype == np.float32
        assert env.observation_space == spaces.Box(0, 1, (3,), np.float32)

    def test_stack(self):
        env = FrameStackWrapper(Script(), 3)
        obs, _ = env.reset()
        assert obs.tolist() == [[0, 0]] * 3
        env.step(0)
        second = env.step(0)[0]
        assert second.tolist() == [[0, 0], [1, 1], [2, 2]]
        env.step(0)
        assert second.tolist() == [[0, 0], [1, 1], [2, 2]]
        assert env.observation_space.shape == (3, 2)

    def test_transpose(self):
        frame = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        env = ObsTransposeWrapper(Script([frame], space=spaces.Box(0, 255, (2, 4, 3), np.uint8)))
        obs, _ = env.reset()
        assert obs.shape == env.observation_space.shape == (3, 2, 4)
        assert obs[1, 0, 2] == frame[0, 2, 1]

    def test_transpose_of_a_tuple(self):
        one = spaces.Box(0, 255, (2, 4, 3), np.uint8)
        frame = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        env = ObsTransposeWrapper(Script([(frame, frame)], space=spaces.Tuple([one, one])))
        assert env.reset()[0].shape == env.observation_space.shape == (2, 3, 2, 4)

    def test_ram(self):
        memory = np.arange(128, dtype=np.uint8)
        obs, _ = RamWrapper(Script([memory], space=spaces.Box(0, 255, (128,), np.uint8))).reset()
        assert (obs.shape, obs.dtype, obs[5, 0, 0]) == ((128, 1, 1), np.float32, 5.0)

    def test_flat_obs(self):
        space = spaces.Dict({"image": spaces.Box(0, 255, (2, 2), np.uint8), "mission": spaces.Text(9)})
        frames = [{"image": np.ones((2, 2), np.uint8), "mission": "aB "}, {"image": np.ones((2, 2)), "mission": "a!"}]
        env = FlatObsWrapper(Script(frames, space=space), maxStrLen=4)
        obs, _ = env.reset()
        assert obs.shape == env.observation_space.shape == (4 + 4 * 28,)
        assert np.flatnonzero(obs[4:]).tolist() == [0, 28 + 1, 56 + 26]
        with pytest.raises(ValueError, match="character '!'"):
            env.step(0)


class TestExtended:
    def test_previous_action_is_the_last_one(self):
        env = ObsPlusPrevActRewWrapper(Script(rewards=[5.0, 6.0]))
        for _ in range(2):
            obs, _ = env.reset()
            assert (int(obs["prev_action"]), obs["prev_reward_extrinsic"].tolist()) == (-1, [0.0])
            obs = env.step(1)[0]
            assert (int(obs["prev_action"]), obs["prev_reward_extrinsic"].tolist()) == (1, [5.0])
            obs = env.step(0)[0]
            assert (int(obs["prev_action"]), obs["prev_reward_extrinsic"].tolist()) == (0, [6.0])

    def test_reward_in_obs(self):
        env = AllinObsWrapper(Script(rewards=[5.0]))
        assert env.reset()[0]["reward"].tolist() == [0.0]
        assert env.step(1)[0]["reward"].tolist() == [5.0]
        assert env.observation_space["reward"].shape == (1,)


class TestNorms:
    def test_running_mean_std_equals_numpy(self):
        data = np.random.default_rng(0).normal(3.0, 2.0, (100, 2))
        rms = RunningMeanStd(shape=(2,))
        for part in np.split(data, [1, 40]):
            rms.update(part)
        np.testing.assert_allclose(rms.mean, data.mean(0), rtol=1e-4)
        np.testing.assert_allclose(rms.std, data.std(0) + 1e-4, rtol=1e-4)
        rms.reset()
        assert rms.mean.tolist() == [0.0, 0.0]

    def test_obs_norm_has_statistics_per_feature_that_outlive_an_episode(self):
        rng = np.random.default_rng(0)
        frames = rng.normal([0.0, 10.0, 100.0], [1.0, 2.0, 0.5], (61, 3))
        env = ObsNormWrapper(Script(frames, space=spaces.Box(-np.inf, np.inf, (3,), np.float64)))
        obs, _ = env.reset()
        assert obs.dtype == np.float32
        np.testing.assert_allclose(obs, frames[0], rtol=1e-6)
        shown = [env.step(0)[0] for _ in range(60)]
        np.testing.assert_allclose(env.rms.mean, frames.mean(0), rtol=1e-2, atol=1e-2)
        standard = np.clip((frames[60] - frames.mean(0)) / frames.std(0), -3, 3)
        np.testing.assert_allclose(shown[-1], standard, atol=0.02)
        count = env.data_count
        env.reset()
        assert env.data_count == count + 1

    def test_static_obs_norm(self):
        env = StaticObsNormWrapper(Script([np.array([3.0, 100.0])]), [1.0, 0.0], [2.0, 1.0])
        assert env.reset()[0].tolist() == [1.0, 3.0]

    def test_reward_norm(self):
        rewards = list(np.random.default_rng(1).normal(0, 5, 60))
        env = RewardNormWrapper(Script(rewards=rewards), 0.9)
        env.reset()
        out = [env.step(0)[1] for _ in range(60)]
        assert out[:30] == rewards[:30]
        returns, total = [], 0.0
        for reward in rewards:
            total = total * 0.9 + reward
            returns.append(total)
        np.testing.assert_allclose(out[-1], rewards[-1] / np.std(returns), rtol=1e-3)
        env.reset()
        assert env.cum_reward == 0.0
        assert env.data_count == 60


def test_every_registered_name_of_the_reference_is_there():
    names = {
        *("noop_reset", "max_and_skip", "warp_frame", "scaled_float_frame", "clip_reward", "action_repeat"),
        *("delay_reward", "eval_episode_return", "frame_stack", "obs_transpose", "obs_norm", "static_obs_norm"),
        *("reward_norm", "ram", "episodic_life", "fire_reset", "gym_hybrid_dict_action", "reward_in_obs"),
        "obs_plus_prev_action_reward",
    }
    assert names <= set(ENV_WRAPPER_REGISTRY.query())


def test_create_env_wrapper():
    env = create_env_wrapper(Script(), {"type": "frame_stack", "kwargs": {"n_frames": 2}})
    assert env.reset()[0].shape == (2, 2)
    with pytest.raises(KeyError, match=r"env_wrapper\.type is missing"):
        create_env_wrapper(Script(), {"kwargs": {}})


def test_update_shape():
    names = ["WarpFrameWrapper", "", "frame_stack", "ClipRewardWrapper"]
    assert update_shape((210, 160, 3), 6, 1, names) == ((4, 84, 84), 6, 1)
    with pytest.raises(KeyError, match="frame_stack"):
        update_shape(1, 1, 1, ["frame_stak"])


def test_adapter_uses_a_seed_once():
    raw = Script()
    seeds = []
    raw.reset = lambda *, seed=None, options=None: (seeds.append(seed), ({}, {}))[1]
    env = GymToGymnasiumWrapper(raw)
    env.seed(4)
    env.reset()
    env.reset()
    env.reset(seed=6)
    assert seeds == [4, None, 6]


@pytest.mark.parametrize("wrapper", [ObsNormWrapper, FrameStackWrapper, ScaledFloatFrameWrapper])
def test_observations_that_are_no_arrays_are_refused_by_name(wrapper):
    env = Script(space=spaces.Dict(a=spaces.Box(0, 1, (2,)), b=spaces.Discrete(3)))
    with pytest.raises(EnvConfigError, match=f"{wrapper.__name__} needs observations of one array"):
        wrapper(env)


def test_frames_without_bounds_cannot_be_scaled_by_them():
    with pytest.raises(EnvConfigError, match="needs observations with bounds"):
        ScaledFloatFrameWrapper(Script(space=spaces.Box(0, np.inf, (2,))))
