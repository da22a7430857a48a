"""What a pool manager hands out is what EnvPool's envs emit one by one.

EnvPool's envs are compiled, so that generated envs cannot be put behind its manager. Generated here are the settings:
the task, the number of envs, how many a step waits for, episode lengths, seeds, and resets in between. The reference is
a pool of one env for each env.
"""

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from easydict import EasyDict
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ding.envs import DingEnvWrapper, PoolEnvManager, create_env_manager

envpool = pytest.importorskip("envpool")
# EnvPool's spaces have float64 bounds for float32 boxes.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")

# Envs that gymnasium can make here, too, and others: numbers, whole numbers and doubles as observations.
SHARED = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1")
OWN = ("FrozenLake-v1", "Taxi-v3", "NChain-v0", "Blackjack-v1", "Catch-v0", "LunarLander-v3", "Hopper-v4")


@dataclass(frozen=True)
class PoolSpec:
    """What a pool is made of, and what is done with it."""

    task: str
    num_envs: int
    batch_size: int
    max_episode_steps: int
    seed: int
    episode_num: float
    act_scale: bool
    #: Before which vector steps all envs are reset (-1), or the env of that number.
    resets: dict[int, int]
    num_steps: int = 12

    @property
    def from_env(self) -> bool:
        """Whether the pool is made from envs of a config, and not from the config of the manager alone."""
        return self.task in SHARED

    @property
    def atol(self) -> float:
        """By how much numbers may differ: scaled actions are rounded in another order."""
        return 1e-4 if self.from_env and self.act_scale else 0.0

    @property
    def first_resets(self) -> int:
        """How often each env is reset at the start: as often as whole batches need."""
        return self.batch_size // math.gcd(self.batch_size, self.num_envs)

    def make(self) -> PoolEnvManager:
        """The manager."""
        cfg = {"num_threads": 1, "batch_size": self.batch_size, "episode_num": self.episode_num}
        if not self.from_env:
            own = {"env_id": self.task, "env_num": self.num_envs, "max_episode_steps": self.max_episode_steps}
            return PoolEnvManager(EasyDict(**own, **cfg))
        env = {"env_id": self.task, "act_scale": self.act_scale, "max_episode_steps": self.max_episode_steps}
        envs = [lambda: DingEnvWrapper(cfg=EasyDict(env))] * self.num_envs
        return create_env_manager(EasyDict(type="env_pool", **cfg), envs)


@st.composite
def pool_specs(draw: Any) -> PoolSpec:
    num_envs = draw(st.integers(1, 5))
    batch_size = draw(st.integers(1, num_envs))
    episode_num = draw(st.sampled_from([float("inf"), 1, 2]))
    # Envs that wait for an end, or for others, are stepped for nothing: after a reset they begin somewhere else.
    exact = batch_size == num_envs and episode_num == float("inf")
    resets = st.dictionaries(st.integers(1, 10), st.integers(-1, num_envs - 1), max_size=3)
    return PoolSpec(
        task=draw(st.sampled_from(SHARED + OWN)),
        num_envs=num_envs,
        batch_size=batch_size,
        max_episode_steps=draw(st.integers(1, 6)),
        seed=draw(st.integers(0, 1000)),
        episode_num=episode_num,
        act_scale=draw(st.booleans()),
        resets=draw(resets) if exact else {},
    )


class Loop:
    """One env of EnvPool, which is reset at the end of an episode."""

    def __init__(self, spec: PoolSpec, seed: int) -> None:
        self.pool = envpool.make(
            spec.task, env_type="gymnasium", num_envs=1, num_threads=1, env_seed=[seed],
            max_episode_steps=spec.max_episode_steps,
        )  # fmt: skip
        self.total, self.episodes = np.float32(0), 0
        for _ in range(spec.first_resets):
            self.reset()

    def reset(self) -> None:
        """Begin the next episode."""
        self.total = np.float32(0)
        self.obs = np.array(self.pool.reset()[0][0], dtype=np.float32)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, float]:
        """Observation, reward, terminated, truncated, and the return so far."""
        obs, reward, terminated, truncated, _ = self.pool.step(np.asarray(action)[None])
        emitted = np.array(obs[0], dtype=np.float32)
        self.total += reward[0]
        result = (emitted, float(reward[0]), bool(terminated[0]), bool(truncated[0]), float(self.total))
        self.obs = emitted
        if terminated[0] or truncated[0]:
            self.episodes += 1
            self.reset()
        return result


def env_action(manager: PoolEnvManager, action: Any, spec: PoolSpec) -> Any:
    """The action of the pool for one of the manager."""
    space = manager.action_space
    if spec.act_scale and spec.from_env and space.dtype.kind == "f":
        return np.asarray(action, np.float32) * (2.0 if spec.task == "Pendulum-v1" else 1.0)
    return np.asarray(action, space.dtype)


def check_pool(spec: PoolSpec) -> None:
    """Raise an AssertionError where the manager hands out something else than the envs emit."""
    loops = [Loop(spec, spec.seed + env_id) for env_id in range(spec.num_envs)]
    manager = spec.make()
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    sent: dict[int, Any] = {}
    try:
        manager.seed(spec.seed)
        manager.launch()
        for step in range(spec.num_steps):
            if step in spec.resets:
                chosen = spec.resets[step]
                manager.reset(None if chosen < 0 else {chosen: None})
                for loop in loops if chosen < 0 else loops[chosen : chosen + 1]:
                    loop.reset()
            if manager.done:
                break
            ready = manager.ready_obs
            assert len(ready)
            for env_id, obs in ready.items():
                name = f"env {env_id}, step {step}, ready_obs"
                np.testing.assert_allclose(obs, loops[env_id].obs, rtol=0, atol=spec.atol, err_msg=name)
                kept.append((obs, np.array(obs)))
            actions = {env_id: manager.action_space.sample() for env_id in ready}
            assert sent.keys().isdisjoint(actions)
            sent.update(actions)
            timesteps = manager.step(deepcopy(actions))
            for env_id, timestep in timesteps.items():
                name = f"env {env_id}, step {step}"
                emitted = loops[env_id].step(env_action(manager, sent.pop(env_id), spec))
                obs, reward, terminated, truncated, total = emitted
                np.testing.assert_allclose(timestep.obs, obs, rtol=0, atol=spec.atol, err_msg=name)
                kept.append((timestep.obs, np.array(timestep.obs)))
                assert float(np.asarray(timestep.reward).item()) == pytest.approx(reward, rel=1e-5, abs=spec.atol), name
                assert bool(timestep.done) == (terminated or truncated), name
                cut = truncated and not terminated
                assert bool(timestep.info.get("TimeLimit.truncated", False)) == cut, name
                if timestep.done:
                    found = float(np.asarray(timestep.info["eval_episode_return"]).item())
                    assert found == pytest.approx(total, rel=1e-5, abs=1e-6), name
                assert loops[env_id].episodes <= spec.episode_num, name
        for obs, emitted in kept:
            np.testing.assert_array_equal(obs, emitted, "changed after it was handed out")
    finally:
        manager.close()
        for loop in loops:
            loop.pool.close()


@settings(max_examples=40, derandomize=True)
@given(spec=pool_specs())
@example(PoolSpec("CartPole-v1", 2, 2, 6, seed=0, episode_num=float("inf"), act_scale=False, resets={3: 1}))
@example(PoolSpec("Pendulum-v1", 3, 2, 2, seed=0, episode_num=float("inf"), act_scale=False, resets={}))
def test_what_a_pool_hands_out_is_what_its_envs_emit(spec):
    check_pool(spec)


@pytest.mark.slow
@settings(max_examples=5000)
@given(spec=pool_specs())
def test_many_pools(spec):
    check_pool(spec)
