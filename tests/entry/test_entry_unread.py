"""What a run cannot use is warned of: a mask in the info, and an ``nstep`` beyond the steps collected at a time."""

import logging

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete

from ding.entry import serial_pipeline
from ding.envs import DingEnvWrapper
from ding.utils.messages import one_time_warning

MASK = np.array([1, 0], np.int8)


class MaskedEnv(gymnasium.Env):
    """Episodes of three steps with a mask in the info, and in the observation if ``seen``."""

    action_space = Discrete(2)

    def __init__(self, seen: bool) -> None:
        box = Box(0, 1, (2,), np.float32)
        self._seen, self._time = seen, 0
        self.observation_space = Dict(observation=box, action_mask=Box(0, 1, (2,), np.int8)) if seen else box

    def _obs(self):
        obs = np.zeros(2, np.float32)
        return {"observation": obs, "action_mask": MASK} if self._seen else obs

    def reset(self, *, seed=None, options=None):
        self._time = 0
        return self._obs(), {"action_mask": MASK}

    def step(self, action):
        self._time += 1
        return self._obs(), 1.0, self._time == 3, False, {"action_mask": MASK}


@pytest.fixture
def warned(caplog):
    """Return whether a text was logged as a warning."""
    one_time_warning.cache_clear()
    caplog.set_level(logging.WARNING)
    yield lambda text: any(text in record.getMessage() for record in caplog.records)
    one_time_warning.cache_clear()


@pytest.mark.parametrize("seen", [False, True])
def test_a_mask_in_the_info_that_nobody_reads(seen, warned):
    DingEnvWrapper(MaskedEnv(seen), EasyDict()).reset()
    assert warned("info['action_mask'], which policies do not read") != seen


@pytest.mark.parametrize(("n_sample", "short"), [(4, True), (6, False)])
def test_returns_that_are_shorter_than_nstep(n_sample, short, warned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main = EasyDict(
        exp_name="exp",
        env=dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, max_episode_steps=3),
        policy=dict(
            model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[4]),
            nstep=3,
            collect=dict(n_sample=n_sample),
            eval=dict(evaluator=dict(eval_freq=100)),
        ),
    )
    create = EasyDict(env=dict(type="gymnasium"), env_manager=dict(type="base"), policy=dict(type="dqn"))
    serial_pipeline((main, create), seed=0, max_env_step=1)
    assert warned("policy.nstep is 3, but returns have at most 2 step(s)") == short
