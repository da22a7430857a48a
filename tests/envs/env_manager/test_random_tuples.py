"""Random actions of a ``Tuple`` space from the policy to the env."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ding.envs import DingEnvWrapper, create_env_manager
from ding.policy.policy_factory import RandomPolicy


class TupleEnv(gymnasium.Env):
    """Pays 1 for an action of its space."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)])

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), float(self.action_space.contains(action)), False, False, {}


@pytest.mark.parametrize("kind", ["base", "subprocess", "gym_vector"])
def test_they_arrive(kind):
    torch.manual_seed(0)
    manager = create_env_manager({"type": kind}, [lambda: DingEnvWrapper(TupleEnv())] * 2)
    try:
        manager.launch()
        output = RandomPolicy(manager.action_space).forward(manager.ready_obs)
        steps = manager.step({env_id: row["action"] for env_id, row in output.items()})
        assert steps.reward.tolist() == [[1.0], [1.0]]
        assert manager.step(manager.random_action()).reward.tolist() == [[1.0], [1.0]]
    finally:
        manager.close()
