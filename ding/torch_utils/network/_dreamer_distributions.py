"""Distributions of Dreamer (Hafner et al. 2023, arXiv:2301.04104); :mod:`ding.torch_utils.network.dreamer` has them.

Their arguments are not validated, because networks make them in each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import distributions as td
from torch.nn import functional as F

from ding.torch_utils.math_helper import inv_symlog, symlog
from ding.utils.errors import InvalidArgumentError
from ding.utils.names import check_choice

Shape = torch.Size | Sequence[int]

NUM_BUCKETS = 255


def straight_through(value: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Return ``value`` with the gradient of ``source``."""
    return value.detach() + (source - source.detach())


class _Wrapping:
    """Delegate undefined attributes to the wrapped distribution."""

    def __init__(self, dist: td.Distribution) -> None:
        self._dist = dist

    def __getattr__(self, name: str) -> Any:
        if name == "_dist":  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._dist, name)


class ContDist(_Wrapping):
    """A continuous distribution whose mode is its mean, and whose samples have gradients.

    Args:
        dist: distribution with ``rsample``.

    Attributes:
        mean: tensor of the batch and event shape.
    """

    def __init__(self, dist: td.Distribution) -> None:
        super().__init__(dist)
        self.mean: torch.Tensor = dist.mean

    def entropy(self) -> torch.Tensor:
        """Return the entropy in nats, of the batch shape."""
        return self._dist.entropy()

    def mode(self) -> torch.Tensor:
        """Return the mean."""
        return self.mean

    def sample(self, sample_shape: Shape = ()) -> torch.Tensor:
        """Draw a sample with gradient."""
        return self._dist.rsample(torch.Size(sample_shape))

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """Return the log-density of ``x``, of the batch shape."""
        return self._dist.log_prob(x)


class SampleDist(_Wrapping):
    """A distribution without a mean, mode or entropy of closed form: they are estimated from samples.

    Args:
        dist: distribution with ``rsample`` and ``log_prob``.
        samples: number of samples of an estimate.
    """

    def __init__(self, dist: td.Distribution, samples: int = 100) -> None:
        super().__init__(dist)
        self._samples = samples

    def _drawn(self) -> torch.Tensor:
        return self._dist.rsample(torch.Size((self._samples,)))

    def mean(self) -> torch.Tensor:
        """Return the mean of the samples."""
        return self._drawn().mean(0)

    def mode(self) -> torch.Tensor:
        """Return the sample of highest density."""
        drawn = self._drawn()
        best = self._dist.log_prob(drawn).argmax(0)
        index = best.reshape(1, *best.shape, *(1,) * (drawn.dim() - 1 - best.dim())).expand(1, *drawn.shape[1:])
        return drawn.gather(0, index)[0]

    def entropy(self) -> torch.Tensor:
        """Return the mean of the negative log-densities of the samples, of the batch shape."""
        return -self._dist.log_prob(self._drawn()).mean(0)

    def sample(self, sample_shape: Shape = ()) -> torch.Tensor:
        """Draw a sample with gradient."""
        return self._dist.rsample(torch.Size(sample_shape))

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """Return the log-density of ``x``, of the batch shape."""
        return self._dist.log_prob(x)


class Bernoulli(_Wrapping):
    """Independent Bernoulli variables; modes and samples have the gradient of the mean.

    Args:
        dist: ``torch.distributions.Bernoulli``, or ``Independent`` of one.

    Attributes:
        mean: probability of a 1 per element.
    """

    def __init__(self, dist: td.Distribution) -> None:
        super().__init__(dist)
        self.mean: torch.Tensor = dist.mean

    def entropy(self) -> torch.Tensor:
        """Return the entropy in nats, of the batch shape."""
        return self._dist.entropy()

    def mode(self) -> torch.Tensor:
        """Return 1 where the mean is above 0.5, else 0."""
        return straight_through(self.mean.round(), self.mean)

    def sample(self, sample_shape: Shape = ()) -> torch.Tensor:
        """Draw zeros and ones."""
        return straight_through(self._dist.sample(torch.Size(sample_shape)), self.mean)

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """Return the log-likelihood of each element of ``x``, which lies in [0, 1]; it is not summed over the event."""
        base: td.Distribution = getattr(self._dist, "base_dist", self._dist)
        logits: torch.Tensor = base.logits  # type: ignore[attr-defined]
        return -F.softplus(-logits) * x - F.softplus(logits) * (1 - x)


class OneHotDist(td.OneHotCategorical):
    """A categorical distribution over one-hot vectors ``[..., N]`` whose samples have the gradient of their
    probabilities.

    Args:
        logits: unnormalised log-probabilities ``[..., N]``, or
        probs: probabilities ``[..., N]``.
        unimix_ratio: share of the uniform distribution that is mixed into that of the logits, such as 0.01.
    """

    def __init__(
        self, logits: torch.Tensor | None = None, probs: torch.Tensor | None = None, unimix_ratio: float = 0.0
    ) -> None:
        if logits is not None and unimix_ratio > 0:
            probs = (1 - unimix_ratio) * logits.softmax(-1) + unimix_ratio / logits.shape[-1]
            logits = None
        # The class of torch does not hand ``validate_args`` on.
        self._categorical = td.Categorical(probs=probs, logits=logits, validate_args=False)
        shapes = self._categorical.batch_shape, self._categorical.param_shape[-1:]
        td.Distribution.__init__(self, *shapes, validate_args=False)

    def mode(self) -> torch.Tensor:  # type: ignore[override]
        """Return the one-hot vector of the most likely class, with the gradient of the normalised logits."""
        best = torch.zeros_like(self.logits).scatter_(-1, self.logits.argmax(-1, keepdim=True), 1.0)
        return straight_through(best, self.logits)

    def sample(self, sample_shape: Shape = (), seed: int | None = None) -> torch.Tensor:
        """Draw one-hot vectors with the gradient of the probabilities.

        Raises:
            ValueError: ``seed`` is given; seed torch instead.
        """
        if seed is not None:
            raise InvalidArgumentError(f"samples are drawn from torch's generator, which seed={seed!r} does not change")
        probs = self.probs.expand(*sample_shape, *self.probs.shape)
        # As torch.multinomial draws, without its look at the values, which no graph can hold.
        waits = torch.empty_like(probs, memory_format=torch.contiguous_format).exponential_()
        drawn = (probs.detach() / waits).argmax(-1, keepdim=True)
        return straight_through(torch.zeros_like(waits).scatter_(-1, drawn, 1.0), probs)


class GumbelOneHotDist(OneHotDist):
    """Like :class:`OneHotDist`, with samples by the straight-through Gumbel-softmax (arXiv:1611.01144).

    Args:
        temp: temperature of the softmax that gives the gradients.
    """

    def __init__(self, logits: torch.Tensor, unimix_ratio: float = 0.0, temp: float = 1.0) -> None:
        super().__init__(logits, unimix_ratio=unimix_ratio)
        self._temp = temp

    def sample(self, sample_shape: Shape = (), seed: int | None = None) -> torch.Tensor:
        """Draw one-hot vectors with the gradient of the Gumbel-softmax.

        Raises:
            ValueError: ``seed`` is given; seed torch instead.
        """
        if seed is not None:
            return super().sample(sample_shape, seed)
        logits = self.logits.expand(*sample_shape, *self.logits.shape)
        return F.gumbel_softmax(logits, tau=self._temp, hard=True)


class TwoHotDistSymlog:
    """A number as a distribution over M buckets, evenly spaced in symlog space.

    Args:
        logits: ``[..., M]``; 255 of them in Dreamer, 101 in TD-MPC2.
        low, high: the outermost buckets; values beyond ``inv_symlog`` of them count as these.
        device: not used, because the buckets are where the logits are.
    """

    def __init__(
        self, logits: torch.Tensor, low: float = -20.0, high: float = 20.0, device: torch.device | str | None = None
    ) -> None:
        self.logits, self.low, self.high = logits, low, high
        self.probs = logits.softmax(-1)
        self.buckets = torch.linspace(low, high, logits.shape[-1], device=logits.device)

    def mean(self) -> torch.Tensor:
        """Return the expectation in symlog space, mapped back, ``[..., 1]``."""
        return inv_symlog((self.probs * self.buckets).sum(-1, keepdim=True))

    def mode(self) -> torch.Tensor:
        """Return :meth:`mean`."""
        return self.mean()

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """Return the negative cross entropy with ``x`` ``[..., 1]``, which its two nearest buckets share, ``[...]``."""
        last = self.logits.shape[-1] - 1
        place = (symlog(x) - self.low) / (self.high - self.low) * last
        place = place.clamp(0, last)
        below = place.floor().clamp(max=last - 1)
        index = below.long()
        pair = self.logits.log_softmax(-1).gather(-1, torch.cat([index, index + 1], -1))
        above = place - below
        return (pair * torch.cat([1 - above, above], -1)).sum(-1)


class SymlogDist:
    """Numbers that are predicted in symlog space with a squared or absolute error.

    Args:
        mode: the prediction in symlog space, of the batch and event shape.
        dist: ``mse`` or ``abs``.
        aggregation: ``sum`` or ``mean`` over the event.
        tol: errors below it count as 0.
        dim_to_reduce: axes of the event.
    """

    def __init__(
        self,
        mode: torch.Tensor,
        dist: str = "mse",
        aggregation: str = "sum",
        tol: float = 1e-8,
        dim_to_reduce: Sequence[int] = (-1, -2, -3),
    ) -> None:
        check_choice("dist", dist, ("mse", "abs"))
        check_choice("aggregation", aggregation, ("sum", "mean"))
        self._mode, self._dist, self._aggregation, self._tol = mode, dist, aggregation, tol
        self._dims = tuple(dim_to_reduce)

    def mode(self) -> torch.Tensor:
        """Return the prediction."""
        return inv_symlog(self._mode)

    def mean(self) -> torch.Tensor:
        """Return the prediction."""
        return inv_symlog(self._mode)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the negative error of ``value``, of the batch shape.

        Raises:
            ValueError: ``value`` has another shape than the prediction.
        """
        if value.shape != self._mode.shape:
            raise InvalidArgumentError(
                f"value must have the shape {tuple(self._mode.shape)} of the prediction, got {tuple(value.shape)}"
            )
        error = self._mode - symlog(value)
        error = error.square() if self._dist == "mse" else error.abs()
        error = torch.where(error < self._tol, 0.0, error)
        return -(error.mean(self._dims) if self._aggregation == "mean" else error.sum(self._dims))


class UnnormalizedHuber(td.Normal):
    """Normal distribution whose log-density is replaced by a negative smooth absolute error.

    Args:
        loc, scale: of the normal distribution.
        threshold: error from which on it is about linear.
    """

    def __init__(self, loc: torch.Tensor, scale: torch.Tensor | float, threshold: float = 1.0) -> None:
        super().__init__(loc, scale, validate_args=False)
        self._threshold = threshold

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return ``threshold - sqrt((value - mean)^2 + threshold^2)`` per element."""
        return self._threshold - ((value - self.mean).square() + self._threshold**2).sqrt()


class SafeTruncatedNormal(td.Normal):
    """Normal distribution whose samples are clipped into an interval; clipping does not change their gradient.

    Densities and entropies are those of the normal distribution.

    Args:
        loc, scale: of the normal distribution.
        low, high: interval of the samples.
        clip: distance of the samples from its ends; 0 to allow the ends.
        mult: factor of the clipped samples.
    """

    def __init__(
        self,
        loc: torch.Tensor,
        scale: torch.Tensor | float,
        low: float,
        high: float,
        clip: float = 1e-6,
        mult: float = 1,
    ) -> None:
        super().__init__(loc, scale, validate_args=False)
        self._low, self._high, self._clip, self._mult = low, high, clip, mult

    def rsample(self, sample_shape: Shape = ()) -> torch.Tensor:
        """Draw a sample in the interval, with gradient."""
        drawn = super().rsample(torch.Size(sample_shape))
        if self._clip:
            drawn = straight_through(drawn.clamp(self._low + self._clip, self._high - self._clip), drawn)
        return drawn * self._mult

    def sample(self, sample_shape: Shape = ()) -> torch.Tensor:
        """Draw a sample in the interval, with gradient."""
        return self.rsample(sample_shape)


class TanhBijector(td.TanhTransform):
    """Hyperbolic tangent as a transform of distributions; the ends of the interval have a finite inverse.

    Args:
        validate_args, name: not used.
    """

    def __init__(self, validate_args: bool = False, name: str = "tanh") -> None:
        super().__init__()
        self.name = name

    def _inverse(self, y: torch.Tensor) -> torch.Tensor:
        limit = 1 - torch.finfo(y.dtype).eps
        return torch.atanh(y.clamp(-limit, limit))
