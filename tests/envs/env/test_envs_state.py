"""An env that goes on from a saved state does what the env did that was saved."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from ding.data.safe_file import read_tree, write_tree
from ding.envs import BaseEnvManager, DingEnvWrapper, EnvManagerError, SyncSubprocessEnvManager, get_env_cls
from ding.envs.env.state import EnvStateError, env_state, set_env_state

NORMS = [{"type": "obs_norm"}, {"type": "reward_norm", "kwargs": {"reward_discount": 0.9}}]
STACK = [{"type": "frame_stack", "kwargs": {"n_frames": 3}}]
GYM = [
    "CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0",
    "FrozenLake-v1", "CliffWalking-v1", "Blackjack-v1",
]  # fmt: skip
OURS = ["line_cover", "bitflip", "gym_hybrid", "maze", "t_maze"]


class Walk(gymnasium.Env):
    """A random walk of someone else's, whose state is not known by its class."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.0
        return self._obs(), {}

    def step(self, action):
        self.place += action + self.np_random.normal()
        return self._obs(), 1.0, abs(self.place) > 15, False, {}

    def _obs(self):
        return np.array([self.place], dtype=np.float32)


class SavedWalk(Walk):
    def get_state(self):
        return {"place": self.place, "random": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.place = state["place"]
        self.np_random.bit_generator.state = state["random"]


class BrokenWalk(SavedWalk):
    def get_state(self):
        raise KeyError("mine")


def gym_env(env_id, wrappers=()):
    return DingEnvWrapper(cfg={"env_id": env_id, "env_wrapper": [*wrappers, {"type": "eval_episode_return"}]})


def own_env(name):
    return get_env_cls({"type": name})({})


def walk(kind=SavedWalk):
    return DingEnvWrapper(gymnasium.wrappers.TimeLimit(kind(), 40))


MAKERS = {
    **{name: partial(gym_env, name) for name in GYM},
    "norms": partial(gym_env, "CartPole-v1", NORMS),
    "stack": partial(gym_env, "CartPole-v1", STACK),
    **{name: partial(own_env, name) for name in OURS},
    "with its own methods": walk,
}


def played(env, steps: int) -> bytes:
    """What comes of the same actions."""
    seen = []
    for number in range(steps):
        env.action_space.seed(number)
        timestep = env.step(env.random_action())
        seen += [timestep.obs, timestep.reward, timestep.done]
        if timestep.done:
            seen.append(env.reset())
    return as_bytes(seen)


def as_bytes(value) -> bytes:
    if isinstance(value, dict):
        return b"".join(as_bytes(value[key]) for key in sorted(value))
    if isinstance(value, (list, tuple)):
        return b"".join(map(as_bytes, value))
    return np.asarray(value).tobytes()


def through_a_file(state, tmp_path):
    write_tree(tmp_path / "state", state, "test")
    return read_tree(tmp_path / "state", "test")


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_another_env_goes_on_where_the_first_one_was(make, tmp_path) -> None:
    first, second = make(), make()
    for seed, env in enumerate((first, second)):
        env.seed(seed)
        env.reset()
    played(first, 33)
    saved = through_a_file(env_state(first), tmp_path)
    played(second, 7)
    second.reset()
    set_env_state(second, saved)
    assert played(first, 60) == played(second, 60)
    first.close()
    second.close()


@pytest.mark.parametrize("env_id", ["Hopper-v5", "Ant-v5", "InvertedPendulum-v5"])
def test_mujoco_goes_on_with_observations_that_are_one_step_old(env_id, tmp_path) -> None:
    pytest.importorskip("mujoco")
    test_another_env_goes_on_where_the_first_one_was(partial(gym_env, env_id), tmp_path)


@pytest.mark.parametrize(
    ("make", "word"), [(partial(walk, Walk), "Walk"), (partial(walk, BrokenWalk), "get_state raised KeyError: 'mine'")]
)
def test_an_env_without_a_state_says_so(make, word) -> None:
    env = make()
    env.reset()
    with pytest.raises(EnvStateError, match=word):
        env_state(env)


def test_a_state_of_another_env_is_refused() -> None:
    cartpole, pendulum = gym_env("CartPole-v1"), gym_env("Pendulum-v1")
    cartpole.reset()
    pendulum.reset()
    with pytest.raises(EnvStateError, match="was a CartPoleEnv and is a PendulumEnv"):
        set_env_state(pendulum, env_state(cartpole))


MANAGERS = {
    "base": BaseEnvManager,
    "subprocess": SyncSubprocessEnvManager,
    "pickled": partial(SyncSubprocessEnvManager, cfg={"shared_memory": False}),
}


def launched(kind, make, seed: int):
    manager = MANAGERS[kind]([make] * 2)
    manager.seed(seed)
    manager.launch()
    return manager


def played_by(manager, steps: int) -> bytes:
    seen = [manager.ready_obs.columns]
    for number in range(steps):
        timesteps = manager.step({env_id: np.array([(number + env_id) % 2]) for env_id in manager.ready_obs_id})
        returns = [info.get("eval_episode_return", 0.0) for info in timesteps.infos.values()]
        seen += [timesteps.obs, timesteps.reward, timesteps.done, returns, manager.ready_obs.columns]
    return as_bytes(seen)


# Without shared memory the env sums its return, and not the manager.
@pytest.mark.parametrize(
    ("first_kind", "second_kind"),
    [("base", "base"), ("base", "subprocess"), ("subprocess", "base"), ("subprocess", "subprocess")]
    + [("pickled", "pickled")],
)
def test_another_manager_goes_on_in_all_envs(first_kind, second_kind, tmp_path) -> None:
    make = partial(gym_env, "CartPole-v1")
    first, second = launched(first_kind, make, 0), launched(second_kind, make, 5)
    played_by(first, 13)
    saved = through_a_file(first.get_state(), tmp_path)
    second.set_state(saved)
    assert played_by(first, 60) == played_by(second, 60)
    first.close()
    second.close()


@pytest.mark.parametrize("kind", ["base", "subprocess"])
def test_a_manager_refuses_what_does_not_fit_and_can_be_reset(kind) -> None:
    first, second = launched(kind, partial(walk, Walk), 0), launched(kind, partial(gym_env, "CartPole-v1"), 0)
    with pytest.raises((EnvStateError, EnvManagerError), match="Walk"):
        first.get_state()
    states = second.get_state()
    with pytest.raises(EnvStateError, match="1 states for 2 envs"):
        second.set_state(states[:1])
    other = launched(kind, partial(gym_env, "Acrobot-v1"), 0)
    with pytest.raises((EnvStateError, EnvManagerError), match="was a CartPoleEnv and is a AcrobotEnv"):
        other.set_state(states)
    for manager in (first, second, other):
        manager.reset()
        assert manager.ready_obs_id == [0, 1]
        manager.close()
