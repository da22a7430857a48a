"""Run a measurement: all sides take turns, A B C C B A, round by round."""

from __future__ import annotations

import collections
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks._peers import PeerMissing, distributions_of
from benchmarks._plan import AGAIN, Measurement, OpSpec
from benchmarks._process import Contestant, SideError, SideProcess
from benchmarks._stats import Summary, noise, paired_ratio

PROPORTION_TOLERANCE = 0.03
BUILD_AT_ONCE = os.cpu_count() or 1

Say = Callable[[str], None]
Sides = dict[str, SideProcess]


class WorkMismatch(SideError):
    """A side did other work than the first one."""


def run_measurement(
    measurement: Measurement, mode: str, rounds: int, seconds_factor: float, say: Say
) -> dict[str, Any]:
    """Run all operations of a measurement in one thread mode; the result is plain data, ready for JSON."""
    record = _Record(measurement, mode)
    measurement = measurement.with_control()
    rounds = min(rounds, measurement.most_rounds or rounds)
    say(f"{measurement.title}, {mode}")
    began = time.monotonic()
    if measurement.persistent:
        with _started(measurement, mode, record) as sides:
            for ops in measurement.asked():
                for number in range(rounds):
                    _round(ops, sides, number, seconds_factor, record)
    else:
        for number in range(rounds):
            _fresh_round(measurement, mode, number, seconds_factor, record)
    return {**record.result(), "seconds": round(time.monotonic() - began, 1)}


@contextlib.contextmanager
def _started(measurement: Measurement, mode: str, record: _Record) -> Iterator[Sides]:
    """All sides, built before anything is measured; as many build at a time as there are cores."""
    with contextlib.ExitStack() as stack:
        sides: Sides = {}
        building: collections.deque[SideProcess] = collections.deque()

        def admit_oldest() -> None:
            side = building.popleft()
            if _admitted(side, measurement, record):
                sides[side.contestant.label] = side

        for contestant in measurement.contestants:
            side = _start(contestant, measurement, mode, record)
            if side is not None:
                building.append(stack.enter_context(side))
            if len(building) == BUILD_AT_ONCE:
                admit_oldest()
        while building:
            admit_oldest()
        yield sides


def _start(contestant: Contestant, measurement: Measurement, mode: str, record: _Record) -> SideProcess | None:
    try:
        return SideProcess(contestant, measurement.threads_of(contestant.label, mode))
    except PeerMissing as error:
        record.errors[contestant.label] = str(error)
        return None


def _admitted(side: SideProcess, measurement: Measurement, record: _Record) -> bool:
    """Wait until a side is built; one that fails, or does other work than the first, is noted and ended."""
    label = side.contestant.label
    try:
        ready = side.ready
    except SideError as error:
        record.errors[label] = str(error)
    else:
        record.add_side(side.contestant, ready)
        if measurement.same_work(ready["work"], record.work or {}):
            return True
        record.errors[label] = f"other work: {ready['work']} instead of {record.work}"
    side.close()
    return False


def _round(ops: Sequence[OpSpec], sides: Sides, number: int, seconds_factor: float, record: _Record) -> None:
    labels = list(sides) if number % 2 == 0 else list(reversed(sides))
    record.loads.append(round(os.getloadavg()[0], 2))
    for label in labels:
        if label not in record.errors:
            _measure(ops, sides[label], label, seconds_factor, record)


def _measure(ops: Sequence[OpSpec], side: SideProcess, label: str, seconds_factor: float, record: _Record) -> None:
    """Ask once for what operations of the same name report; notes an error instead of raising it."""
    if ops[0].name not in side.ready["ops"]:
        return
    try:
        answer = _ask(side, ops[0], seconds_factor)
        for op in ops:
            record.add(op, label, answer)
    except SideError as error:
        record.errors[label] = str(error)


def _fresh_round(measurement: Measurement, mode: str, number: int, seconds_factor: float, record: _Record) -> None:
    contestants = measurement.contestants if number % 2 == 0 else measurement.contestants[::-1]
    record.loads.append(round(os.getloadavg()[0], 2))
    for contestant in contestants:
        if contestant.label in record.errors:
            continue
        side = _start(contestant, measurement, mode, record)
        if side is None:
            continue
        with side:
            if not _admitted(side, measurement, record):
                continue
            for ops in measurement.asked():
                if contestant.label not in record.errors:
                    _measure(ops, side, contestant.label, seconds_factor, record)


def _ask(side: SideProcess, op: OpSpec, seconds_factor: float) -> dict[str, Any]:
    request = {"calls": 1} if op.seconds is None else {"seconds": op.seconds * seconds_factor}
    return side.ask(op=op.name, **request)


class _Record:
    """Collects the answers of a measurement and checks that all sides do the same work."""

    def __init__(self, measurement: Measurement, mode: str) -> None:
        self._measurement = measurement
        self._mode = mode
        self.work: dict[str, Any] | None = None
        self.errors: dict[str, str] = {}
        self.loads: list[float] = []
        self._sides: dict[str, dict[str, Any]] = {}
        self._figures: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
        self._counts: dict[str, dict[str, dict[str, int]]] = {}

    def add_side(self, contestant: Contestant, ready: dict[str, Any]) -> None:
        if self.work is None:
            self.work = ready["work"]
        names = ("python", "torch", "numpy", "gymnasium", *distributions_of(contestant.peer))
        versions = {name: ready["versions"][name] for name in names if name in ready["versions"]}
        self._sides[contestant.label] = {"peer": contestant.peer, "threads": ready["threads"], "versions": versions}

    def add(self, op: OpSpec, label: str, answer: dict[str, Any]) -> None:
        if op.value is not None:
            wall = cpu = float(answer["values"][op.value])
        else:
            self._check(op, label, answer["counts"])
            done = answer["counts"][op.unit]
            wall = done / answer["wall_s"]
            cpu = done / answer["cpu_s"] if answer["cpu_s"] > 0 else wall
        walls, cpus = self._figures.setdefault(op.title, {}).setdefault(label, ([], []))
        walls.append(wall)
        cpus.append(cpu)
        total = self._counts.setdefault(op.title, {}).setdefault(label, {})
        for name, count in answer["counts"].items():
            total[name] = total.get(name, 0) + count

    def _check(self, op: OpSpec, label: str, counts: dict[str, int]) -> None:
        if counts.get(op.unit, 0) <= 0:
            raise WorkMismatch(f"{label}: did no {op.unit} in a round")
        if op.proportion is not None:
            name, per, ratio = op.proportion
            if abs(counts[name] / counts[per] / ratio - 1) > PROPORTION_TOLERANCE:
                raise WorkMismatch(f"{label}: {counts[name]} {name} for {counts[per]} {per}, expected {ratio:g} each")
        first = next(iter(self._counts.get(op.title, {}).items()), None)
        if first is not None and op.exact:
            rounds = len(self._figures[op.title][first[0]][0])
            for name in op.exact:
                if counts[name] * rounds != first[1][name]:
                    raise WorkMismatch(f"{label}: {counts[name]} {name}, {first[0]} had {first[1][name] // rounds}")

    def result(self) -> dict[str, Any]:
        measurement = self._measurement
        return {
            "name": measurement.name,
            "title": measurement.title,
            "remark": measurement.remark,
            "mode": self._mode,
            "first": measurement.contestants[0].label,
            "varies": list(measurement.varies),
            "work": {key: value for key, value in (self.work or {}).items() if key not in measurement.varies},
            "load": self.loads,
            "sides": self._sides,
            "errors": self.errors,
            "ops": [self._op_result(op) for op in measurement.ops],
        }

    def _op_result(self, op: OpSpec) -> dict[str, Any]:
        first = self._measurement.contestants[0].label
        found = {label: Summary(tuple(w), tuple(c)) for label, (w, c) in self._figures.get(op.title, {}).items()}
        control = found.pop(first + AGAIN, None)
        result: dict[str, Any] = {
            "name": op.name,
            "title": op.title,
            "unit": op.unit if op.value is not None else f"{op.unit}/s",
            "lower": op.lower,
            "figures": {label: summary.as_dict() for label, summary in found.items()},
            "counts": self._counts.get(op.title, {}),
            "ratios": {},
            "cpu_ratios": {},
            "noise": None,
            "cpu_noise": None,
            "targets": [],
        }
        if first in found:
            # Sides that differ in their work are no more or less fast than the first.
            others = {} if self._measurement.varies else {k: one for k, one in found.items() if k != first}
            result["ratios"] = _ratios(found[first], others)
            if op.value is None:
                result["cpu_ratios"] = _ratios(found[first], others, cpu=True)
            if control is not None:
                result["noise"] = noise(found[first], control)
                result["cpu_noise"] = noise(found[first], control, cpu=True)
        result["targets"] = [_judge(target, found) for target in op.targets if self._mode in target.modes]
        return result


def _ratios(first: Summary, others: dict[str, Summary], cpu: bool = False) -> dict[str, float]:
    ratios = {label: paired_ratio(first, one, cpu) for label, one in others.items()}
    return {label: ratio for label, ratio in ratios.items() if ratio is not None}


def _judge(target: Any, found: dict[str, Summary]) -> dict[str, Any]:
    """Whether a target is met, by the paired ratio; ``None`` when a side is missing."""
    verdict: dict[str, Any] = {"text": target.text(), "measured": None, "met": None}
    if target.subject not in found or (target.against is not None and target.against not in found):
        return verdict
    ours = found[target.subject]
    measured = ours.median if target.against is None else paired_ratio(ours, found[target.against])
    if measured is None:
        return verdict
    met = measured >= target.at_least if target.at_most is None else measured <= target.at_most
    return {**verdict, "measured": measured, "met": bool(met)}
