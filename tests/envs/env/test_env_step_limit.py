"""``env.max_episode_steps`` truncates episodes, whatever env and manager."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict

from ding.config import compile_config
from ding.data import BaseEnvTimestep
from ding.entry import serial_pipeline
from ding.entry.view.callbacks import RunCallback
from ding.envs import (
    BaseEnv,
    BaseEnvManager,
    BaseEnvManagerV2,
    DingEnvWrapper,
    GymVectorEnvManager,
    SyncSubprocessEnvManager,
    create_env_manager,
)
from ding.envs.env.base_env import EnvConfigError


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {}


gymnasium.register("Endless-v0", entry_point=Endless)
gymnasium.register("Short-v0", entry_point=Endless, max_episode_steps=3)


class OwnEndless(BaseEnv):
    """An own env that knows nothing of limits."""

    observation_space = Endless.observation_space
    action_space = Endless.action_space
    reward_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, cfg=None):
        pass

    def seed(self, seed, dynamic_seed=True):
        pass

    def reset(self):
        return np.zeros(2, np.float32)

    def step(self, action):
        return BaseEnvTimestep(np.zeros(2, np.float32), np.ones(1, np.float32), False, {})

    def close(self):
        pass

    def __repr__(self):
        return "OwnEndless()"


def first_end(manager):
    """Steps, return and truncation of the first episode of env 0, and steps of its second one."""
    manager.launch()
    counts, ends = [0, 0], []
    try:
        while len(ends) < 2:
            step = manager.step({env_id: np.array([0]) for env_id in manager.ready_obs})[0]
            counts[len(ends)] += 1
            if step.done:
                ends.append(step.info)
            assert sum(counts) < 100
        return counts, np.asarray(ends[0]["eval_episode_return"]).item(), ends[0]["TimeLimit.truncated"]
    finally:
        manager.close()


MANAGERS = pytest.mark.parametrize("cls", [BaseEnvManager, SyncSubprocessEnvManager, GymVectorEnvManager])


@MANAGERS
@pytest.mark.parametrize("env_id", ["Endless-v0", "Short-v0"])
def test_an_env_of_gymnasium_gets_the_limit_of_the_config(cls, env_id):
    cfg = {"env_id": env_id, "max_episode_steps": 7}
    assert first_end(cls([partial(DingEnvWrapper, cfg=cfg)] * 2, {})) == ([7, 7], 7.0, True)


@MANAGERS
def test_an_own_env_gets_the_limit_of_its_manager(cls):
    assert first_end(cls([OwnEndless] * 2, {"max_episode_steps": 7})) == ([7, 7], 7.0, True)


def test_the_limit_counts_the_steps_of_the_policy():
    wrappers = [{"type": "max_and_skip", "kwargs": {"skip": 4}}, {"type": "eval_episode_return"}]
    cfg = {"env_id": "Endless-v0", "max_episode_steps": 7, "env_wrapper": wrappers}
    assert first_end(BaseEnvManager([partial(DingEnvWrapper, cfg=cfg)], {})) == ([7, 7], 28.0, True)


def test_an_env_that_was_made_by_the_script_is_limited_and_many_envs_together_too():
    made = [lambda: DingEnvWrapper(Endless(), {"max_episode_steps": 7})]
    assert first_end(BaseEnvManager(made, {})) == ([7, 7], 7.0, True)
    cartpole = GymVectorEnvManager([partial(DingEnvWrapper, cfg={"env_id": "CartPole-v1", "max_episode_steps": 4})], {})
    assert first_end(cartpole) == ([4, 4], 4.0, True)


def test_a_compiled_config_hands_the_limit_to_the_manager():
    main = EasyDict(
        env=dict(collector_env_num=1, evaluator_env_num=1, n_evaluator_episode=1, stop_value=9, max_episode_steps=7),
        policy=dict(model=dict(obs_shape=2, action_shape=2)),
    )
    create = EasyDict(env=dict(type="gymnasium"), env_manager=dict(type="base_v2"), policy=dict(type="dqn"))
    main.env.env_id = "Endless-v0"
    cfg = compile_config(main, auto=True, create_cfg=create, save_cfg=False)
    manager = create_env_manager(cfg.env.manager, [OwnEndless])
    assert isinstance(manager, BaseEnvManagerV2)
    manager.launch()
    dones = []
    for _ in range(7):
        _ = manager.ready_obs
        dones.append(bool(manager.step([np.array([0])])[0].done))
    manager.close()
    assert dones == [False] * 6 + [True]


@pytest.mark.parametrize("limit", [0, -3, 2.5, "10"])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(EnvConfigError, match="max_episode_steps must be a whole number of at least 1"):
        DingEnvWrapper(None, {"env_id": "Endless-v0", "max_episode_steps": limit})


def test_an_endless_env_is_warned_of_and_the_limit_that_the_warning_names_ends_it(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)

    class FirstEvaluation(RunCallback):
        returns = ()

        def on_evaluation(self, status):
            self.returns = status.returns
            return False

    main = EasyDict(
        exp_name="endless",
        env=dict(
            env_id="Endless-v0", collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2, stop_value=99,
            max_episode_steps=20,
        ),
        policy=dict(
            model=dict(obs_shape=2, action_shape=2),
            learn=dict(update_per_collect=1, batch_size=16),
            collect=dict(n_sample=32),
            eval=dict(evaluator=dict(warn_steps=10)),
            other=dict(replay_buffer=dict(replay_buffer_size=1000)),
        ),
    )  # fmt: skip
    create = EasyDict(env=dict(type="gymnasium"), env_manager=dict(type="base"), policy=dict(type="dqn"))
    noted = FirstEvaluation()
    serial_pipeline((main, create), seed=0, max_env_step=300, callbacks=[noted])
    assert noted.returns == (20.0, 20.0)
    assert "has made 10 steps in it. Limit episodes with env.max_episode_steps" in caplog.text
