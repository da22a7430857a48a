"""Envs that tell a world model where episodes end."""

import pytest
import torch

from ding.envs.zoo.mujoco_env import MBMujocoEnv
from ding.envs.zoo.pendulum_env import MBPendulumEnv


def ends(env_id, states):
    return MBMujocoEnv({"env_id": env_id}).termination_fn(torch.tensor(states)).tolist()


def test_a_pendulum_ends_by_its_time_limit_alone():
    env = MBPendulumEnv({"act_scale": True})
    assert env.termination_fn(torch.zeros(3, 3)).tolist() == [False] * 3
    assert env.reset().shape == (3,)
    env.close()


def test_robots_end_where_they_fall():
    assert ends("Hopper-v2", [[0.8, 0.1, 0.0], [0.6, 0.1, 0.0], [0.8, 0.3, 0.0], [0.8, 0.1, 200.0]]) == [
        *(False, True, True, True)
    ]
    walker = [[1.0, 0.5], [0.7, 0.5], [2.1, 0.5], [1.0, 1.5]]
    assert ends("Walker2d-v3", walker) == [False, True, True, True]
    assert ends("walker_walk", [[9.0, *one] for one in walker]) == [False, True, True, True]
    assert ends("HalfCheetah-v3", [[1e6, 0.0], [float("nan"), 0.0]]) == [False, True]
    assert ends("AntTruncatedObs-v2", [[0.5], [0.1], [1.5]]) == [False, True, True]
    assert ends("Humanoid-v4", [[1.5], [0.5], [2.5]]) == [False, True, True]
    with pytest.raises(KeyError, match="'Swimmer-v3'"):
        ends("Swimmer-v3", [[0.0]])
