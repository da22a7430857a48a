"""Normalisation of observations and rewards as learned state of a run: one set of statistics for all its envs."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ding.utils.running_mean_std import RunningMeanStd

logger = logging.getLogger(__name__)

# Steps over all envs before rewards are scaled: the deviation of a few returns says nothing.
REWARD_WARM_UP_STEPS = 30
_EPSILON = 1e-4


class Norms(NamedTuple):
    """What the wrappers of an env normalise.

    Attributes:
        obs_shape: Shape of one observation; ``None`` where observations are not normalised.
        clip_range: Bounds of a normalised observation.
        reward_discount: Discount factor of the return whose deviation rewards are divided by; ``None`` where rewards
            are not normalised.
    """

    obs_shape: tuple[int, ...] | None
    clip_range: tuple[float, float] = (-3.0, 3.0)
    reward_discount: float | None = None


class ObsConstants(NamedTuple):
    """How observations are normalised now: ``clip((obs - mean) / std, low, high)``; float64 ``[*obs_shape]``."""

    mean: np.ndarray
    std: np.ndarray
    low: float
    high: float


class Normalization:
    """Running statistics of observations and of discounted returns.

    A policy has one. Collectors update it, evaluators read it, and the state dicts of the policy hold it as
    ``normalization``. It is inactive, and no part of a state dict, until an env with ``obs_norm`` or ``reward_norm``
    makes it active by :meth:`activate`, or a state is loaded.

    Args:
        learns: Whether collectors update it.

    Attributes:
        norms: What is normalised; ``None`` while it is inactive.
    """

    def __init__(self, learns: bool = True) -> None:
        self.learns = learns
        self.norms: Norms | None = None
        self._obs: RunningMeanStd | None = None
        self._returns: RunningMeanStd | None = None
        self._lacking = False

    def activate(self, norms: Norms) -> None:
        """Begin to normalise what ``norms`` names; statistics that there are stay.

        Raises:
            ValueError: the statistics are those of observations of another shape.
        """
        if self._obs is not None and norms.obs_shape is not None and self._obs.moments()[0].shape != norms.obs_shape:
            raise ValueError(
                f"the statistics of obs_norm are those of observations of shape {self._obs.moments()[0].shape}, but "
                f"the env has {norms.obs_shape}"
            )
        if self.norms is not None:
            # An evaluator env may be without the wrapper of rewards, or come first.
            norms = Norms(
                norms.obs_shape or self.norms.obs_shape,
                norms.clip_range,
                self.norms.reward_discount if norms.reward_discount is None else norms.reward_discount,
            )
        self.norms = norms
        if self._obs is None and norms.obs_shape is not None:
            self._obs = RunningMeanStd(_EPSILON, norms.obs_shape)
        if self._returns is None and norms.reward_discount is not None:
            self._returns = RunningMeanStd(_EPSILON)
        self._warn_if_lacking()

    # what env managers call

    def update_obs(self, obs: np.ndarray) -> None:
        """Take in observations ``[N, *obs_shape]``."""
        if self._obs is not None:
            self._obs.update(obs)

    def normalized_obs(self, obs: np.ndarray) -> np.ndarray:
        """Return observations ``[N, *obs_shape]`` normalised, float32."""
        if self._obs is None or self.norms is None:
            return obs
        mean, var = self._obs.moments()
        return np.clip((obs - mean) / (np.sqrt(var) + _EPSILON), *self.norms.clip_range).astype(np.float32)

    def update_returns(self, returns: np.ndarray) -> None:
        """Take in the discounted returns ``[N]`` of the newest steps of N envs."""
        if self._returns is not None:
            self._returns.update(returns)

    def scaled_reward(self, reward: np.ndarray) -> np.ndarray:
        """Return rewards ``[N, 1]`` divided by the deviation of the returns, float32; the first ones as they are."""
        if self._returns is None or self._returns.count <= REWARD_WARM_UP_STEPS:
            return reward
        return (reward / (np.sqrt(self._returns.moments()[1]) + _EPSILON)).astype(np.float32)

    # what others read

    def obs_constants(self) -> ObsConstants | None:
        """Return how observations are normalised now; ``None`` where they are not."""
        if self._obs is None:
            return None
        low, high = (self.norms or Norms(None)).clip_range
        mean, var = self._obs.moments()
        return ObsConstants(mean.copy(), np.sqrt(var) + _EPSILON, low, high)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Leave the statistics as they are while the block lasts, also where a collector plays."""
        before, self.learns = self.learns, False
        try:
            yield
        finally:
            self.learns = before

    # state

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics, fit for a checkpoint; empty while there are none."""
        parts = {"obs": self._obs, "returns": self._returns}
        state: dict[str, Any] = {key: one.state_dict() for key, one in parts.items() if one is not None}
        if self._obs is not None and self.norms is not None:
            state["obs"] |= {"low": float(self.norms.clip_range[0]), "high": float(self.norms.clip_range[1])}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned.

        Raises:
            ValueError: the statistics are those of observations of another shape.
        """
        shape = None if self.norms is None else self.norms.obs_shape
        if "obs" in state:
            found = tuple(np.shape(state["obs"]["mean"]))
            if shape is not None and found != shape:
                raise ValueError(f"the saved statistics of obs_norm have shape {found}, but observations {shape}")
            self._obs = RunningMeanStd(_EPSILON, found)
            self._obs.load_state_dict(state["obs"])
            if self.norms is None:
                self.norms = Norms(found, (float(state["obs"]["low"]), float(state["obs"]["high"])))
        if "returns" in state:
            self._returns = RunningMeanStd(_EPSILON)
            self._returns.load_state_dict(state["returns"])
        self._lacking = False

    def note_state_without(self) -> None:
        """Note that weights were loaded without statistics; warns where an env needs them and there are none yet."""
        self._lacking = True
        if self.norms is not None:
            self._warn_if_lacking()

    def _warn_if_lacking(self) -> None:
        one = self._obs or self._returns
        if self._lacking and one is not None and one.count <= 1:
            self._lacking = False
            logger.warning(
                "the loaded checkpoint has no statistics of obs_norm or reward_norm (it is of DI-engine or of an older "
                "release); they start anew"
            )
