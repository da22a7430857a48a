"""Categorical distributions over logits ``[B, N]``."""

import torch
from torch.distributions import Categorical

_REDUCTIONS = ("none", "mean")


def _reduce(value: torch.Tensor, reduction: str) -> torch.Tensor:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction={reduction!r} is unknown, expected one of {', '.join(_REDUCTIONS)}")
    return value.mean() if reduction == "mean" else value


class Pd:
    """A probability distribution: what its subclasses provide."""

    def neglogp(self, x: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        """Negative log-likelihood of ``x``."""
        raise NotImplementedError

    def entropy(self, reduction: str = "mean") -> torch.Tensor:
        """Entropy in nats."""
        raise NotImplementedError

    def mode(self) -> torch.Tensor:
        """The most likely value."""
        raise NotImplementedError

    def sample(self) -> torch.Tensor:
        """A random value, without gradient."""
        raise NotImplementedError


class CategoricalPdPytorch(Pd):
    """Categorical distribution over ``torch.distributions.Categorical``, from probabilities ``[B, N]`` or logits.

    ``reduction`` is ``'mean'`` (0-d result) or ``'none'`` (``[B]``).
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

    def neglogp(self, x: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        """Negative log-likelihood of the labels ``x``, int64 ``[B]``."""
        return _reduce(-self.distribution.log_prob(x), reduction)

    def entropy(self, reduction: str = "mean") -> torch.Tensor:
        """Entropy in nats."""
        return _reduce(self.distribution.entropy(), reduction)

    def mode(self) -> torch.Tensor:
        """Most likely class, int64 ``[B]``."""
        return self.distribution.probs.argmax(-1)

    def sample(self) -> torch.Tensor:
        """A sample, int64 ``[B]``."""
        return self.distribution.sample()


class CategoricalPd(CategoricalPdPytorch):
    """The same from float logits ``[B, N]``."""

    def __init__(self, logits: torch.Tensor | None = None) -> None:
        super().__init__()
        if logits is not None:
            self.update_logits(logits)

    @property
    def logits(self) -> torch.Tensor:
        """The present logits, normalised to log-probabilities."""
        return self.distribution.logits

    def noise_mode(self) -> torch.Tensor:
        """A sample by the Gumbel-max trick, int64 ``[B]``."""
        return (self.logits - torch.log(torch.empty_like(self.logits).exponential_())).argmax(-1)
