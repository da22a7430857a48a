"""Every kind of space through wrapper, manager, collector, buffer and DQN; envs of the old gym API, too."""

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium import spaces

from ding.entry import serial_pipeline
from ding.envs import BaseEnv, BaseEnvTimestep, DingEnvWrapper

PART = spaces.Box(-1, 1, (2,), np.float32)
SPACES = {
    "box": spaces.Box(-1, 1, (4,), np.float32),
    "dict": spaces.Dict({"a": PART, "b": PART}),
    "tuple": spaces.Tuple((PART, PART)),
    "discrete": spaces.Discrete(5),
    "multi_discrete": spaces.MultiDiscrete([5, 3]),
    "mask": spaces.Dict({"observation": spaces.Box(-1, 1, (4,), np.float32), "action_mask": spaces.MultiBinary(2)}),
}
EPISODE = 6


class SampledEnv(gymnasium.Env):
    """Observations are samples of the space, the action mask allows action 1 only; wrong actions are refused."""

    def __init__(self, kind, actions):
        self.observation_space = SPACES[kind]
        self.action_space = actions
        self._count = 0

    def _sample(self):
        obs = self.observation_space.sample()
        if isinstance(obs, dict) and "action_mask" in obs:
            obs["action_mask"] = np.array([0, 1], np.int8)
        return obs

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._count = 0
        return self._sample(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        obs = self._sample()
        if isinstance(obs, dict) and "action_mask" in obs and action != 1:
            raise ValueError("the action is masked")
        self._count += 1
        return obs, 1.0, self._count == EPISODE, False, {}


class OldEnv:
    """The API of gym before 0.26: a bare observation from `reset`, four values from `step`, `seed` as a method."""

    observation_space = SPACES["box"]
    action_space = spaces.Discrete(2)
    reward_range = (0.0, 1.0)
    metadata = {}

    def __init__(self):
        self._random = np.random.default_rng(0)

    def seed(self, seed=None):
        self._random = np.random.default_rng(seed)

    def reset(self):
        self._count = 0
        return self._random.random(4)

    def step(self, action):
        self._count += 1
        return self._random.random(4), 1.0, self._count == EPISODE, {}

    def close(self):
        """Nothing to close."""


class Net(torch.nn.Module):
    """A Q network for observations that the default one does not take."""

    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, 2)

    def forward(self, obs):
        parts = list(obs.values()) if isinstance(obs, dict) else list(obs) if isinstance(obs, list) else [obs]
        return {"logit": self.layer(torch.cat([part.reshape(len(part), -1).float() for part in parts], dim=-1))}


def run(make, model=None, manager="base", action_shape=2):
    main = EasyDict(
        exp_name="e",
        env=dict(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2, stop_value=1e9),
        policy=dict(
            model=dict(obs_shape=4, action_shape=action_shape, encoder_hidden_size_list=[8]),
            learn=dict(update_per_collect=1, batch_size=4),
            collect=dict(n_sample=8),
            other=dict(replay_buffer=dict(replay_buffer_size=64)),
        ),
    )
    create = EasyDict(env_manager=dict(type=manager), policy=dict(type="dqn"))
    setting = (make, [EasyDict()] * 2, [EasyDict()] * 2)
    return serial_pipeline((main, create), env_setting=setting, model=model, max_env_step=32)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("manager", ["base", "subprocess", "gym_vector"])
@pytest.mark.parametrize("kind", SPACES)
def test_observation_spaces(kind, manager):
    width = {"dict": 4, "tuple": 4, "discrete": 1, "multi_discrete": 2}.get(kind)
    model = None if width is None else Net(width)
    policy = run(lambda cfg: DingEnvWrapper(SampledEnv(kind, spaces.Discrete(2)), cfg), model, manager)
    assert all(torch.isfinite(value).all() for value in policy.learn_mode.state_dict()["model"].values())


@pytest.mark.parametrize("manager", ["base", "subprocess", "gym_vector"])
def test_several_discrete_actions(manager):
    actions = spaces.MultiDiscrete([2, 3])
    run(lambda cfg: DingEnvWrapper(SampledEnv("box", actions), cfg), manager=manager, action_shape=[2, 3])


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_the_old_gym_api(manager):
    run(lambda cfg: DingEnvWrapper(OldEnv(), cfg), manager=manager)


class StrictEnv(BaseEnv):
    """An own env after the example of many: it takes arrays of one number, and nothing else."""

    observation_space = SPACES["box"]
    action_space = spaces.Discrete(2)
    reward_space = spaces.Box(0, 1, (1,), np.float32)

    def __init__(self, cfg):
        self._random = np.random.default_rng(0)

    def seed(self, seed, dynamic_seed=True):
        self._random = np.random.default_rng(seed)

    def reset(self):
        self._count = 0
        return self._random.random(4, np.float32)

    def step(self, action):
        if not isinstance(action, np.ndarray) or action.shape not in ((), (1,)):
            raise TypeError(f"expected an array of one number, found {action!r}")
        self._count += 1
        info = {"eval_episode_return": float(EPISODE)} if self._count == EPISODE else {}
        return BaseEnvTimestep(self._random.random(4, np.float32), np.ones(1, np.float32), bool(info), info)

    def close(self):
        """Nothing to close."""

    def __repr__(self):
        return "StrictEnv()"


@pytest.mark.parametrize("manager", ["base", "subprocess", "async_subprocess"])
def test_actions_of_a_run_are_arrays(manager):
    run(StrictEnv, manager=manager)
