"""Wrappers that standardise observations and rewards."""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.envs.env_wrappers._either_api import EitherApi, ObsWrapper
from ding.envs.gymnasium_types import AnyEnv, Reset, Step, box_of, scalar
from ding.utils import ENV_WRAPPER_REGISTRY, running_mean_std

# Number of steps before the running statistics are used.
WARM_UP_STEPS = 30
CLIP_RANGE = (-3.0, 3.0)


class RunningMeanStd(running_mean_std.RunningMeanStd):
    """Running mean and standard deviation over batches, in double precision.

    Args:
        epsilon: Initial count, also added to the standard deviation.
        shape: Shape of one value.
    """

    @property
    def mean(self) -> np.ndarray:
        """Running mean, float64 ``[*shape]``."""
        return self.moments()[0]

    @property
    def std(self) -> np.ndarray:
        """Running standard deviation plus ``epsilon``, float64 ``[*shape]``."""
        values: np.ndarray = np.sqrt(self.moments()[1]) + self._epsilon
        return values


class _Float32Obs(ObsWrapper):
    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        shape = box_of(env, self).shape
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.clip_range = CLIP_RANGE


@ENV_WRAPPER_REGISTRY.register("obs_norm")
class ObsNormWrapper(_Float32Obs):
    """Standardise each feature by its running statistics, clipped to +-3.

    The first 30 observations are unchanged, and the statistics belong to the env. In a run they are instead shared by
    all envs, saved in checkpoints, and used from the first observation on
    (:class:`ding.rl_utils.normalization.Normalization`).

    Attributes:
        deferred: Whether the run normalises instead of this wrapper, which then only converts observations to float32.
    """

    deferred = False

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self.data_count = 0
        self.rms = RunningMeanStd(shape=box_of(env, self).shape)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Update the statistics and return the standardised observation, float32."""
        if self.deferred:
            return np.asarray(observation, dtype=np.float32)
        self.data_count += 1
        self.rms.update(np.asarray(observation)[None])
        if self.data_count > WARM_UP_STEPS:
            observation = np.clip((observation - self.rms.mean) / self.rms.std, *self.clip_range)
        return np.asarray(observation, dtype=np.float32)


@ENV_WRAPPER_REGISTRY.register("static_obs_norm")
class StaticObsNormWrapper(_Float32Obs):
    """Standardise by a given mean and standard deviation, clipped to +-3."""

    def __init__(self, env: AnyEnv, mean: npt.ArrayLike, std: npt.ArrayLike) -> None:
        super().__init__(env)
        self.mean = np.asarray(mean, dtype=np.float32)
        self.std = np.asarray(std, dtype=np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the standardised observation, float32."""
        values: np.ndarray = np.clip((observation - self.mean) / self.std, *self.clip_range).astype(np.float32)
        return values


@ENV_WRAPPER_REGISTRY.register("reward_norm")
class RewardNormWrapper(EitherApi):
    """Divide rewards by the running standard deviation of the discounted return.

    The first 30 rewards are unchanged. The discounted return restarts with each episode; the statistics belong to the
    env. In a run they are instead shared by all collector envs and saved in checkpoints.

    Attributes:
        deferred: Whether the run normalises instead of this wrapper, which then leaves rewards unchanged.
    """

    deferred = False

    def __init__(self, env: AnyEnv, reward_discount: float) -> None:
        super().__init__(env)
        self.reward_discount = reward_discount
        self.cum_reward = 0.0
        self.data_count = 0
        self.rms = RunningMeanStd()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env and the discounted return."""
        self.cum_reward = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: object) -> Step:
        """Step the env and scale the reward."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if self.deferred:
            return obs, reward, terminated, truncated, info
        self.data_count += 1
        self.cum_reward = self.cum_reward * self.reward_discount + scalar(reward)
        self.rms.update(np.array([self.cum_reward]))
        if self.data_count > WARM_UP_STEPS:
            reward = scalar(reward) / float(self.rms.std)
        return obs, reward, terminated, truncated, info
