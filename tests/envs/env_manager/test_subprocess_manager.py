"""The subprocess managers do what the base manager does, in other processes."""

import math
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import ding.data
from ding.data import EnvBatch, TimestepBatch
from ding.envs.env import DingEnvWrapper
from ding.envs.env_manager import (
    AsyncSubprocessEnvManager,
    BaseEnvManager,
    BaseEnvManagerV2,
    EnvManagerError,
    GymVectorEnvManager,
    SubprocessEnvManagerV2,
    SyncSubprocessEnvManager,
    create_env_manager,
    subprocess_env_manager,
)
from ding.envs.testing import CountingEnv, CountingGymEnv


def counting(**cfg):
    return lambda: CountingEnv(cfg)


def cartpole():
    return DingEnvWrapper(gymnasium.make("CartPole-v1"))


def pendulum():
    return DingEnvWrapper(gymnasium.make("Pendulum-v1", max_episode_steps=7), {"act_scale": True})


@pytest.fixture
def make():
    managers = []

    def build(cls, fns, **cfg):
        manager = cls(fns, cfg)
        managers.append(manager)
        return manager

    yield build
    for manager in managers:
        manager.close()


def test_shm_buffers_are_found_where_di_engine_has_them():
    assert subprocess_env_manager.ShmBuffer is ding.data.ShmBuffer
    assert subprocess_env_manager.ShmBufferContainer is ding.data.ShmBufferContainer


def assert_equal(left, right):
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_equal(left[key], right[key])
        return
    assert type(left) is type(right)
    np.testing.assert_array_equal(np.asarray(left), np.asarray(right))
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape


def trace(manager, steps, action):
    """Everything that a manager hands out in some steps."""
    manager.seed(3)
    manager.launch()
    seen = []
    for t in range(steps):
        obs = dict(manager.ready_obs)
        if not obs:
            break
        timesteps = manager.step({env_id: action(env_id, t) for env_id in obs})
        rows = {i: (s.obs, s.reward, s.done, dict(s.info)) for i, s in timesteps.items()}
        seen.append((obs, rows, timesteps.done.tolist(), timesteps.truncated.tolist()))
    return seen


def assert_same_trace(left, right):
    assert len(left) == len(right)
    for (obs, rows, *flags), (obs2, rows2, *flags2) in zip(left, right):
        assert_equal(obs, obs2)
        assert rows.keys() == rows2.keys()
        for i in rows:
            for a, b in zip(rows[i], rows2[i]):
                assert_equal(a, b)
        assert flags == flags2


def array_action(env_id, t):
    return np.array([(env_id + t) % 2], dtype=np.int64)


ENVS = {
    "lengths": [counting(episode_length=2 + i) for i in range(3)],
    "truncate": [counting(episode_length=3, truncate=True)] * 2,
    "dict": [counting(episode_length=3, dict_obs=True)] * 2,
    "info": [counting(episode_length=3, info_every_step=True)] * 2,
    "cartpole": [cartpole] * 3,
}


@pytest.mark.parametrize("cfg", [{}, {"shared_memory": False}, {"envs_per_worker": 2}], ids=str)
@pytest.mark.parametrize("name", ENVS)
def test_same_data_as_the_base_manager(make, name, cfg):
    base = trace(make(BaseEnvManager, ENVS[name]), 30, array_action)
    assert_same_trace(base, trace(make(SyncSubprocessEnvManager, ENVS[name], **cfg), 30, array_action))


def test_same_data_with_continuous_actions(make):
    def action(env_id, t):
        return np.array([math.sin(env_id + t)], dtype=np.float32)

    base = trace(make(BaseEnvManager, [pendulum] * 2), 20, action)
    assert_same_trace(base, trace(make(SyncSubprocessEnvManager, [pendulum] * 2), 20, action))


def test_same_episodes_with_a_limit(make):
    fns = ENVS["lengths"]
    base, sub = make(BaseEnvManager, fns, episode_num=2), make(SyncSubprocessEnvManager, fns, episode_num=2)
    assert_same_trace(trace(base, 50, array_action), trace(sub, 50, array_action))
    assert base.done
    assert sub.done
    assert sub.ready_obs_id == []
    assert all(sub.env_state_done(i) for i in range(3))


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (1, int),
        (np.array([1]), np.ndarray),
        (np.array([0.5, 1.0], np.float32), np.ndarray),
        ({"a": np.array([1.0]), "b": 2}, dict),
        # A tensor comes as an array, as in the own process: an env that was written for one works with both.
        (torch.tensor([1]), np.ndarray),
        ("left", str),
        ([1, "x"], list),
    ],
)
def test_actions_arrive_as_they_are(make, action, kind):
    manager = make(SyncSubprocessEnvManager, [counting(info_every_step=True)] * 2)
    manager.launch()
    info = manager.step({0: action, 1: action})[1].info
    assert type(info["action"]) is kind
    assert_equal(info["action"], action.numpy() if isinstance(action, torch.Tensor) else action)


def test_actions_may_change_their_form_in_the_middle(make):
    manager = make(SyncSubprocessEnvManager, [counting(info_every_step=True, episode_length=9)] * 2)
    manager.launch()
    for action in (1, np.array([1]), np.array([0.5, 2.0]), "left", {"a": 1}, 1):
        assert_equal(manager.step({0: action, 1: action})[0].info["action"], action)
    assert manager.step({0: np.zeros(2), 1: np.zeros(3)})[1].info["action"].shape == (3,)


def test_columns_of_actions_go_by_id(make):
    manager = make(SyncSubprocessEnvManager, [counting(info_every_step=True)] * 3)
    manager.launch()
    step = manager.step(EnvBatch([2, 0], np.array([[20], [0]])))
    assert isinstance(step, TimestepBatch)
    assert list(step) == [2, 0]
    assert step[2].info["action"].tolist() == [20]
    assert step[0].info["action"].tolist() == [0]
    assert [o.tolist() for o in manager.ready_obs.values()] == [[0, 1], [0, 0], [0, 1]]


def test_what_was_handed_out_does_not_change(make):
    manager = make(SyncSubprocessEnvManager, [counting(episode_length=4)] * 2)
    manager.launch()
    first = manager.ready_obs.columns
    step = manager.step({0: 1, 1: 1})
    manager.step({0: 1, 1: 1})
    manager.reset()
    np.testing.assert_array_equal(first, [[0, 0], [0, 0]])
    np.testing.assert_array_equal(step.obs, [[0, 1], [0, 1]])
    np.testing.assert_array_equal(step.reward, [[1], [1]])


def test_views_without_copy_on_get(make):
    manager = make(SyncSubprocessEnvManager, [counting(episode_length=9)] * 2, copy_on_get=False)
    manager.launch()
    view = manager.step({0: 1, 1: 1}).obs
    manager.step({0: 1, 1: 1})
    np.testing.assert_array_equal(view, [[0, 2], [0, 2]])


def test_reset_inplace_returns_the_next_first_observation(make):
    manager = make(
        SyncSubprocessEnvManager, [counting(episode_length=2), counting(episode_length=3)], reset_inplace=True
    )
    manager.launch()
    manager.step({0: 1, 1: 1})
    step = manager.step({0: 1, 1: 1})
    assert step.done.tolist() == [True, False]
    np.testing.assert_array_equal(step.obs, [[1, 0], [0, 2]])
    np.testing.assert_array_equal(manager.ready_obs.columns, [[1, 0], [0, 2]])


def test_without_auto_reset_the_caller_resets(make):
    manager = make(SyncSubprocessEnvManager, [counting(episode_length=1)] * 2, auto_reset=False, episode_num=2)
    manager.launch()
    manager.step({0: 1})
    assert manager.ready_obs_id == [1]
    with pytest.raises(AssertionError, match="its state is NEED_RESET"):
        manager.step({0: 1})
    manager.reset({0: None})
    assert manager.ready_obs_id == [0, 1]
    manager.step({0: 1})
    assert manager.env_state_done(0)


def test_reset_arguments_are_remembered(make):
    manager = make(SyncSubprocessEnvManager, [counting(episode_length=1)] * 2)
    manager.launch({0: {"level": 1}, 1: None})
    manager.step({0: 1, 1: 1})
    manager.reset({1: {"level": 2}})
    assert manager.reset_kwargs == [[{"level": 1}, {"level": 1}], [{}, {}, {"level": 2}]]


@pytest.mark.parametrize(
    ("seed", "dynamic", "expected"),
    [
        (5, None, [[(5, True)], [(6, True)]]),
        ([1, 9], False, [[(1, False)], [(9, False)]]),
        ({1: 7}, True, [[], [(7, True)]]),
    ],
)
def test_seeds_arrive_once(make, seed, dynamic, expected):
    manager = make(SyncSubprocessEnvManager, [counting(episode_length=1)] * 2)
    manager.seed(seed, dynamic)
    manager.launch()
    manager.step({0: 1, 1: 1})
    assert manager.seeds == expected


class DancingEnv(CountingEnv):
    def dance(self):
        return "a step"


def test_attribute_access_rules(make):
    manager = make(SyncSubprocessEnvManager, [DancingEnv] * 2)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = manager.no_such_thing
    manager.launch()
    with pytest.raises(RuntimeError, match="dance"):
        manager.dance()
    assert manager.seeds == [[], []]
    assert manager.env_num == 2
    with pytest.raises(EnvManagerError, match="Env 0 render raised: NotImplementedError") as caught:
        _ = manager.ready_imgs
    assert "Traceback" in caught.value.original
    assert not manager.closed


def test_frames_of_the_envs(make):
    manager = make(SyncSubprocessEnvManager, [lambda: DingEnvWrapper(CountingGymEnv(render_mode="rgb_array"))] * 2)
    manager.launch()
    manager.step({1: 1})
    frames = manager.ready_imgs
    assert frames[0].shape == (16, 16, 3)
    assert [int(frames[i].max()) for i in (0, 1)] == [0, 1]


def test_misuse_is_reported(make):
    manager = make(SyncSubprocessEnvManager, [counting(episode_length=1)] * 2, episode_num=1)
    with pytest.raises(AssertionError, match="closed"):
        manager.step({0: 1})
    with pytest.raises(AssertionError, match="closed"):
        manager.reset()
    manager.launch()
    with pytest.raises(AssertionError, match="close"):
        manager.launch()
    with pytest.raises(ValueError, match="at least one"):
        manager.step({})
    manager.step({0: 1})
    with pytest.raises(AssertionError, match="env 0 cannot be stepped: its state is DONE"):
        manager.step({0: 1})
    with pytest.raises(AssertionError, match="no env 7"):
        manager.step({7: 1})


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("context", "frok", "Did you mean 'fork'"),
        ("envs_per_worker", 0, "envs_per_worker"),
        ("step_timeout", -1, "step_timeout"),
        ("retry_type", "again", "retry_type"),
    ],
)
def test_bad_config_is_reported(key, value, text):
    with pytest.raises(ValueError, match=text):
        SyncSubprocessEnvManager([counting()], {key: value})


def test_a_manager_can_be_launched_again(make):
    manager = make(SyncSubprocessEnvManager, [counting()] * 2)
    for _ in range(2):
        manager.launch()
        assert manager.step({0: 1, 1: 1}).obs.tolist() == [[0, 1], [0, 1]]
        manager.close()
        assert manager.closed
        assert manager.ready_obs_id == []


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_other_start_methods(make, context):
    manager = make(SyncSubprocessEnvManager, [counting(episode_length=2)] * 2, context=context)
    manager.launch()
    assert manager.step({0: 1, 1: 1}).obs.tolist() == [[0, 1], [0, 1]]


def test_v2_interface_equals_that_of_the_base_manager(make):
    fns = ENVS["lengths"]
    base, sub = make(BaseEnvManagerV2, fns, episode_num=2), make(SubprocessEnvManagerV2, fns, episode_num=2)
    base.launch()
    sub.launch()
    while not base.done:
        left, right = base.ready_obs, sub.ready_obs
        assert_equal(left, right)
        actions = [np.array([1])] * len(left)
        for a, b in zip(base.step(actions), sub.step(actions)):
            assert dict(a).keys() == dict(b).keys()
            assert a.env_id == b.env_id
            assert_equal(dict(a.info), dict(b.info))
            assert_equal(a.obs, b.obs)
    assert sub.done
    assert sub.ready_obs.shape == (0, 2)


def test_factory_knows_all_three():
    for name, cls in (
        ("subprocess", SyncSubprocessEnvManager),
        ("async_subprocess", AsyncSubprocessEnvManager),
        ("subprocess_v2", SubprocessEnvManagerV2),
    ):
        manager = create_env_manager({"type": name, "episode_num": 3}, [counting()])
        assert type(manager) is cls


class RecordingEnv(CountingEnv):
    """Makes the folder into which it is asked to record."""

    def enable_save_replay(self, replay_path):
        Path(replay_path).mkdir()


@pytest.mark.parametrize("cls", [BaseEnvManager, SyncSubprocessEnvManager, AsyncSubprocessEnvManager])
@pytest.mark.parametrize("launched", [False, True])
def test_episodes_are_recorded_from_the_next_launch_or_reset_on(make, tmp_path, cls, launched):
    folders = [str(tmp_path / name) for name in "ab"]
    manager = make(cls, [lambda: RecordingEnv({})] * 2)
    if launched:
        manager.launch()
    manager.enable_save_replay(folders)
    manager.enable_save_replay(None)
    (manager.reset if launched else manager.launch)()
    assert list(tmp_path.iterdir()) == []
    manager.enable_save_replay(folders)
    manager.reset()
    assert sorted(map(str, tmp_path.iterdir())) == folders
    with pytest.raises(ValueError, match="1 replay paths for 2 envs"):
        manager.enable_save_replay(folders[:1])


def episode_lengths(manager):
    """Steps of each env until the manager is done."""
    steps = dict.fromkeys(range(manager.env_num), 0)
    while not manager.done:
        obs = manager.ready_obs
        manager.step(EnvBatch(obs.env_ids, torch.zeros(len(obs), 1, dtype=torch.int64)))
        for env_id in obs.env_ids.tolist():
            steps[env_id] += 1
    return steps


@pytest.mark.parametrize(
    "cls", [BaseEnvManager, SyncSubprocessEnvManager, AsyncSubprocessEnvManager, GymVectorEnvManager]
)
def test_relaunched_envs_are_the_same_and_count_their_episodes_anew(make, cls):
    one = partial(partial, CountingGymEnv) if cls is GymVectorEnvManager else counting
    fns = [one(episode_length=2), one(episode_length=3)]
    manager = make(cls, fns, episode_num=2)
    manager.launch()
    assert episode_lengths(manager) == {0: 4, 1: 6}
    manager.relaunch()
    assert not manager.done
    episodes, steps = np.asarray(manager.ready_obs.columns).T.tolist()
    assert min(episodes) >= 2
    assert steps == [0, 0]
    assert episode_lengths(manager) == {0: 4, 1: 6}
    manager.close()
    with pytest.raises(AssertionError, match="closed"):
        manager.relaunch()
