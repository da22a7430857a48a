"""Running statistics of a stream of values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch


class RunningMeanStd:
    """Mean and variance of a stream of batches (Chan et al. 1979, "Updating Formulae and a Pairwise Algorithm").

    Args:
        epsilon: Initial weight: the statistics start with mean 0, variance 1 and this count.
        shape: Shape of one element. With ``()`` the properties are floats, else float32 tensors on ``device``.
        device: Device of the returned tensors.
    """

    def __init__(
        self,
        epsilon: float = 1e-4,
        shape: tuple[int, ...] = (),
        device: torch.device | str = torch.device("cpu"),  # noqa: B008 - a constant
    ) -> None:
        self._epsilon = epsilon
        self._shape = tuple(shape)
        self._device = torch.device(device)
        self.reset()

    def reset(self) -> None:
        """Reset to mean 0, variance 1 and the initial weight."""
        # Count, mean and variance, replaced together: another thread may be reading.
        self._state: tuple[float, np.ndarray, np.ndarray] = (
            float(self._epsilon),
            np.zeros(self._shape, dtype=np.float64),
            np.ones(self._shape, dtype=np.float64),
        )

    def update(self, x: npt.ArrayLike | torch.Tensor) -> None:
        """Update the statistics with a batch ``[B, *shape]`` (array or tensor); an empty batch has no effect."""
        batch = np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x, dtype=np.float64)
        if batch.shape[0] == 0:
            return
        self._join(batch.mean(axis=0), batch.var(axis=0), batch.shape[0])

    def merge(self, other: "RunningMeanStd") -> None:
        """Add the statistics of another object of the same shape, including its initial weight."""
        if other.count > 0:
            self._join(*other.moments(), other.count)

    def _join(self, mean: np.ndarray, var: np.ndarray, count: float) -> None:
        own_count, own_mean, own_var = self._state
        total = own_count + count
        delta = mean - own_mean
        m2 = own_var * own_count + var * count + np.square(delta) * own_count * count / total
        self._state = total, own_mean + delta * (count / total), m2 / total

    @property
    def count(self) -> float:
        """Number of values seen, plus ``epsilon``."""
        return self._state[0]

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance, each float64 ``shape``."""
        return self._state[1:]

    def _out(self, value: np.ndarray) -> float | torch.Tensor:
        if np.ndim(value) == 0:
            return float(value)
        return torch.as_tensor(value, dtype=torch.float32, device=self._device)

    @property
    def mean(self) -> Any:
        """Float, or float32 tensor ``shape``."""
        return self._out(self._state[1])

    @property
    def var(self) -> Any:
        """Float, or float32 tensor ``shape``."""
        return self._out(self._state[2])

    @property
    def std(self) -> Any:
        """``sqrt(var + 1e-8)``: float, or float32 tensor ``shape``."""
        return self._out(np.sqrt(self._state[2] + 1e-8))

    @staticmethod
    def new_shape(obs_shape: Any, act_shape: Any, rew_shape: Any) -> tuple[Any, Any, Any]:
        """Return the shapes of observations, actions and rewards unchanged; part of the env wrapper interface."""
        return obs_shape, act_shape, rew_shape

    def state_dict(self) -> dict[str, Any]:
        """Return count, mean and variance as tensors and floats, suitable for a checkpoint."""
        count, mean, var = self._state
        return {
            "count": count,
            "mean": torch.as_tensor(mean, dtype=torch.float64),
            "var": torch.as_tensor(var, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the statistics from ``state_dict``."""
        mean, var = (torch.as_tensor(state[key], dtype=torch.float64).cpu().numpy().copy() for key in ("mean", "var"))
        self._state = float(state["count"]), mean, var
