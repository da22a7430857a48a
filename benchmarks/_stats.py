"""Numbers of one side over the rounds, and of two sides against each other."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Summary:
    """Rates of one side: units per wall second and per CPU second, one value per round."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    @property
    def best(self) -> float:
        return max(self.wall)

    @property
    def median_cpu(self) -> float:
        return statistics.median(self.cpu)

    @property
    def spread(self) -> float:
        """Distance of the quartiles over the median; 0 with fewer than two rounds."""
        return relative_spread(self.wall)

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "median": self.median,
            "best": self.best,
            "median_cpu": self.median_cpu,
            "spread": self.spread,
        }


def relative_spread(values: Sequence[float]) -> float:
    """Distance between the quartiles divided by the median."""
    if len(values) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


def paired_ratio(ours: Summary, theirs: Summary, cpu: bool = False) -> float | None:
    """Median over the rounds of our rate over theirs: what both met at the same time cancels.

    ``cpu`` takes the rates per CPU second, which other processes on the machine disturb less. ``None`` when all of
    theirs were zero.
    """
    both = (ours.cpu, theirs.cpu) if cpu else (ours.wall, theirs.wall)
    pairs = [a / b for a, b in zip(*both) if b > 0]
    return statistics.median(pairs) if pairs else None


def noise(first: Summary, again: Summary, cpu: bool = False) -> float:
    """How far two runs of the same side differ: the median over rounds of ``|a / b - 1|``."""
    both = (first.cpu, again.cpu) if cpu else (first.wall, again.wall)
    return statistics.median([abs(a / b - 1) for a, b in zip(*both) if b > 0] or [0.0])
