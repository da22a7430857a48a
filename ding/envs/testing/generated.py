"""Envs generated from a specification: all behaviour within the contract, and some violations of it.

The values of a generated env depend on its seed, its episode, its step and the actions of the episode. Thus a misrouted
action, an unexpected reset, or a random stream shared by two envs changes every later observation.
"""

import time
import zlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, cast

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from ding.data import BaseEnvTimestep
from ding.envs.contract import AnySpace as AnySpace
from ding.envs.contract import Obs as Obs
from ding.envs.env.base_env import BaseEnv
from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.utils.names import check_choice

Action: TypeAlias = Any
"""An action in any form."""

REWARD_FORMS: dict[str, Callable[[float], Any]] = {
    "float": float,
    "int": int,
    "bool": lambda reward: reward > 0,
    "float32": np.float32,
    "float64": np.float64,
    "int64": np.int64,
    "int8": np.int8,
    "bool_": lambda reward: np.bool_(reward > 0),
    "array ()": lambda reward: np.array(reward, np.float32),
    "array (1,)": lambda reward: np.array([reward], np.float32),
    "array (1,) float64": lambda reward: np.array([reward], np.float64),
    "array (1,) int64": lambda reward: np.array([reward], np.int64),
    "list": lambda reward: [reward],
    "tensor": lambda reward: torch.tensor([reward], dtype=torch.float32),
}
"""Allowed forms of a reward, for integers from -8 to 8."""

OBS_FORMS = ("space", "list", "wide", "python")
INFO_FORMS = ("empty", "full", "none", "some", "other keys")
ENDINGS = ("terminated", "truncated", "both")
APIS = ("gymnasium", "ding", "gym")

BAD_REWARDS: dict[str, Any] = {
    "reward None": None,
    "reward of two numbers": np.ones(2),
    "reward of text": "1",
    "reward of an object": Fraction(1, 2),
    "reward beyond floats": 10**400,
    "reward NaN": float("nan"),
}
BAD_FORMS = (
    "observation None",
    "observation of another shape",
    "observation with an axis more",
    "observation of another dtype",
    "observation without a key",
    "observation with another key",
    *BAD_REWARDS,
    "end by agent",
    "info of text",
)
"""Invalid return values. In an observation without keys, the forms of keys are replaced by a wrong dtype."""


class Emitted(NamedTuple):
    """Results of one step, copied at once."""

    obs: Any
    reward: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any] | None


@dataclass(frozen=True)
class GeneratedEnvSpec:
    """Specification of an env; picklable, also for spawned processes.

    Attributes:
        observation_space: Observation space of the env.
        action_space: Action space of the env; every received action must be an element of it.
        episode_lengths: Lengths that the episodes cycle through; each at least 1.
        endings: Ends that the episodes cycle through, from ``ENDINGS``: a terminal state, a time limit, or both.
        reward_form: Name in ``REWARD_FORMS``.
        obs_form: Form from ``OBS_FORMS``: as in the space; nested lists for arrays and tuples; arrays as float64 and
            int64; Python numbers for NumPy's and lists for tuples.
        info_form: Form from ``INFO_FORMS``: ``{}``; the numbers ``episode``, ``t`` and ``stream``; ``None``; ``None``
            at odd steps; the numbers under keys of other types.
        reuse_obs: Overwrite the same arrays, dicts and lists at each step.
        reuse_info: Overwrite the same dict at each step.
        abnormal_steps: Steps of each episode whose info has ``abnormal=True``.
        slow_steps: Steps of each episode that take ``slow_s`` seconds.
        slow_s: Duration of slow steps in seconds.
        bad_form: Violation from ``BAD_FORMS``, at ``bad_step``; ``None``: the env complies with the contract.
        bad_step: Step of the first episode; 0 for the reset.
        api: API from ``APIS``: a Gymnasium env, a :class:`~ding.envs.BaseEnv`, or an old gym env.

    Raises:
        ValueError: A form is unknown, or an episode has no step.
    """

    observation_space: AnySpace
    action_space: AnySpace = field(default_factory=lambda: spaces.Discrete(2))
    episode_lengths: tuple[int, ...] = (3,)
    endings: tuple[str, ...] = ("terminated",)
    reward_form: str = "float"
    obs_form: str = "space"
    info_form: str = "empty"
    reuse_obs: bool = False
    reuse_info: bool = False
    abnormal_steps: tuple[int, ...] = ()
    slow_steps: tuple[int, ...] = ()
    slow_s: float = 0.002
    bad_form: str | None = None
    bad_step: int = 1
    api: str = "gymnasium"

    def __post_init__(self) -> None:
        check_choice("reward_form", self.reward_form, tuple(REWARD_FORMS))
        check_choice("obs_form", self.obs_form, OBS_FORMS)
        check_choice("info_form", self.info_form, INFO_FORMS)
        check_choice("api", self.api, APIS)
        for ending in self.endings:
            check_choice("endings", ending, ENDINGS)
        if self.bad_form is not None:
            check_choice("bad_form", self.bad_form, BAD_FORMS)
        if not self.episode_lengths or min(self.episode_lengths) < 1 or not self.endings:
            raise ValueError("an episode has at least one step, and an end")


class ActionError(ValueError):
    """A generated env received an action outside of its space."""


class GeneratedEnv(gymnasium.Env[Any, Any]):
    """Env of a spec with the Gymnasium API.

    Attributes:
        description: The spec.
        seeds: Seeds of its resets.
        emitted: Results of the steps, copied, as :class:`Emitted`.
        actions: Actions of these steps, copied.
    """

    metadata = {"render_modes": []}

    def __init__(self, spec: GeneratedEnvSpec) -> None:
        self.description = spec
        self.observation_space = deepcopy(spec.observation_space)
        self.action_space = deepcopy(spec.action_space)
        self.seeds: list[int | None] = []
        self.emitted: list[Emitted] = []
        self.actions: list[Any] = []
        self._source = deepcopy(spec.observation_space)
        self._stream = 0
        self._episode = -1
        self._t = 0
        self._history = 0
        self._obs: Any = None
        self._info: dict[Any, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Start the next episode."""
        super().reset(seed=seed)
        self.seeds.append(seed)
        if seed is not None:
            self._stream = seed
        self._episode += 1
        self._t = 0
        self._history = 0
        return self._next_obs(), None if self.description.info_form == "none" else {}

    def step(self, action: object) -> tuple[Any, Any, bool, bool, Any]:
        """Make one step.

        Raises:
            ActionError: The action is not in the space.
        """
        spec = self.description
        self._history = zlib.crc32(action_bytes(action, self.action_space), self._history)
        self.actions.append(deepcopy(action))
        self._t += 1
        if self._t in spec.slow_steps:
            time.sleep(spec.slow_s)
        is_over = self._t >= spec.episode_lengths[self._episode % len(spec.episode_lengths)]
        ending = spec.endings[self._episode % len(spec.endings)] if is_over else ""
        result = (
            self._next_obs(), self._reward(), ending in ("terminated", "both"), ending in ("truncated", "both"),
            self._next_info(),
        )  # fmt: skip
        self.emitted.append(Emitted(*deepcopy(result)))
        if self._is_bad("end"):
            return (*result[:2], cast(bool, {"agent": False}), *result[3:])
        return result

    @property
    def _digest(self) -> int:
        return zlib.crc32(repr((self._stream, self._episode, self._t)).encode(), self._history)

    def _is_bad(self, part: str) -> str:
        """Return the violation due here for an observation, a reward or an info; empty if none."""
        spec = self.description
        due = spec.bad_form is not None and self._episode == 0 and self._t == spec.bad_step
        return str(spec.bad_form) if due and str(spec.bad_form).startswith(part) else ""

    def _next_obs(self) -> object:
        self._source.seed(self._digest)
        value = formed(self._source.sample(), self.description.obs_form)
        if self.description.reuse_obs:
            value = self._obs = reused(self._obs, value)
        bad = self._is_bad("observation")
        return spoiled_obs(value, bad) if bad else value

    def _reward(self) -> object:
        bad = self._is_bad("reward")
        if bad:
            return BAD_REWARDS[bad]
        return REWARD_FORMS[self.description.reward_form](float(self._digest % 17) - 8.0)

    def _next_info(self) -> Any:
        spec = self.description
        if self._is_bad("info"):
            return "text"
        abnormal = self._t in spec.abnormal_steps
        if not abnormal and (spec.info_form == "none" or (spec.info_form == "some" and self._t % 2)):
            return None
        info: dict[Any, Any] = {}
        if spec.info_form in ("full", "some"):
            info = {"episode": self._episode, "t": self._t, "stream": self._stream}
        elif spec.info_form == "other keys":
            info = {7: self._episode, ("t", 0): self._t, "_stream": self._stream}
        if abnormal:
            info["abnormal"] = True
        if not spec.reuse_info:
            return info
        # Like envs that reuse one dict: entries written by others remain.
        self._info.pop("abnormal", None)
        self._info.update(info)
        return self._info


class GeneratedOldEnv:
    """Env of a spec with the API of gym before 0.26: bare observations, steps of 4 values, a method ``seed``."""

    def __init__(self, spec: GeneratedEnvSpec) -> None:
        self.core = GeneratedEnv(spec)
        self.observation_space, self.action_space = self.core.observation_space, self.core.action_space
        self.metadata = self.core.metadata
        self._seed: int | None = None

    def seed(self, seed: int | None = None) -> None:
        """Set the seed of the next reset."""
        self._seed = seed

    def reset(self) -> Obs:
        """Start the next episode."""
        seed, self._seed = self._seed, None
        return self.core.reset(seed=seed)[0]

    def step(self, action: object) -> tuple[Any, Any, bool, Any]:
        """Make one step."""
        obs, reward, terminated, truncated, info = self.core.step(action)
        if terminated or truncated:
            info = end_info(info, truncated and not terminated)
        return obs, reward, terminated or truncated, info

    def close(self) -> None:
        """Close the env."""
        self.core.close()


class GeneratedBaseEnv(BaseEnv):
    """Env of a spec as a :class:`~ding.envs.BaseEnv`, with ``info['eval_episode_return']`` at the end of an episode."""

    def __init__(self, spec: GeneratedEnvSpec) -> None:
        self.core = GeneratedEnv(spec)
        self.observation_space, self.action_space = self.core.observation_space, self.core.action_space
        self.reward_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self._seed: int | None = None
        self._return = 0.0

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Set the seed of the next reset."""
        self._seed = seed

    def reset(self, **kwargs: Any) -> Obs:
        """Start the next episode."""
        seed, self._seed = self._seed, None
        self._return = 0.0
        return self.core.reset(seed=seed)[0]

    def step(self, action: object) -> BaseEnvTimestep:  # type: ignore[override]
        """Make one step."""
        obs, reward, terminated, truncated, info = self.core.step(action)
        if self.core.description.bad_form is None:
            self._return += float(np.asarray(reward).item())
        if terminated or truncated:
            info = end_info(info, truncated and not terminated)
            info["eval_episode_return"] = self._return
        elif isinstance(info, dict):
            info.pop("TimeLimit.truncated", None)
            info.pop("eval_episode_return", None)
        return BaseEnvTimestep(obs, reward, terminated or truncated, info)

    def close(self) -> None:
        """Close the env."""
        self.core.close()

    def __repr__(self) -> str:
        return f"GeneratedBaseEnv({self.core.description})"


def end_info(info: "dict[str, Any] | None", truncated: bool) -> dict[str, Any]:
    """Return the info at the end of an episode, where an env of 4 values or a ``BaseEnv`` reports how it ended."""
    info = {} if info is None else info
    info.pop("TimeLimit.truncated", None)
    if truncated:
        info["TimeLimit.truncated"] = True
    return info


def make_env(spec: GeneratedEnvSpec, cfg: Mapping[str, Any] | None = None) -> BaseEnv:
    """Create the env of a spec for an env manager.

    Args:
        spec: Specification; its ``api`` selects the class.
        cfg: Config of :class:`~ding.envs.DingEnvWrapper`, for the APIs ``gymnasium`` and ``gym``.
    """
    if spec.api == "ding":
        return GeneratedBaseEnv(spec)
    env = GeneratedEnv(spec) if spec.api == "gymnasium" else GeneratedOldEnv(spec)
    return DingEnvWrapper(env, dict(cfg or {}))


def action_bytes(action: object, space: AnySpace) -> bytes:
    """Return bytes that identify an action of its space, whatever its form.

    Raises:
        ActionError: The action is not in the space.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(action, Mapping) or set(action) != set(space.spaces):
            raise ActionError(f"the action {action!r} is not in {space}")
        return b"".join(action_bytes(action[key], part) for key, part in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        if not isinstance(action, (tuple, list)) or len(action) != len(space.spaces):
            raise ActionError(f"the action {action!r} is not in {space}")
        return b"".join(action_bytes(value, part) for value, part in zip(action, space.spaces))
    array = np.asarray(action)
    value = array.reshape(())[()] if isinstance(space, spaces.Discrete) and array.size == 1 else array
    if not space.contains(value):
        raise ActionError(f"the action {action!r} of dtype {array.dtype} is not in {space}")
    return array.astype(space.dtype).tobytes()


def formed(value: Obs, form: str) -> object:
    """Convert a sample of a space to one of ``OBS_FORMS``."""
    if form == "space":
        return value
    if isinstance(value, dict):
        return {key: formed(one, form) for key, one in value.items()}
    if type(value) is tuple:
        parts = [formed(one, form) for one in value]
        return tuple(parts) if form == "wide" else parts
    if isinstance(value, np.ndarray) and form == "list" and value.ndim:
        return value.tolist()
    if isinstance(value, np.ndarray) and form == "wide" and value.dtype.kind in "fiu":
        return value.astype(np.float64 if value.dtype.kind == "f" else np.int64)
    return value.item() if isinstance(value, np.generic) and form in ("list", "python") else value


def reused(old: Obs, new: Obs) -> object:
    """Write ``new`` into the arrays, dicts and lists of ``old``, where it fits."""
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        if old.shape == new.shape and old.dtype == new.dtype:
            old[...] = new
            return old
    elif isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key, value in new.items():
            old[key] = reused(old[key], value)
        return old
    elif type(old) is list and type(new) is list and len(old) == len(new):
        old[:] = [reused(*pair) for pair in zip(old, new)]
        return old
    elif type(old) is tuple and type(new) is tuple and len(old) == len(new):
        return tuple(reused(*pair) for pair in zip(old, new))
    return new


def spoiled_obs(obs: Obs, bad_form: str) -> object:
    """Return an observation in one of ``BAD_FORMS``; in a dict or tuple the first part is invalid."""
    if bad_form == "observation None":
        return None
    if isinstance(obs, dict):
        first = next(iter(obs))
        if bad_form.endswith("without a key"):
            return {key: value for key, value in obs.items() if key != first}
        if bad_form.endswith("another key"):
            return {**obs, "other": 0}
        return {**obs, first: spoiled_obs(obs[first], bad_form)}
    if isinstance(obs, tuple):
        return (spoiled_obs(obs[0], bad_form), *obs[1:])
    array = np.asarray(obs)
    if bad_form.endswith("another shape"):
        return np.zeros((7, *array.shape), array.dtype)
    return array[None] if bad_form.endswith("axis more") else array.astype(np.complex128)
