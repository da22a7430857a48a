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
    with pytest.raises(ValueError, match="batch_size must be the number of envs, 2, found 1"):
        managed(2, {"env_id": "CartPole-v1"}, batch_size=1)
    with pytest.raises(ValueError, match=r"remove env\.env_wrapper"):
        managed(1, {"env_id": "CartPole-v1", "env_wrapper": [{"type": "clip_reward"}]})
    with pytest.raises(ValueError, match="no task 'Taxi-v4'"):
        managed(1, {"env_id": "Taxi-v4"})
