"""Each episode of an evaluation has a start seed of its own, which is the same in all evaluations of a run."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium.vector import AutoresetMode

from ding.bonus import DQNAgent
from ding.data import BaseEnvTimestep
from ding.entry import eval as evaluate_entry
from ding.entry import serial_pipeline
from ding.entry.view.callbacks import RunCallback
from ding.envs import (
    AsyncSubprocessEnvManager,
    BaseEnv,
    BaseEnvManager,
    BaseEnvManagerV2,
    DingEnvWrapper,
    GymVectorEnvManager,
    SyncSubprocessEnvManager,
)
from ding.framework import OnlineRLContext, task
from ding.framework.middleware import interaction_evaluator
from ding.rollout import seed_evaluation
from ding.utils.seed import SeedTree
from ding.worker import BattleInteractionSerialEvaluator, InteractionSerialEvaluator
from ding.worker.testing import BatchedScriptedPolicy, ScriptedPolicy

NUM_EPISODES = 20


class Drawn(gymnasium.Env):
    """The return of an episode is its first random number; its length is another one."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._return, self._left = self.np_random.random(), int(self.np_random.integers(1, 5))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._left -= 1
        return np.zeros(1, np.float32), self._return if self._left == 0 else 0.0, self._left == 0, False, {}


gymnasium.register("Drawn-v0", entry_point=Drawn)


class OwnEnv(BaseEnv):
    """An env as those of DI-engine are: ``seed`` notes the seed, ``reset`` draws from it."""

    observation_space = Drawn.observation_space
    action_space = Drawn.action_space
    reward_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def __init__(self, cfg=None):
        self._random = np.random.RandomState(0)

    def seed(self, seed, dynamic_seed=True):
        self._seed, self._dynamic_seed = seed, dynamic_seed

    def reset(self):
        if self._dynamic_seed:
            self._seed += 1
        self._return = float(np.random.RandomState(self._seed).rand())
        return np.zeros(1, np.float32)

    def step(self, action):
        reward = np.array([self._return], np.float32)
        return BaseEnvTimestep(np.zeros(1, np.float32), reward, True, {"eval_episode_return": self._return})

    def close(self):
        pass

    def __repr__(self):
        return "OwnEnv()"


class OldManager(BaseEnvManager):
    """A manager of one's own that knows no seeds of episodes."""

    seed_episodes = None


def drawn_returns(seed, count=NUM_EPISODES):
    """The returns of the first episodes that follow from a run's seed."""
    seeds = SeedTree(seed).env_seeds(count, "evaluator", purpose="evaluate")
    return sorted(np.random.Generator(np.random.PCG64(one)).random() for one in seeds)


def manager_of(cls, env_num, **cfg):
    return cls([partial(DingEnvWrapper, cfg={"env_id": "Drawn-v0"}) for _ in range(env_num)], cfg)


def evaluator_of(env, n_episode=NUM_EPISODES):
    cfg = InteractionSerialEvaluator.default_config()
    cfg.update(stop_value=1e9, n_episode=n_episode)
    return InteractionSerialEvaluator(cfg, env, BatchedScriptedPolicy().eval_mode)


def returns_of(evaluator):
    return evaluator.eval(train_iter=0)[1]["eval_episode_return"]


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("env_num", [1, 3, 5])
@pytest.mark.parametrize(
    "cls", [BaseEnvManager, BaseEnvManagerV2, SyncSubprocessEnvManager, AsyncSubprocessEnvManager, GymVectorEnvManager]
)
def test_the_seed_of_the_run_says_which_episodes_an_evaluation_plays_whatever_plays_them(cls, env_num):
    env = manager_of(cls, env_num)
    seed_evaluation(env, 7)
    evaluator = evaluator_of(env)
    try:
        first = returns_of(evaluator)
        assert sorted(first) == pytest.approx(drawn_returns(7))
        assert returns_of(evaluator) == first
    finally:
        evaluator.close()


def test_the_envs_of_vectorised_cartpole_play_the_episodes_of_single_ones():
    def lengths(cls):
        env = cls([partial(DingEnvWrapper, cfg={"env_id": "CartPole-v1"}) for _ in range(3)], {})
        seed_evaluation(env, 0)
        evaluator = evaluator_of(env, 9)
        try:
            return [returns_of(evaluator) for _ in range(2)]
        finally:
            evaluator.close()

    single, vectorised = lengths(BaseEnvManager), lengths(GymVectorEnvManager)
    assert single[0] == single[1] == vectorised[0] == vectorised[1]
    assert len(set(single[0])) > 1


@pytest.mark.parametrize("cls", [BaseEnvManager, SyncSubprocessEnvManager, GymVectorEnvManager])
def test_scripts_that_give_fixed_seeds_by_hand_get_distinct_episodes_too(cls):
    env = manager_of(cls, 4)
    env.seed(3, dynamic_seed=False)
    evaluator = evaluator_of(env)
    try:
        first = returns_of(evaluator)
        assert len(set(first)) == NUM_EPISODES
        assert returns_of(evaluator) == first
        # The first episode of each env is that of its seed.
        own = [np.random.Generator(np.random.PCG64(3 + env_id)).random() for env_id in range(4)]
        assert first[:: NUM_EPISODES // 4] == pytest.approx(own)
    finally:
        evaluator.close()


def test_envs_with_fixed_seeds_that_are_not_evaluated_repeat_their_episodes():
    env = manager_of(BaseEnvManager, 1)
    env.seed(3, dynamic_seed=False)
    env.launch()
    rewards = []
    while len(rewards) < 3:
        step = env.step({0: np.array([0])})[0]
        if step.done:
            rewards.append(float(step.reward[0]))
    assert len(set(rewards)) == 1
    env.close()


def test_own_envs_in_the_style_of_di_engine_and_own_managers_work():
    env = BaseEnvManager([OwnEnv] * 5, {})
    seed_evaluation(env, 0)
    evaluator = evaluator_of(env)
    first = returns_of(evaluator)
    assert len(set(first)) == NUM_EPISODES
    assert returns_of(evaluator) == first
    old = OldManager([OwnEnv] * 5, {})
    seed_evaluation(old, 0)
    again = returns_of(evaluator_of(old, 5))
    assert again == first[:: NUM_EPISODES // 5]


def test_an_abnormal_episode_is_played_again_from_its_seed():
    class Breaks(OwnEnv):
        broken = False

        def step(self, action):
            step = super().step(action)
            if not Breaks.broken and self._return > 0.5:
                Breaks.broken = True
                step.info["abnormal"] = True
            return step

    def returns(cls):
        env = BaseEnvManager([cls] * 2, {})
        seed_evaluation(env, 0)
        return returns_of(evaluator_of(env, 10))

    assert returns(Breaks) == returns(OwnEnv)
    assert Breaks.broken


def test_a_battle_is_evaluated_on_the_same_distinct_episodes():
    class Battle(OwnEnv):
        def step(self, action):
            info = {"eval_episode_return": self._return}
            return BaseEnvTimestep(np.zeros((2, 1), np.float32), np.array([0.0, 0.0]), True, [info, info])

        def reset(self):
            super().reset()
            return np.zeros((2, 1), np.float32)

    env = BaseEnvManager([Battle] * 2, {})
    seed_evaluation(env, 0)
    cfg = BattleInteractionSerialEvaluator.default_config()
    cfg.update(stop_value=1e9, n_episode=8)
    evaluator = BattleInteractionSerialEvaluator(cfg, env, [ScriptedPolicy().eval_mode, ScriptedPolicy().eval_mode])
    first, again = ([info["eval_episode_return"] for info in evaluator.eval(train_iter=0)[1][0]] for _ in range(2))
    assert first == again
    assert len(set(first)) == 8


def configs(exp_name):
    main = EasyDict(
        exp_name=exp_name,
        env=dict(
            env_id="Drawn-v0", collector_env_num=2, evaluator_env_num=5, n_evaluator_episode=NUM_EPISODES, stop_value=9
        ),
        policy=dict(
            model=dict(obs_shape=1, action_shape=2, encoder_hidden_size_list=[8]),
            learn=dict(update_per_collect=1, batch_size=4),
            collect=dict(n_sample=8),
            eval=dict(evaluator=dict(eval_freq=2)),
            other=dict(replay_buffer=dict(replay_buffer_size=100)),
        ),
    )
    create = EasyDict(env=dict(type="gymnasium"), env_manager=dict(type="base"), policy=dict(type="dqn"))
    return main, create


class Returns(RunCallback):
    def __init__(self):
        self.seen = []

    def on_evaluation(self, status):
        self.seen.append(status.returns)


def test_all_evaluations_of_a_pipeline_play_the_same_distinct_episodes_and_eval_plays_them_too():
    noted = Returns()
    serial_pipeline(configs("run"), seed=4, max_train_iter=4, callbacks=[noted])
    assert len(noted.seen) >= 2
    assert len(set(noted.seen)) == 1
    assert sorted(noted.seen[0]) == pytest.approx(drawn_returns(4))
    mean = evaluate_entry(configs("run"), seed=4, load_path="run/ckpt/ckpt_best.pth.tar")
    assert mean == pytest.approx(np.mean(drawn_returns(4)))


def test_the_evaluator_of_a_task_plays_the_same_distinct_episodes():
    cfg = EasyDict(
        seed=4,
        env=dict(n_evaluator_episode=NUM_EPISODES, stop_value=9),
        policy=dict(eval=dict(evaluator=dict(eval_freq=1))),
    )
    evaluate = interaction_evaluator(cfg, BatchedScriptedPolicy().eval_mode, manager_of(BaseEnvManager, 5))
    seen = []
    for train_iter in range(2):
        with task.start(ctx=OnlineRLContext(train_iter=train_iter)):
            evaluate(task.ctx)
            seen.append(task.ctx.eval_output["episode_return"])
    assert seen[0] == seen[1]
    assert sorted(seen[0]) == pytest.approx(drawn_returns(4))


def test_an_agent_evaluates_on_the_same_distinct_episodes():
    agent = DQNAgent("Drawn-v0", seed=4, exp_name="agent")
    found = [agent.batch_evaluate(env_num=2, n_evaluator_episode=6) for _ in range(2)]
    expected = drawn_returns(4, 6)
    assert found[0] == found[1]
    assert found[0].eval_value == pytest.approx(np.mean(expected))
    assert found[0].eval_value_std == pytest.approx(np.std(expected))


@pytest.mark.parametrize(
    ("mode", "n_episode", "warns"),
    [
        (AutoresetMode.SAME_STEP, 7, True),
        (AutoresetMode.NEXT_STEP, 9, True),
        (AutoresetMode.SAME_STEP, 3, False),
        (AutoresetMode.DISABLED, 8, False),
    ],
)
def test_envs_that_reset_themselves_are_warned_about(mode, n_episode, warns, caplog):
    env = GymVectorEnvManager([lambda: gymnasium.vector.SyncVectorEnv([Drawn] * 3, autoreset_mode=mode)])
    seed_evaluation(env, 7)
    evaluator = evaluator_of(env, n_episode)
    try:
        found = [returns_of(evaluator) for _ in range(2)]
    finally:
        evaluator.close()
    text = f"With env.evaluator_env_num={n_episode}, as many as env.n_evaluator_episode"
    assert (text in caplog.text) == warns
    if not warns:
        assert sorted(found[0]) == sorted(found[1]) == pytest.approx(drawn_returns(7, n_episode))


def test_games_of_ale_py_begin_from_the_seeds_of_their_episodes():
    games = pytest.importorskip("ale_py.vector_env").AtariVectorEnv

    def lasts(env_num, num_episodes):
        """The last observations of the episodes, by which time the ball is in play."""
        env = GymVectorEnvManager([partial(games, "pong", env_num, max_num_frames_per_episode=240, num_threads=1)])
        seed_evaluation(env, 7)
        env.launch()
        seen: dict[int, np.ndarray] = {}
        played = [0] * env_num
        while len(seen) < num_episodes:
            timesteps = env.step({env_id: np.array(0) for env_id in env.ready_obs})
            for env_id in np.flatnonzero(timesteps.done).tolist():
                seen[env_id + played[env_id] * env_num] = np.array(timesteps.obs[env_id])
                played[env_id] += 1
        env.close()
        return [seen[index] for index in range(num_episodes)]

    one, two = lasts(1, 3), lasts(2, 4)
    for index in range(3):
        np.testing.assert_array_equal(one[index], two[index])
    assert len({frames.tobytes() for frames in two}) == 4
