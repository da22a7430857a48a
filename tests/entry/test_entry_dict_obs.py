"""Dict observations with the networks of actor-critic algorithms with Q functions, in pipelines and agents."""

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium import spaces

import ding
from ding.bonus import DDPGAgent, SACAgent, TD3Agent
from ding.entry import serial_pipeline

EPISODE = 5


class DictEnv(gymnasium.Env):
    """A vector and an image; the reward is the action where the vector says so, minus it elsewhere."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-1, 1, (2,), np.float32), "view": spaces.Box(0, 1, (1, 36, 36), np.float32)}
    )

    def __init__(self, actions=None):
        self.action_space = actions or spaces.Box(0, 4, (1,), np.float32)

    def _obs(self):
        self._sign = 1.0 if self.np_random.random() < 0.5 else -1.0
        return {"place": np.full(2, self._sign, np.float32), "view": np.zeros((1, 36, 36), np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._count = 0
        return self._obs(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self._count += 1
        reward = self._sign * float(np.sum(action))
        return self._obs(), reward, self._count == EPISODE, False, {}


gymnasium.register("DictActs-v0", DictEnv)
gymnasium.register("DictTypes-v0", DictEnv, kwargs={"actions": spaces.Discrete(2)})


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("policy", ["sac", "td3", "ddpg", "discrete_sac"])
@pytest.mark.parametrize("share", [False, True])
def test_a_pipeline(policy, share):
    discrete = policy == "discrete_sac"
    shapes = {"obs_shape": {"place": 2, "view": [1, 36, 36]}, "action_shape": 2 if discrete else 1}
    main = EasyDict(
        exp_name="e",
        env={
            "env_id": "DictTypes-v0" if discrete else "DictActs-v0",
            "collector_env_num": 2,
            "evaluator_env_num": 2,
            "n_evaluator_episode": 2,
            "stop_value": 1e9,
        },
        policy={
            "random_collect_size": 0,
            "model": {**shapes, "encoder_hidden_size_list": [16, 8], "share_encoder": share},
            "learn": {"update_per_collect": 2, "batch_size": 8},
            "collect": {"n_sample": 16},
            "other": {"replay_buffer": {"replay_buffer_size": 64}},
        },
    )
    if discrete:
        main.policy.other.eps = EasyDict(type="linear", start=0.5, end=0.5, decay=10)
    create = EasyDict(env={"type": "gymnasium"}, env_manager={"type": "base"}, policy={"type": policy})
    trained = serial_pipeline((main, create), seed=0, max_env_step=48)
    names = trained.learn_mode.state_dict()["model"]
    assert any("actor_encoder" in name for name in names)


@pytest.mark.parametrize("cls", [SACAgent, TD3Agent, DDPGAgent])
def test_an_agent(cls):
    small = {
        "random_collect_size": 16,
        "learn": {"batch_size": 8, "update_per_collect": 1},
        "collect": {"n_sample": 16},
    }
    agent = cls("DictActs-v0", exp_name="a", cfg={"policy": small})
    agent.train(step=48, collector_env_num=2, evaluator_env_num=2)
    obs = DictEnv.observation_space.sample()
    action = agent.predict(obs)
    assert DictEnv().action_space.contains(action)
    np.testing.assert_array_equal(ding.load("a", checkpoint="last").predict(obs), agent.predict(obs))
