"""Summary statistics of an evaluation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class EvaluationResult:
    """Statistics of the returns of an evaluation; all but the mean are ``None`` if unknown.

    Attributes:
        mean, std, min, max: Statistics of the returns. ``std`` is the standard deviation over these episodes (divided
        by their number), not the uncertainty of the mean.
        episodes: Number of episodes.
        train_iter: Train iterations of the policy.
        opponent: Opponent of a game of two players, if a run has several of them, the weaker ones first.
    """

    mean: float
    std: float | None = None
    min: float | None = None
    max: float | None = None
    episodes: int | None = None
    train_iter: int | None = None
    opponent: str | None = None

    @classmethod
    def of(cls, returns: Sequence[float], train_iter: int | None = None) -> "EvaluationResult":
        """Compute the result of an evaluation from the returns of its episodes, at least one."""
        values = np.asarray(returns, dtype=np.float64)
        mean, std, low, high = (float(fn(values)) for fn in (np.mean, np.std, np.min, np.max))
        return cls(mean, std, low, high, len(values), train_iter)

    def is_better_than(self, other: "EvaluationResult | None") -> bool:
        """Return whether this result replaces ``other`` as the best one.

        Of equal results, the first one is kept. Any result against a later opponent is better than earlier ones.
        """
        return other is None or self.opponent != other.opponent or self.mean > other.mean

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-like data; without ``opponent`` if there is none."""
        found = asdict(self)
        return found if self.opponent is not None else {key: found[key] for key in found if key != "opponent"}

    @property
    def spread(self) -> str:
        """Return ``std 1.20, 18.00 to 21.00 in 5 episodes``, without unknown parts."""
        parts = [] if self.std is None else [f"std {self.std:.2f}"]
        count = [] if self.episodes is None else [f"{self.episodes} episode{'s' * (self.episodes != 1)}"]
        if self.min is not None and self.max is not None:
            count.insert(0, f"{self.min:.2f} to {self.max:.2f}")
        return ", ".join([*parts, *([" in ".join(count)] if count else [])])

    def describe(self, goal: str = "") -> str:
        """Return ``return 19.50 (std 1.20, 18.00 to 21.00 in 5 episodes)``; ``goal`` is added to the brackets."""
        inside = ", ".join(part for part in (self.spread, goal) if part)
        return f"return {self.mean:.2f}" + (f" ({inside})" if inside else "")
