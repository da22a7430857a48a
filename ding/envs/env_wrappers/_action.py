"""Wrappers that change the form of an action."""

from typing import Any, cast

import gymnasium
import numpy as np

from ding.envs.env_wrappers._either_api import ActWrapper
from ding.envs.gymnasium_types import AnyEnv
from ding.utils import ENV_WRAPPER_REGISTRY


@ENV_WRAPPER_REGISTRY.register("discrete_action")
class DiscreteActionWrapper(ActWrapper):
    """Discretise a continuous action ``(d,)`` into equally spaced values from its lower to its upper bound.

    Args:
        env: Env whose actions are vectors with finite bounds.
        bins: Number of values per dimension, at least 2; more bins give finer control but a larger action space.
        branches: Use one int per dimension, int64 ``(d,)``; otherwise an action is one of ``bins ** d`` ints, in which
            the last dimension varies fastest.

    Raises:
        ValueError: There are fewer than 2 bins, or the actions have another form.
    """

    def __init__(self, env: AnyEnv, bins: int, branches: bool = False) -> None:
        super().__init__(env)
        box = cast(gymnasium.spaces.Box, env.action_space)
        if bins < 2 or not isinstance(box, gymnasium.spaces.Box) or len(box.shape) != 1 or not box.is_bounded():
            raise ValueError(
                f"discrete actions need at least 2 bins and bounded vectors of actions, found {bins} bins of {box}"
            )
        self._box = box
        self._shape = (bins,) * box.shape[0]
        self._branches = branches
        self.action_space = (
            gymnasium.spaces.MultiDiscrete(list(self._shape))
            if branches
            else gymnasium.spaces.Discrete(int(np.prod(self._shape)))
        )

    def action(self, action: Any) -> np.ndarray:
        """Return the continuous action, in the dtype of its space."""
        indices = np.asarray(action if self._branches else np.unravel_index(int(action), self._shape))
        part = indices.reshape(-1) / (self._shape[0] - 1)
        low, high = self._box.low, self._box.high
        return (low + part * (high - low)).astype(self._box.dtype)
