"""Exploration: epsilon schedules and action noise."""

import math
from collections.abc import Callable
from typing import Any

import torch

from ding.utils.names import check_choice

_DECAYS = ("exp", "linear")


def get_epsilon_greedy_fn(start: float, end: float, decay: int, type_: str = "exp") -> Callable[[int], float]:
    """Return epsilon as a function of the step count x.

    ``'exp'``: ``(start - end) exp(-x / decay) + end``; ``'linear'``: from ``start`` to ``end`` in ``decay`` steps, then
    constant. Raises ``AssertionError`` for other types.
    """
    check_choice("type_", type_, _DECAYS, AssertionError)

    def exponential(x: int) -> float:
        return (start - end) * math.exp(-1 * x / decay) + end

    def linear(x: int) -> float:
        return end if x >= decay else (start - end) * (1 - x / decay) + end

    return exponential if type_ == "exp" else linear


class BaseNoise:
    """A source of action noise, called with a shape and a device. ``sigma`` must not be negative."""

    _sigma: float
    #: State of the noise; None at the start, and always for noise without memory.
    state: torch.Tensor | None = None

    @property
    def sigma(self) -> float:
        """Scale of the random part."""
        return self._sigma

    @sigma.setter
    def sigma(self, value: float) -> None:
        if value < 0:
            raise AssertionError(f"sigma must not be negative, got {value}")
        self._sigma = value

    def __call__(self, shape: tuple[int, ...] | torch.Size, device: str | torch.device = "cpu") -> torch.Tensor:
        """Return float32 noise of ``shape`` on ``device``."""
        raise NotImplementedError


class GaussianNoise(BaseNoise):
    """Independent normal noise. ``mu`` and ``sigma`` may be assigned at any time and apply from the next call on.

    Raises ``AssertionError`` for a negative ``sigma``.
    """

    def __init__(self, mu: float = 0.0, sigma: float = 1.0) -> None:
        self.mu = mu
        self.sigma = sigma

    def __call__(self, shape: tuple[int, ...] | torch.Size, device: str | torch.device = "cpu") -> torch.Tensor:
        return torch.randn(shape, device=device) * self._sigma + self.mu


class OUNoise(BaseNoise):
    """Ornstein-Uhlenbeck noise (Lillicrap et al. 2016, arXiv:1509.02971), correlated in time.

    Each call moves the state by ``theta (mu - x) dt + sigma sqrt(dt) N(0, 1)`` and returns it. The state starts at
    ``x0``, and is reset when the shape changes or by :meth:`reset`. Higher ``theta`` pulls it back to ``mu`` faster.
    ``reference_numerics=True`` returns the increment instead of the state. Raises ``AssertionError`` for a negative
    ``sigma``.
    """

    def __init__(
        self,
        mu: float = 0.0,
        sigma: float = 0.3,
        theta: float = 0.15,
        dt: float = 1e-2,
        x0: float | torch.Tensor | None = 0.0,
        *,
        reference_numerics: bool = False,
    ) -> None:
        self.mu = mu
        self.sigma = sigma
        self.theta = theta
        self.dt = dt
        self._reference_numerics = reference_numerics
        self._x0: float | torch.Tensor = 0.0 if x0 is None else x0
        self.state = None

    @property
    def x0(self) -> float | torch.Tensor:
        """Initial state; assigning it resets the state."""
        return self._x0

    @x0.setter
    def x0(self, value: float | torch.Tensor) -> None:
        self._x0 = value
        self.reset()

    def reset(self) -> None:
        """Reset the state to ``x0`` at the next call."""
        self.state = None

    def __call__(self, shape: tuple[int, ...] | torch.Size, device: str | torch.device = "cpu") -> torch.Tensor:
        state = self.state
        if state is None or state.shape != torch.Size(shape):
            state = torch.as_tensor(self._x0, dtype=torch.float32).expand(shape)
        state = state.to(device)
        drift = self.theta * (self.mu - state) * self.dt
        movement = drift + self._sigma * math.sqrt(self.dt) * torch.randn(shape, device=device)
        self.state = state + movement
        return movement if self._reference_numerics else self.state.clone()


noise_mapping: dict[str, Callable[..., BaseNoise]] = {"gauss": GaussianNoise, "ou": OUNoise}


def create_noise_generator(noise_type: str, noise_kwargs: dict[str, Any]) -> BaseNoise:
    """Return the noise named ``'gauss'`` or ``'ou'`` with its arguments. Raises ``KeyError`` for another name."""
    check_choice("noise_type", noise_type, noise_mapping, KeyError)
    return noise_mapping[noise_type](**noise_kwargs)
