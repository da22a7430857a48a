"""Categorical distributions over logits ``[B, N]``."""

import torch
import torch.nn.functional as F
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


class CategoricalPd(Pd):
    """Categorical distribution of float logits ``[B, N]``, by direct formulas.

    ``reduction`` is ``'mean'`` (0-d result) or ``'none'`` (``[B]``).
    """

    def __init__(self, logits: torch.Tensor | None = None) -> None:
        self._logits = logits

    def update_logits(self, logits: torch.Tensor) -> None:
        """Replace the logits."""
        self._logits = logits

    @property
    def logits(self) -> torch.Tensor:
        """The present logits. Raises ``RuntimeError`` when none were given yet."""
        if self._logits is None:
            raise RuntimeError("CategoricalPd has no logits: call update_logits first")
        return self._logits

    def neglogp(self, x: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        """Cross entropy with the labels ``x``, int64 ``[B]``."""
        return _reduce(F.cross_entropy(self.logits, x, reduction="none"), reduction)

    def entropy(self, reduction: str = "mean") -> torch.Tensor:
        """Entropy in nats."""
        log_p = F.log_softmax(self.logits, dim=-1)
        return _reduce(-(log_p.exp() * log_p).sum(-1), reduction)

    def mode(self) -> torch.Tensor:
        """Most likely class, int64 ``[B]``."""
        return self.logits.argmax(-1)

    def noise_mode(self) -> torch.Tensor:
        """A sample by the Gumbel-max trick, int64 ``[B]``."""
        return (self.logits - torch.log(torch.empty_like(self.logits).exponential_())).argmax(-1)

    def sample(self) -> torch.Tensor:
        """A sample, int64 ``[B]``."""
        return torch.multinomial(F.softmax(self.logits, -1), 1).squeeze(-1)


class CategoricalPdPytorch(Pd):
    """The same interface over ``torch.distributions.Categorical``, from probabilities ``[B, N]`` or logits."""

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
            raise RuntimeError("CategoricalPdPytorch has no parameters: call update_logits or update_probs first")
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
