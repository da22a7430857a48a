"""Wrappers that modify observations."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import gymnasium
import numpy as np

from ding.envs.contract import copied
from ding.envs.env.base_env import EnvConfigError
from ding.envs.env_wrappers._either_api import EitherApi, ObsWrapper
from ding.envs.gymnasium_types import AnyEnv, Reset, Step, box_of, scalar
from ding.utils import ENV_WRAPPER_REGISTRY, require_extra

Shapes = tuple[Any, Any, Any]
DType: TypeAlias = type[np.generic] | np.dtype[Any]


def _box(low: float, high: float, shape: Sequence[int], dtype: DType) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(low=low, high=high, shape=tuple(shape), dtype=dtype)


def _bounds(space: gymnasium.spaces.Box) -> tuple[float, float]:
    return float(np.min(space.low)), float(np.max(space.high))


@ENV_WRAPPER_REGISTRY.register("warp_frame")
class WarpFrameWrapper(ObsWrapper):
    """Convert RGB frames ``[H, W, 3]`` to greyscale ``[size, size]``; frames ``[C, H, W]`` with C < 10 are only
    resized.
    """

    def __init__(self, env: AnyEnv, size: int = 84) -> None:
        super().__init__(env)
        self._cv2 = require_extra("cv2", "atari")
        self.size = size
        old = box_of(env, self)
        self._channels_first = len(old.shape) == 3 and old.shape[0] < 10
        shape = (old.shape[0], size, size) if self._channels_first else (size, size)
        self.observation_space = _box(*_bounds(old), shape, old.dtype)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Convert to greyscale and resize (area interpolation)."""
        cv2 = self._cv2
        if not self._channels_first:
            gray = cv2.cvtColor(observation, cv2.COLOR_RGB2GRAY)
            values: np.ndarray = cv2.resize(gray, (self.size, self.size), interpolation=cv2.INTER_AREA)
            return values
        planes = [cv2.resize(plane, (self.size, self.size), interpolation=cv2.INTER_AREA) for plane in observation]
        return np.stack(planes)

    @staticmethod
    def new_shape(obs_shape: Sequence[int], act_shape: object, rew_shape: object, size: int = 84) -> Shapes:
        """Return the shapes after wrapping."""
        return (size, size), act_shape, rew_shape


@ENV_WRAPPER_REGISTRY.register("scaled_float_frame")
class ScaledFloatFrameWrapper(ObsWrapper):
    """Scale observations to float32 in [0, 1] by the bounds of the space.

    Raises:
        EnvConfigError: The observations have no bounds.
    """

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        old = box_of(env, self)
        low, high = _bounds(old)
        if not np.isfinite(high - low):
            raise EnvConfigError(f"env.env_wrapper: ScaledFloatFrameWrapper needs observations with bounds, not {old}")
        self.bias = np.float32(low)
        self.scale = np.float32(high - low)
        self.observation_space = _box(0.0, 1.0, old.shape, np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the scaled observation."""
        return (observation.astype(np.float32) - self.bias) / self.scale


@ENV_WRAPPER_REGISTRY.register("frame_stack")
class FrameStackWrapper(EitherApi):
    """Stack the last ``n_frames`` observations on a new first axis; a reset repeats the first one."""

    def __init__(self, env: AnyEnv, n_frames: int = 4) -> None:
        super().__init__(env)
        self.n_frames = n_frames
        self.frames: deque[Any] = deque(maxlen=n_frames)
        old = box_of(env, self)
        self.observation_space = _box(*_bounds(old), (n_frames, *old.shape), old.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env and fill the stack."""
        obs, info = self.env.reset(seed=seed, options=options)
        self.frames.extend([copied(obs)] * self.n_frames)
        return np.stack(self.frames), info

    def step(self, action: object) -> Step:
        """Step the env and shift the stack."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.frames.append(copied(obs))
        return np.stack(self.frames), reward, terminated, truncated, info

    @staticmethod
    def new_shape(obs_shape: Sequence[int], act_shape: object, rew_shape: object, n_frames: int = 4) -> Shapes:
        """Return the shapes after wrapping."""
        shape = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
        return (n_frames, *shape), act_shape, rew_shape


@ENV_WRAPPER_REGISTRY.register("obs_transpose")
class ObsTransposeWrapper(ObsWrapper):
    """Move channels first: ``[H, W, C]`` to ``[C, H, W]``; a tuple of n frames becomes ``[n, C, H, W]``."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        old: Any = env.observation_space
        if isinstance(old, gymnasium.spaces.Tuple):
            frame: Any = old[0]
            height, width, channels = frame.shape
            self.observation_space = _box(*_bounds(frame), (len(old), channels, height, width), frame.dtype)
        else:
            height, width, channels = old.shape
            self.observation_space = _box(*_bounds(old), (channels, height, width), old.dtype)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the transposed observation."""
        if isinstance(observation, (tuple, list)):
            return np.stack(observation).transpose(0, 3, 1, 2)
        return observation.transpose(2, 0, 1)

    @staticmethod
    def new_shape(obs_shape: Sequence[int], act_shape: object, rew_shape: object) -> Shapes:
        """Return the shapes after wrapping."""
        return (obs_shape[2], obs_shape[0], obs_shape[1]), act_shape, rew_shape


class TransposeWrapper(ObsTransposeWrapper):
    """Alias of :class:`ObsTransposeWrapper`."""


@ENV_WRAPPER_REGISTRY.register("flatten_obs")
class FlattenObsWrapper(ObsWrapper):
    """Flatten any observation to a float32 vector ``[n]``; discrete parts are one-hot."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        flat = gymnasium.spaces.flatten_space(self.env.observation_space)
        if not isinstance(flat, gymnasium.spaces.Box):
            raise TypeError(f"an observation of {env.observation_space} has no fixed length, so it cannot be flattened")
        self.observation_space = gymnasium.spaces.Box(
            flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32
        )

    def observation(self, observation: object) -> np.ndarray:
        """Return the flat observation."""
        return np.asarray(gymnasium.spaces.flatten(self.env.observation_space, observation), dtype=np.float32)


@ENV_WRAPPER_REGISTRY.register("ram")
class RamWrapper(ObsWrapper):
    """Convert the 128 bytes of an Atari machine to float32 ``[128, 1, 1]``."""

    def __init__(self, env: AnyEnv, render: bool = False) -> None:
        super().__init__(env)
        self.observation_space = _box(*_bounds(box_of(env, self)), (128, 1, 1), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the reshaped observation."""
        return np.asarray(observation, dtype=np.float32).reshape(128, 1, 1)

    @staticmethod
    def new_shape(obs_shape: Sequence[int], act_shape: object, rew_shape: object) -> Shapes:
        """Return the shapes after wrapping."""
        return (128, 1, 1), act_shape, rew_shape


@ENV_WRAPPER_REGISTRY.register("obs_plus_prev_action_reward")
class ObsPlusPrevActRewWrapper(EitherApi):
    """Observations ``{'obs', 'prev_action', 'prev_reward_extrinsic'}`` with the action and reward that led to ``obs``.

    After a reset there is no such action: it is -1 for discrete actions, otherwise zeros; the reward is 0. The reward
    is float32 ``(1,)``.
    """

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "obs": self.env.observation_space,
                "prev_action": self.env.action_space,
                "prev_reward_extrinsic": _box(-np.inf, np.inf, (1,), np.float32),
            }
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env; there is no previous action."""
        obs, info = self.env.reset(seed=seed, options=options)
        space = self.env.action_space
        shape = space.shape if isinstance(space, gymnasium.spaces.Box) else ()
        action = np.zeros(shape, space.dtype) if shape else np.int64(-1)
        return self._extended(obs, action, 0.0), info

    def step(self, action: object) -> Step:
        """Step the env; the observation contains this action and its reward."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._extended(obs, action, reward), reward, terminated, truncated, info

    @staticmethod
    def _extended(obs: object, action: object, reward: object) -> dict[str, Any]:
        previous = np.int64(action) if isinstance(action, (int, np.integer)) else np.array(action)
        return {
            "obs": obs,
            "prev_action": previous,
            "prev_reward_extrinsic": np.array([scalar(reward)], dtype=np.float32),
        }


@ENV_WRAPPER_REGISTRY.register("reward_in_obs")
class AllinObsWrapper(EitherApi):
    """Observations ``{'obs', 'reward'}`` with the reward of the step that led to ``obs``, float32 ``(1,)``."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Dict(
            {"obs": self.env.observation_space, "reward": _box(-np.inf, np.inf, (1,), np.float32)}
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env; the reward is 0."""
        obs, info = self.env.reset(seed=seed, options=options)
        return {"obs": obs, "reward": np.zeros(1, dtype=np.float32)}, info

    def step(self, action: object) -> Step:
        """Step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        shown = np.array([scalar(reward)], dtype=np.float32)
        return {"obs": obs, "reward": shown}, reward, terminated, truncated, info


class FlatObsWrapper(ObsWrapper):
    """Flatten MiniGrid observations: the image, followed by each character of the mission text one-hot over 28 codes.

    Args:
        env: Env with observations ``{'image': array, 'mission': str}``.
        maxStrLen: Maximum length of a mission.
    """

    CHAR_CODES = 28

    def __init__(self, env: AnyEnv, maxStrLen: int = 96) -> None:
        super().__init__(env)
        self.max_str_len = maxStrLen
        image = cast(gymnasium.spaces.Dict, env.observation_space)["image"]
        size = int(np.prod(image.shape or ())) + self.CHAR_CODES * maxStrLen
        self.observation_space = _box(0, 255, (size,), np.float32)
        self._mission = ""
        self._codes: np.ndarray | None = None

    def observation(self, observation: Mapping[str, Any]) -> np.ndarray:
        """Return the flat observation.

        Raises:
            ValueError: The mission is too long, or contains characters other than letters, blanks and commas.
        """
        mission = observation["mission"]
        if self._codes is None or mission != self._mission:
            self._codes = self._encode(mission)
            self._mission = mission
        return np.concatenate([np.asarray(observation["image"], dtype=np.float32).ravel(), self._codes])

    def _encode(self, mission: str) -> np.ndarray:
        if len(mission) > self.max_str_len:
            raise ValueError(f"mission has {len(mission)} characters, maxStrLen is {self.max_str_len}: {mission!r}")
        codes = np.zeros((self.max_str_len, self.CHAR_CODES), dtype=np.float32)
        for position, char in enumerate(mission.lower()):
            if "a" <= char <= "z":
                code = ord(char) - ord("a")
            elif char in " ,":
                code = 26 + " ,".index(char)
            else:
                raise ValueError(
                    f"mission has the character {char!r}; letters, blanks and commas are known: {mission!r}"
                )
            codes[position, code] = 1.0
        return codes.ravel()
