"""Envs with fully predictable values, for tests of this library and of user code.

In episode ``e`` (counted from 0) after ``t`` steps the observation is ``[e, t]``, and step ``t`` (counted from 1) has
reward ``t``. An episode of length L ends at ``t = L`` with return ``L * (L + 1) / 2``. Faults can be injected at exact
places.
"""

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from ding.data import BaseEnvTimestep
from ding.envs.env.base_env import BaseEnv
from ding.utils import ENV_REGISTRY, did_you_mean

Obs: TypeAlias = np.ndarray | dict[str, np.ndarray]

FAULT_KINDS = ("raise", "hang", "kill", "shape", "dtype", "nan", "nan_reward")


class InjectedFault(RuntimeError):
    """Exception raised by a :class:`Fault` of kind ``raise``."""


@dataclass
class Fault:
    """A fault at one place.

    Attributes:
        kind: ``raise``, ``hang`` (waits ``hang_s``), ``kill`` (SIGKILL to the own process), or an error in the returned
            data: ``shape``, ``dtype``, ``nan`` (observation), ``nan_reward``.
        step: 0 for the reset of the episode, else the step, counted from 1.
        episode: Number of the episode; ``None``: every episode.
        times: Number of occurrences; ``None``: unlimited.
        hang_s: Duration of a hang in seconds.
    """

    kind: str
    step: int = 1
    episode: int | None = None
    times: int | None = None
    hang_s: float = 30.0

    def __post_init__(self) -> None:
        if self.kind not in FAULT_KINDS:
            raise ValueError(f"unknown fault kind {self.kind!r}.{did_you_mean(self.kind, FAULT_KINDS)}")

    def strikes(self, episode: int, step: int) -> bool:
        """Return whether the fault is due here, and count it if so."""
        if self.step != step or self.episode not in (None, episode) or self.times == 0:
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass
class CountingSettings:
    """Settings of a counting env, and the keys of its config.

    Attributes:
        episode_length: Length of each episode, or lengths that the episodes cycle through.
        truncate: Whether episodes end by truncation instead of termination.
        dict_obs: Observations are ``{'count': [e, t], 'flag': [t % 2]}``.
        abnormal_steps: Steps whose info has ``abnormal=True``, once each.
        fault: A :class:`Fault` or a dict of its fields.
        info_every_step: Each info contains the action (``info['action']``).
    """

    episode_length: "int | Sequence[int]" = 5
    truncate: bool = False
    dict_obs: bool = False
    abnormal_steps: "Sequence[int]" = ()
    fault: "Fault | Mapping[str, Any] | None" = None
    info_every_step: bool = False

    def __post_init__(self) -> None:
        self.abnormal_steps = list(self.abnormal_steps)
        if isinstance(self.fault, Mapping):
            self.fault = Fault(**self.fault)

    @classmethod
    def from_cfg(cls, cfg: Mapping[str, Any]) -> "CountingSettings":
        """Return the settings in a config; other keys are ignored."""
        return cls(**{name: cfg[name] for name in cls.__dataclass_fields__ if name in cfg})


class CountingGymEnv(gymnasium.Env[Any, Any]):
    """Counting env as a Gymnasium env. ``seeds`` lists the seeds of its resets, ``actions`` the received actions."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None, **settings: Any) -> None:
        self.settings = CountingSettings(**settings)
        self.render_mode = render_mode
        self.episode = -1
        self.t = 0
        self.seeds: list[int | None] = []
        self.actions: list[Any] = []
        self.reset_options: list[Any] = []
        self.closed = False
        count = gymnasium.spaces.Box(0.0, np.inf, (2,), np.float32)
        self.observation_space: gymnasium.Space[Any] = count
        if self.settings.dict_obs:
            flag = gymnasium.spaces.Box(0, 1, (1,), np.int64)
            self.observation_space = gymnasium.spaces.Dict({"count": count, "flag": flag})
        self.action_space = gymnasium.spaces.Discrete(2)

    @property
    def length(self) -> int:
        """Length of the current episode."""
        lengths = self.settings.episode_length
        return lengths if isinstance(lengths, int) else lengths[self.episode % len(lengths)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode."""
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.reset_options.append(options)
        self.episode += 1
        self.t = 0
        return self._disturb(self._obs(), 0.0)[0], {}

    def step(self, action: object) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count one step."""
        self.actions.append(action)
        self.t += 1
        obs, reward = self._disturb(self._obs(), float(self.t))
        over = self.t >= self.length
        info: dict[str, Any] = {"action": action} if self.settings.info_every_step else {}
        abnormal = self.settings.abnormal_steps
        if self.t in abnormal and isinstance(abnormal, list):
            abnormal.remove(self.t)
            info["abnormal"] = True
        return obs, reward, over and not self.settings.truncate, over and self.settings.truncate, info

    def _obs(self) -> np.ndarray | dict[str, np.ndarray]:
        count = np.array([self.episode, self.t], dtype=np.float32)
        if self.settings.dict_obs:
            return {"count": count, "flag": np.array([self.t % 2], dtype=np.int64)}
        return count

    def _disturb(self, obs: Obs, reward: float) -> tuple[Any, float]:
        fault = self.settings.fault
        if not isinstance(fault, Fault) or not fault.strikes(self.episode, self.t):
            return obs, reward
        if fault.kind == "raise":
            raise InjectedFault(f"episode {self.episode}, step {self.t}")
        if fault.kind == "hang":
            threading.Event().wait(fault.hang_s)
            return obs, reward
        if fault.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.kind == "nan_reward":
            return obs, float("nan")
        return self._spoil(obs, fault.kind), reward

    def _spoil(self, obs: Obs, kind: str) -> object:
        count = obs["count"] if isinstance(obs, dict) else obs
        changed = {
            "shape": np.zeros((3,), np.float32),
            "dtype": count.astype(np.complex128),
            "nan": np.full_like(count, np.nan),
        }[kind]
        return {**obs, "count": changed} if isinstance(obs, dict) else changed

    def render(self) -> np.ndarray:
        """Return a 16 x 16 image with brightness ``t``."""
        return np.full((16, 16, 3), self.t % 256, dtype=np.uint8)

    def close(self) -> None:
        """Record the call."""
        self.closed = True


@ENV_REGISTRY.register("counting")
class CountingEnv(BaseEnv):
    """Counting env as a :class:`~ding.envs.BaseEnv`: classic timesteps with ``eval_episode_return`` at the end.

    Args:
        cfg: Fields of :class:`CountingSettings`.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        self._core = CountingGymEnv(**vars(CountingSettings.from_cfg(cfg or {})))
        self.observation_space = self._core.observation_space
        self.action_space = self._core.action_space
        self.reward_space = gymnasium.spaces.Box(0.0, np.inf, (1,), np.float32)
        self.seeds: list[tuple[int, bool]] = []
        self.reset_kwargs: list[dict[str, Any]] = []
        self._return = 0.0

    @property
    def core(self) -> CountingGymEnv:
        """The wrapped Gymnasium env."""
        return self._core

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Record the seed."""
        self.seeds.append((seed, dynamic_seed))

    def reset(self, **kwargs: Any) -> Any:
        """Start the next episode."""
        self.reset_kwargs.append(kwargs)
        self._return = 0.0
        return self._core.reset()[0]

    def step(self, action: object) -> BaseEnvTimestep:  # type: ignore[override]
        """Count one step."""
        obs, reward, terminated, truncated, info = self._core.step(action)
        self._return += reward
        if terminated or truncated:
            info["eval_episode_return"] = self._return
        if truncated:
            info["TimeLimit.truncated"] = True
        return BaseEnvTimestep(obs, np.array([reward], dtype=np.float32), terminated or truncated, info)

    def random_action(self) -> np.ndarray:
        """Return a sample of the action space, int64 ``(1,)``."""
        return np.array([self.action_space.sample()], dtype=np.int64)

    def close(self) -> None:
        """Close the wrapped env."""
        self._core.close()

    def __repr__(self) -> str:
        return f"CountingEnv({self._core.settings})"
