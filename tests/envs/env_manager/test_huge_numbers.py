"""Numbers in observations and rewards that float32 cannot hold: a warning names them where they come in, once."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ding.data import BaseEnvTimestep
from ding.envs import BaseEnv, DingEnvWrapper, create_env_manager

HUGE = spaces.Dict({"a": spaces.Box(-1e308, 1e308, (3,), np.float64), "b": spaces.Box(-1, 1, (2,), np.float32)})


class HugeEnv(gymnasium.Env):
    """Observes 1e300 from its second step on; its reward is 1e39 in the third one."""

    observation_space = HUGE
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.steps = 0

    def _obs(self):
        return {"a": np.array([1.0, 1e300 if self.steps >= 2 else 1.0, 0.0]), "b": np.zeros(2, np.float32)}

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return self._obs(), 1e39 if self.steps == 3 else 1.0, False, False, {}


class OwnHugeEnv(BaseEnv):
    """The same for an env whose observations stay float64."""

    def __init__(self):
        self.env = HugeEnv()
        self.observation_space, self.action_space = HUGE, self.env.action_space
        self.reward_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def reset(self):
        return self.env.reset()[0]

    def step(self, action):
        obs, reward, done, _, info = self.env.step(action)
        return BaseEnvTimestep(obs, reward, done, info)

    def seed(self, seed, dynamic_seed=True):
        pass

    def close(self):
        pass

    def __repr__(self):
        return "OwnHugeEnv"


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("kind", ["base", "subprocess", "gym_vector"])
@pytest.mark.parametrize("own", [False, True])
def test_a_warning_names_them_once(kind, own, caplog):
    def env_fn():
        return OwnHugeEnv() if own else DingEnvWrapper(HugeEnv())

    manager = create_env_manager({"type": kind}, [env_fn] * 2)
    manager.launch()
    said = []
    try:
        for _ in range(4):
            manager.step({env_id: np.array(0) for env_id in range(2)})
            said.append([record.getMessage() for record in caplog.records if "float32" in record.getMessage()])
    finally:
        manager.close()
    assert [len(messages) for messages in said] == [0, 1, 2, 2]
    observation, reward = said[-1]
    assert f"env 0: the observation at 'a' holds {'1e+300' if own else 'inf'};" in observation
    assert "env 0: the reward holds" in reward


def test_large_numbers_of_float32_are_no_matter(caplog):
    class Large(HugeEnv):
        observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

        def _obs(self):
            return np.array([3e38, -2e25], np.float32)

    manager = create_env_manager({"type": "base"}, [lambda: DingEnvWrapper(Large())])
    manager.launch()
    manager.step({0: 0})
    manager.close()
    assert not caplog.records
