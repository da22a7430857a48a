"""Categorical distributions over logits ``[B, N]``."""

from typing import TypeAlias

import numpy as np
import torch
from torch.distributions import Categorical

from ding.utils.names import check_choice

# Classes, and with ``viz=True`` what they come from: ``logits``, and of a noisy choice ``noise``, ``noise_logits``.
Shown: TypeAlias = "torch.Tensor | tuple[torch.Tensor, dict[str, np.ndarray]]"


def _reduce(value: torch.Tensor, reduction: str | None) -> torch.Tensor:
    check_choice("reduction", reduction, (None, "none", "mean"))
    return value.mean() if reduction == "mean" else value


def _array(value: torch.Tensor) -> np.ndarray:
    return value.detach().cpu().numpy()


class Pd:
    """Interface of probability distributions."""

    def neglogp(self, x: torch.Tensor, reduction: str | None = "mean") -> torch.Tensor:
        """Return the negative log-likelihood of ``x``."""
        raise NotImplementedError

    def entropy(self, reduction: str | None = "mean") -> torch.Tensor:
        """Return the entropy in nats."""
        raise NotImplementedError

    def noise_mode(self) -> torch.Tensor | tuple[torch.Tensor, dict[str, np.ndarray]]:
        """Return the most likely value under noise, so a random one."""
        raise NotImplementedError

    def mode(self) -> torch.Tensor:
        """Return the most likely value."""
        raise NotImplementedError

    def sample(self) -> torch.Tensor:
        """Return a random value, without gradient."""
        raise NotImplementedError


class CategoricalPdPytorch(Pd):
    """Categorical distribution over ``torch.distributions.Categorical``, from probabilities ``[B, N]`` or logits.

    ``reduction`` is ``'mean'`` (0-d result) or ``'none'`` or None (``[B]``).
    """

    def __init__(self, probs: torch.Tensor | None = None) -> None:
        self._distribution = None if probs is None else Categorical(probs=probs)

    def update_logits(self, logits: torch.Tensor) -> None:
        """Replace the distribution by one with these logits."""
        self._distribution = Categorical(logits=logits)

    def update_probs(self, probs: torch.Tensor) -> None:
        """Replace the distribution by one with these probabilities."""
        self._distribution = Categorical(probs=probs)

    @property
    def distribution(self) -> Categorical:
        """The wrapped distribution. Raises ``RuntimeError`` when none was given yet."""
        if self._distribution is None:
            raise RuntimeError(f"{type(self).__name__} has no parameters: call update_logits or update_probs first")
        return self._distribution

    def neglogp(self, actions: torch.Tensor, reduction: str | None = "mean") -> torch.Tensor:
        """Return the negative log-likelihood of the labels ``actions``, int64 ``[B]``."""
        return _reduce(-self.distribution.log_prob(actions), reduction)

    def entropy(self, reduction: str | None = None) -> torch.Tensor:
        """Return the entropy in nats."""
        return _reduce(self.distribution.entropy(), reduction)

    def mode(self) -> torch.Tensor:
        """Return the most likely class, int64 ``[B]``."""
        return self.distribution.probs.argmax(-1)

    def sample(self) -> torch.Tensor:
        """Return a sample, int64 ``[B]``."""
        drawn: torch.Tensor = self.distribution.sample()
        return drawn


class CategoricalPd(CategoricalPdPytorch):
    """The same from float ``logits`` ``[B, N]``, which it can show: ``viz=True`` adds a dict of arrays ``[B, N]``."""

    logits: torch.Tensor | None = None

    def __init__(self, logits: torch.Tensor | None = None) -> None:
        super().__init__()
        if logits is not None:
            self.update_logits(logits)

    def update_logits(self, logits: torch.Tensor) -> None:
        """Replace the distribution by one with these logits."""
        self.logits = logits
        super().update_logits(logits)

    def update_probs(self, probs: torch.Tensor) -> None:
        """Replace the distribution by one with these probabilities; its logits are their logarithms."""
        super().update_probs(probs)
        self.logits = self.distribution.logits

    def neglogp(self, x: torch.Tensor, reduction: str | None = "mean") -> torch.Tensor:
        """Return the negative log-likelihood of the labels ``x``, int64 ``[B]``."""
        return super().neglogp(x, reduction)

    def entropy(self, reduction: str | None = "mean") -> torch.Tensor:
        """Return the entropy in nats."""
        return super().entropy(reduction)

    def mode(self, viz: bool = False) -> Shown:  # type: ignore[override]
        """Return the most likely class, int64 ``[B]``."""
        return self._shown(super().mode(), viz)

    def sample(self, viz: bool = False) -> Shown:  # type: ignore[override]
        """Return a sample, int64 ``[B]``."""
        return self._shown(super().sample(), viz)

    def noise_mode(self, viz: bool = False) -> torch.Tensor | tuple[torch.Tensor, dict[str, np.ndarray]]:
        """Return a sample by the Gumbel-max trick, int64 ``[B]``."""
        logits = self._given_logits()
        noise = -torch.log(-torch.log(torch.rand_like(logits)))
        noise_logits = logits + noise
        return self._shown(noise_logits.argmax(-1), viz, noise=noise, noise_logits=noise_logits)

    def _given_logits(self) -> torch.Tensor:
        """Return the logits as they were given; those of ``distribution`` are normalised."""
        return self.distribution.logits if self.logits is None else self.logits

    def _shown(self, result: torch.Tensor, viz: bool, **parts: torch.Tensor) -> Shown:
        if not viz:
            return result
        return result, {name: _array(value) for name, value in {"logits": self._given_logits(), **parts}.items()}
