"""Statistics of a stream of values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch


class RunningMeanStd:
    """Mean and variance of a stream of batches (Chan et al. 1979, "Updating Formulae and a Pairwise Algorithm").

    Args:
        epsilon: the initial weight; the statistics start as mean 0 and variance 1 with this count.
        shape: shape of one element. With ``()`` the properties are floats, else float32 tensors on ``device``.
        device: where the tensors are returned.
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
        """Back to mean 0, variance 1 and the initial weight."""
        self._mean = np.zeros(self._shape, dtype=np.float64)
        self._var = np.ones(self._shape, dtype=np.float64)
        self._count = float(self._epsilon)

    def update(self, x: npt.ArrayLike | torch.Tensor) -> None:
        """Take in a batch ``[B, *shape]`` (array or tensor); an empty one changes nothing."""
        batch = np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x, dtype=np.float64)
        if batch.shape[0] == 0:
            return
        batch_count = batch.shape[0]
        total = self._count + batch_count
        delta = batch.mean(axis=0) - self._mean
        m2 = (
            self._var * self._count
            + batch.var(axis=0) * batch_count
            + np.square(delta) * self._count * batch_count / total
        )
        self._mean = self._mean + delta * (batch_count / total)
        self._var = m2 / total
        self._count = total

    @property
    def count(self) -> float:
        """How many values were taken in, plus ``epsilon``."""
        return self._count

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance, each float64 ``shape``."""
        return self._mean, self._var

    def _out(self, value: np.ndarray) -> Any:
        if np.ndim(value) == 0:
            return float(value)
        return torch.as_tensor(value, dtype=torch.float32, device=self._device)

    @property
    def mean(self) -> Any:
        """Float, or float32 tensor ``shape``."""
        return self._out(self._mean)

    @property
    def var(self) -> Any:
        """Float, or float32 tensor ``shape``."""
        return self._out(self._var)

    @property
    def std(self) -> Any:
        """``sqrt(var + 1e-8)``: float, or float32 tensor ``shape``."""
        return self._out(np.sqrt(self._var + 1e-8))

    @staticmethod
    def new_shape(obs_shape: Any, act_shape: Any, rew_shape: Any) -> tuple[Any, Any, Any]:
        """The shapes of observations, actions and rewards of an env that keeps such statistics: as they were."""
        return obs_shape, act_shape, rew_shape

    def state_dict(self) -> dict[str, Any]:
        """Count, mean and variance as tensors and floats, fit for a checkpoint."""
        return {
            "count": self._count,
            "mean": torch.as_tensor(self._mean, dtype=torch.float64),
            "var": torch.as_tensor(self._var, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self._count = float(state["count"])
        self._mean = torch.as_tensor(state["mean"], dtype=torch.float64).cpu().numpy().copy()
        self._var = torch.as_tensor(state["var"], dtype=torch.float64).cpu().numpy().copy()
