"""The point mass: dynamics, rewards, ends."""

import numpy as np
import pytest

from ding.envs.zoo.point_mass_env import PointMassEnv


def played(env: PointMassEnv, *actions: tuple[float, float]) -> list:
    steps = []
    for action in actions:
        steps.append(env.step(np.array(action)))
        if steps[-1].done:
            break
    return steps


def test_the_point_moves_by_its_velocity_and_is_paid_for_the_way() -> None:
    env = PointMassEnv()
    env.seed(0)
    start = env.reset()
    assert env.observation_space.contains(start)
    first, second = played(env, (1, 0.5), (0, 5))
    np.testing.assert_allclose(first.obs[2:], [0.03, 0.015], rtol=1e-6)
    np.testing.assert_allclose(first.obs[:2], start[:2] + first.obs[2:], rtol=1e-6)
    np.testing.assert_allclose(second.obs[2:], [0.021, 0.0405], rtol=1e-6)
    goal = np.array([0.8, 0.0])
    came_closer = np.linalg.norm(start[:2] - goal) - np.linalg.norm(first.obs[:2] - goal)
    assert first.reward[0] == pytest.approx(came_closer - 0.02, abs=1e-6)
    assert not first.done


def test_straight_ahead_is_the_disc_and_around_it_the_goal() -> None:
    env = PointMassEnv()
    env.seed(1)
    env.reset()
    last = played(env, *[(1, 0)] * 20)[-1]
    assert last.done
    assert last.info["eval_episode_return"] < -0.5
    obs, done = env.reset(), False
    while not done:
        last = env.step(3 * ((np.array([0.1, 0.6]) if obs[0] < 0 else np.array([0.8, 0.0])) - obs[:2]))
        obs, done = last.obs, last.done
    assert last.info["eval_episode_return"] > 1.5
    assert "TimeLimit.truncated" not in last.info


def test_episodes_end_after_max_step() -> None:
    env = PointMassEnv({"max_step": 3})
    env.seed(0, dynamic_seed=False)
    first = env.reset()
    last = played(env, *[(0, 0)] * 5)
    assert len(last) == 3
    assert last[-1].info["TimeLimit.truncated"]
    np.testing.assert_array_equal(env.reset(), first)
    with pytest.raises(ValueError, match="two finite numbers"):
        env.step(np.array([np.nan, 0]))
    with pytest.raises(ValueError, match="max_step"):
        PointMassEnv({"max_step": 0})
