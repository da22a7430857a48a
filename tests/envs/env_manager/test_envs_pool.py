"""The manager of EnvPool's envs."""

import numpy as np
import pytest
from easydict import EasyDict

from ding.envs import DingEnvWrapper, PoolEnvManager, create_env_manager
from ding.utils import ENV_REGISTRY, import_module

pytest.importorskip("envpool")
# EnvPool's spaces have float64 bounds for float32 boxes.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")


def managed(num_envs: int, cfg: dict, **settings: object):
    return create_env_manager(
        EasyDict(type="env_pool", num_threads=1, **settings), [lambda: DingEnvWrapper(cfg=EasyDict(cfg))] * num_envs
    )


def test_episodes_and_seeds():
    manager = managed(2, {"env_id": "CartPole-v1"})
    firsts = []
    for seed in (3, 3, [4, 3]):
        manager.seed(seed)
        manager.launch()
        firsts.append({env_id: obs.copy() for env_id, obs in manager.ready_obs.items()})
        if len(firsts) < 3:
            manager.close()
    np.testing.assert_array_equal(firsts[0][0], firsts[1][0])
    np.testing.assert_array_equal(firsts[2][0], firsts[0][1])
    steps = 0
    while True:
        timesteps = manager.step({0: np.array([1]), 1: np.array([steps % 2])})
        steps += 1
        if timesteps[0].done:
            break
    assert timesteps[0].info["eval_episode_return"] == steps
    assert not timesteps[1].done
    # The next episode has begun: there is no step between.
    assert np.abs(manager.ready_obs[0]).max() <= 0.05
    np.testing.assert_array_equal(manager.ready_obs[1], timesteps[1].obs)
    assert manager.step({0: np.array([1]), 1: np.array([0])})[0].reward == 1
    manager.close()


def test_a_single_env_is_reset_in_mid_episode():
    manager = managed(2, {"env_id": "CartPole-v1"})
    manager.seed(0)
    manager.launch()
    for _ in range(5):
        timesteps = manager.step({0: np.array([1]), 1: np.array([1])})
    manager.reset({1: None})
    assert np.abs(manager.ready_obs[1]).max() <= 0.05
    np.testing.assert_array_equal(manager.ready_obs[0], timesteps[0].obs)
    manager.close()


def test_actions_are_scaled_and_time_limits_are_truncations():
    manager = managed(1, {"env_id": "Pendulum-v1", "act_scale": True})
    manager.seed(0)
    manager.launch()
    velocity = manager.ready_obs[0][2]
    sine = manager.ready_obs[0][1]
    timestep = manager.step({0: np.array([0.5], dtype=np.float32)})[0]
    # A torque of 1: see the dynamics of Pendulum-v1.
    np.testing.assert_allclose(timestep.obs[2], velocity + (15.0 * sine + 3.0) * 0.05, rtol=1e-4)
    while not timestep.done:
        timestep = manager.step({0: np.zeros(1, dtype=np.float32)})[0]
    assert timestep.info["TimeLimit.truncated"]
    manager.close()


def test_atari_ends_episodes_with_lives_and_not_games():
    import_module(["ding.envs.zoo.atari_env"])
    cfg = EasyDict(env_id="BreakoutNoFrameskip-v4", frame_size=42)
    manager = create_env_manager(EasyDict(type="env_pool", num_threads=1), [lambda: ENV_REGISTRY.build("atari", cfg)])
    manager.seed(0)
    manager.launch()
    assert manager.ready_obs[0].shape == (4, 42, 42)
    assert manager.observation_space.contains(manager.ready_obs[0])
    lives = []
    while len(lives) < 2:
        timestep = manager.step({0: np.array(1)})[0]
        lives += [int(timestep.info["lives"])] if timestep.done else []
    assert lives == [4, 3]
    manager.close()


def test_from_a_config_alone():
    manager = PoolEnvManager(EasyDict(env_id="Pong-v5", env_num=2, stack_num=2, num_threads=1))
    manager.launch()
    assert manager.env_num == 2
    obs = manager.ready_obs[1]
    assert obs.shape == (2, 84, 84)
    assert obs.dtype == np.float32
    assert obs.max() > 1
    manager.close()


def test_what_a_pool_cannot_do():
    with pytest.raises(ValueError, match="batch_size must be from 1 to the number of envs, 2, found 3"):
        managed(2, {"env_id": "CartPole-v1"}, batch_size=3)
    with pytest.raises(ValueError, match=r"remove env\.env_wrapper"):
        managed(1, {"env_id": "CartPole-v1", "env_wrapper": [{"type": "clip_reward"}]})
    with pytest.raises(ValueError, match="no task 'Taxi-v4'"):
        managed(1, {"env_id": "Taxi-v4"})


POLES = {"env_id": "CartPole-v1"}


class TestBatches:
    """A ``batch_size`` below the number of envs."""

    @pytest.fixture
    def make(self):
        managers = []

        def build(num_envs, batch_size, cfg=POLES, **settings):
            managers.append(managed(num_envs, cfg, batch_size=batch_size, **settings))
            managers[-1].seed(0)
            managers[-1].launch()
            return managers[-1]

        yield build
        for manager in managers:
            manager.close()

    @pytest.mark.parametrize(("num_envs", "batch_size"), [(4, 2), (5, 3), (3, 1), (5, 4)])
    def test_each_timestep_follows_the_observation_that_was_acted_on(self, make, num_envs, batch_size):
        manager = make(num_envs, batch_size)
        assert manager.ready_obs_id == list(range(num_envs))
        acted, lengths, ends = {}, dict.fromkeys(range(num_envs), 0), 0
        for _ in range(300):
            ready = manager.ready_obs
            assert len(ready)
            assert acted.keys().isdisjoint(ready)
            acted.update((env_id, obs.copy()) for env_id, obs in ready.items())
            timesteps = manager.step({env_id: np.array([1]) for env_id in ready})
            for env_id, timestep in timesteps.items():
                before = acted.pop(env_id)
                # The positions follow from the velocities, so a first observation of an episode is no such step.
                np.testing.assert_allclose(timestep.obs[[0, 2]], before[[0, 2]] + 0.02 * before[[1, 3]], atol=1e-6)
                lengths[env_id] += 1
                if timestep.done:
                    ends += 1
                    assert timestep.info["eval_episode_return"] == lengths[env_id]
                    lengths[env_id] = 0
                    if env_id in manager.ready_obs:
                        assert np.abs(manager.ready_obs[env_id]).max() <= 0.05
                else:
                    np.testing.assert_array_equal(manager.ready_obs[env_id], timestep.obs)
        assert ends >= 10

    def test_what_was_handed_out_stays(self, make):
        manager = make(3, 1)
        kept = []
        for _ in range(20):
            ready = manager.ready_obs
            kept.append((ready.columns, ready.columns.copy()))
            timesteps = manager.step({env_id: np.array([0]) for env_id in ready})
            kept.append((timesteps.obs, timesteps.obs.copy()))
        for handed_out, copied in kept:
            np.testing.assert_array_equal(handed_out, copied)

    def test_a_step_returns_so_many(self, make):
        manager = make(4, 2)
        assert len(manager.step({env_id: np.array([1]) for env_id in range(4)})) == 2
        assert len(manager.ready_obs) == 2

    @pytest.mark.parametrize(("num_envs", "batch_size"), [(4, 2), (3, 2), (5, 4)])
    def test_each_env_plays_its_episodes_and_no_more(self, make, num_envs, batch_size):
        manager = make(num_envs, batch_size, episode_num=2)
        for _ in range(2):
            episodes = dict.fromkeys(range(num_envs), 0)
            while not manager.done:
                for env_id, timestep in manager.step(dict.fromkeys(manager.ready_obs, np.array([1]))).items():
                    episodes[env_id] += timestep.done
            assert set(episodes.values()) == {2}
            assert not len(manager.ready_obs)
            manager.relaunch()

    def test_a_reset_drops_what_is_under_way(self, make):
        manager = make(5, 2)
        for _ in range(3):
            manager.step({env_id: np.array([1]) for env_id in manager.ready_obs})
            manager.reset()
            assert manager.ready_obs_id == list(range(5))
            assert np.abs(manager.ready_obs.columns).max() <= 0.05

    def test_lives(self, make):
        import_module(["ding.envs.zoo.atari_env"])
        cfg = EasyDict(env_id="BreakoutNoFrameskip-v4", frame_size=42)
        settings = EasyDict(type="env_pool", num_threads=1, batch_size=1)
        manager = create_env_manager(settings, [lambda: ENV_REGISTRY.build("atari", cfg)] * 2)
        manager.launch()
        lives = {0: [], 1: []}
        while min(map(len, lives.values())) < 6:
            for env_id, timestep in manager.step(dict.fromkeys(manager.ready_obs, np.array(1))).items():
                lives[env_id] += [int(timestep.info["lives"])] if timestep.done else []
        assert [one[:6] for one in lives.values()] == [[4, 3, 2, 1, 0, 4]] * 2
        manager.close()

    def test_some_envs_cannot_be_reset_alone(self, make):
        with pytest.raises(ValueError, match="resets all of them only"):
            make(3, 2).reset({0: None})

    def test_di_engine_s_form(self):
        manager = PoolEnvManager(EasyDict(env_id="CartPole-v1", env_num=4, batch_size=2, num_threads=1))
        manager.launch()
        for _ in range(20):
            assert len(manager.step({env_id: np.array(0) for env_id in manager.ready_obs})) <= 4
        manager.close()
