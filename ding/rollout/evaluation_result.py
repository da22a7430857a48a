"""What an evaluation found, in a few numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EvaluationResult:
    """The returns of an evaluation in numbers; all but the mean are ``None`` where they are not known.

    Attributes:
        mean, std, min, max: of the returns. ``std`` is the standard deviation of these episodes (divided by their
            number), and not the uncertainty of the mean.
        episodes: number of episodes.
        train_iter: train iterations of the policy.
    """

    mean: float
    std: float | None = None
    min: float | None = None
    max: float | None = None
    episodes: int | None = None
    train_iter: int | None = None

    @classmethod
    def of(cls, returns: Sequence[float], train_iter: int | None = None) -> "EvaluationResult":
        """Return the result of an evaluation from the returns of its episodes, at least one."""
        values = np.asarray(returns, dtype=np.float64)
        mean, std, low, high = (float(fn(values)) for fn in (np.mean, np.std, np.min, np.max))
        return cls(mean, std, low, high, len(values), train_iter)

    @property
    def spread(self) -> str:
        """``std 1.20, 18.00 to 21.00 in 5 episodes``, as far as it is known."""
        parts = [] if self.std is None else [f"std {self.std:.2f}"]
        count = [] if self.episodes is None else [f"{self.episodes} episode{'s' * (self.episodes != 1)}"]
        if self.min is not None and self.max is not None:
            count.insert(0, f"{self.min:.2f} to {self.max:.2f}")
        return ", ".join([*parts, *([" in ".join(count)] if count else [])])

    def describe(self, goal: str = "") -> str:
        """Return ``return 19.50 (std 1.20, 18.00 to 21.00 in 5 episodes)``; ``goal`` is added to the brackets."""
        inside = ", ".join(part for part in (self.spread, goal) if part)
        return f"return {self.mean:.2f}" + (f" ({inside})" if inside else "")
