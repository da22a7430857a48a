"""What is measured: measurements, their sides, and the targets that the project set itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks._peers import OWN
from benchmarks._process import Contestant

ONE_THREAD, DEFAULT_THREADS = "one thread", "default threads"
MODES = (ONE_THREAD, DEFAULT_THREADS)
AGAIN = " (again)"
BEFORE = " before"


@dataclass(frozen=True)
class Target:
    """``subject`` must be at least ``at_least`` times as fast as ``against`` (with ``lower``: need at most
    ``at_most`` times as much).

    ``against=None`` compares the figure of ``subject`` itself, in the unit of its operation.
    """

    issue: int
    against: str | None
    at_least: float | None = 1.0
    at_most: float | None = None
    subject: str = OWN
    modes: tuple[str, ...] = MODES

    def text(self) -> str:
        """One line for the tables."""
        bound = f"at least {self.at_least:g}" if self.at_most is None else f"at most {self.at_most:g}"
        what = f"{bound} x {self.against}" if self.against else bound
        return f"issue {self.issue}: {self.subject} {what}"


@dataclass(frozen=True)
class OpSpec:
    """One operation of a measurement.

    Args:
        name: of the operation in the side scripts.
        title: for the tables.
        unit: name of the counter whose rate is the figure; with ``value`` the unit of that value.
        seconds: length of one round; ``None`` asks for one call.
        value: take this key of the answer's ``values`` as the figure instead of a rate.
        lower: less is better.
        proportion: ``(counter, per counter, ratio)`` that every side must keep to within 3 %.
        exact: counters that must be equal on all sides in every round.
        quick: part of ``--quick``, when the measurement is.
    """

    name: str
    title: str
    unit: str
    seconds: float | None = 0.6
    value: str | None = None
    lower: bool = False
    proportion: tuple[str, str, float] | None = None
    exact: tuple[str, ...] = ()
    quick: bool = True
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """Several sides that do the same work, and the operations they are measured on.

    Args:
        name: unique, used in files and by ``--only``.
        persistent: sides live through all rounds; else each round starts them anew.
        modes: thread settings; contestants with a ``pinned`` mode keep theirs.
        quick: part of ``--quick``.
        varies: keys of the declared work that may differ from side to side, because they are what is compared.
        most_rounds: no more rounds than these, for figures that are the same in every round.
    """

    name: str
    title: str
    contestants: tuple[Contestant, ...]
    ops: tuple[OpSpec, ...]
    modes: tuple[str, ...] = MODES
    persistent: bool = True
    quick: bool = False
    pinned: dict[str, str] = field(default_factory=dict, compare=False)
    remark: str = ""
    varies: tuple[str, ...] = ()
    most_rounds: int | None = None

    def same_work(self, work: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether two sides declare the same work."""
        return all(work.get(key) == other.get(key) for key in {*work, *other} if key not in self.varies)

    def asked(self) -> list[tuple[OpSpec, ...]]:
        """The operations, together where one answer gives the figures of several."""
        groups: dict[str, list[OpSpec]] = {}
        for op in self.ops:
            groups.setdefault(op.name if op.value is not None else f"{op.name}: {op.title}", []).append(op)
        return [tuple(group) for group in groups.values()]

    def threads_of(self, label: str, mode: str) -> int | None:
        """Thread setting of a side in a mode: 1, or ``None`` for none set."""
        return 1 if self.pinned.get(label.removesuffix(AGAIN), mode) == ONE_THREAD else None

    def with_control(self) -> Measurement:
        """The same with the first side twice: what differs between the two is noise."""
        first = self.contestants[0]
        again = replace(first, label=first.label + AGAIN)
        return replace(self, contestants=(first, *self.contestants[1:], again))

    def against_checkout(self, root: Path) -> Measurement:
        """The first side against that of another checkout, on the operations of the quick form."""
        now = self.contestants[0]
        before = replace(now, label=now.label + BEFORE, root=root)
        ops = tuple(op for op in self.ops if op.quick)
        return replace(self, contestants=(now, before), ops=ops, modes=(ONE_THREAD,))


def own(script: str, *args: object, label: str = OWN) -> Contestant:
    """A side of this project."""
    return Contestant(label, OWN, script, tuple(str(arg) for arg in args))


def peer(name: str, label: str, script: str, *args: object) -> Contestant:
    """A side of a peer, in the peer's interpreter."""
    return Contestant(label, name, script, tuple(str(arg) for arg in args))
