"""``ding compare``: comparison of experiments of several seeds, in numbers and as curves.

Only result, status and event files and the text of saved configs are read; no code of a run is executed.
"""

import contextlib
import glob
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ding.config import ConfigValueError
from ding.entry.view.event_files import Scalars, read_files
from ding.entry.view.plot import DEFAULT_TAG, Curve, RunCurve, average, run_curve
from ding.entry.view.runs import (
    STATUS_FILE,
    event_files,
    find_runs,
    label_of,
    nearest_path,
    read_object,
    saved_config,
    seed_of,
)
from ding.entry.view.seed_statistics import Scores, bootstrap_interval, interquartile_mean, probability_of_improvement
from ding.entry.view.status import UNBOUNDED, finite
from ding.utils import did_you_mean

#: Tags of evaluations: of pipelines, of tasks, of DI-engine scripts.
RETURN_TAGS = (DEFAULT_TAG, "basic/eval_episode_return_mean", "evaluator_step/eval_episode_return_mean")
#: Measures for the comparison, with their names in tables.
MEASURES = {"return": "return", "area": "mean return of the curve", "steps": "env steps to the stop value"}

_JOINED_STEP, _JOINED_ITER = "_step/", "_iter/"


@dataclass(frozen=True)
class Estimate:
    """Statistic over seeds with its 95 % bootstrap interval, which a single seed does not have."""

    value: float
    low: float | None = None
    high: float | None = None

    def text(self) -> str:
        """Return the value and, if there is one, the interval."""
        interval = "" if self.low is None or self.high is None else f" ({_number(self.low)} to {_number(self.high)})"
        return f"{_number(self.value)}{interval}"


@dataclass(frozen=True)
class ExperimentRow:
    """Results of the seeds of one experiment.

    Attributes:
        name: Name of the experiment.
        runs: Its experiment folders.
        returns: Interquartile mean (IQM) of the returns at the common step.
        area: IQM of the mean return from the first evaluation to that step (the normalised area under the curve).
        solved: Number of runs that reached the stop value; None without one.
        steps: IQM of the env steps to the first evaluation that did; infinite if too few did.
        probability: Probability that a run of the first experiment is better than one of this one, by the table's
            measure.
    """

    name: str
    runs: Sequence[str]
    returns: Estimate
    area: Estimate
    solved: int | None = None
    steps: Estimate | None = None
    probability: Estimate | None = None


@dataclass(frozen=True)
class Comparison:
    """Comparison of experiments.

    Attributes:
        tag: Tag of the evaluation returns.
        at: Step at which returns are compared.
        by: Measure of the probabilities, a key of :data:`MEASURES`.
        stop_value: Return that counts as solved; None if the runs have no common one.
        rows: One row per experiment.
        curves: One curve per experiment.
        notes: Notes on the numbers, one sentence each.
    """

    tag: str
    at: int
    by: str
    stop_value: float | None
    rows: Sequence[ExperimentRow]
    curves: Sequence[Curve] = field(repr=False)
    notes: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return all data but the curves in JSON-like form; infinite and missing values are None."""
        plain = {"tag": self.tag, "at": self.at, "by": self.by, "stop_value": self.stop_value}
        rows = [finite(asdict(row)) for row in self.rows]
        return {**plain, "experiments": rows, "notes": list(self.notes)}

    def table(self) -> str:
        """Return the rows as text, followed by the notes."""
        axis = "train iterations" if _JOINED_ITER in self.tag else "env steps"
        head = ["experiment", "seeds", f"return at {self.at:,} {axis}", MEASURES["area"]]
        if self.stop_value is not None:
            head.append(f"{axis} to {_number(self.stop_value)}")
        if len(self.rows) > 1:
            head.append("P(first is better)" if self.by == "return" else f"P(first is better by {self.by})")
        lines = [head, *(self._cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
        return "\n".join([*text, *(f"note: {note}" for note in self.notes)])

    def _cells(self, row: ExperimentRow) -> list[str]:
        cells = [row.name, str(len(row.runs)), row.returns.text(), row.area.text()]
        if row.steps is not None:
            reached = f"{row.solved} of {len(row.runs)}"
            cells.append(row.steps.text() if row.solved == len(row.runs) else f"{reached} reached it")
        if len(self.rows) > 1:
            cells.append("-" if row.probability is None else row.probability.text())
        return cells


@dataclass(frozen=True)
class _Run:
    """One run: its curve, and its end according to its files."""

    folder: Path
    curve: RunCurve
    seed: int | None
    env: str
    stop_value: float | None
    solved: bool
    state: str

    @property
    def end(self) -> int:
        return int(self.curve[0][-1])

    def at(self, step: float) -> float:
        return float(np.interp(step, *self.curve))

    def area(self, first: int, last: int) -> float:
        """Return the mean of the curve between two steps."""
        if last <= first:
            return self.at(last)
        steps = self.curve[0]
        places = np.concatenate([[first], steps[(steps > first) & (steps < last)], [last]]).astype(np.float64)
        values = np.interp(places, *self.curve)
        return float(((values[1:] + values[:-1]) / 2 * np.diff(places)).sum() / (last - first))

    def steps_to(self, value: float) -> float:
        reached = self.curve[0][self.curve[1] >= value]
        return float(reached[0]) if len(reached) else math.inf


def compare(
    experiments: Iterable[str | Path],
    tag: str | None = None,
    at: int | None = None,
    by: str = "return",
    stop_value: float | None = None,
) -> Comparison:
    """Compare experiments by interquartile means over their seeds, with intervals and probabilities of improvement.

    Args:
        experiments: Folders, in which runs that differ only in their seed form one experiment, and patterns such as
            ``'exp/dqn_*'``, whose runs form one experiment each.
        tag: Tag of the evaluation returns; by default detected.
        at: Step at which returns are compared; by default the end of the shortest unsolved run. A solved run keeps its
            last return, because nothing is known beyond the end of a run.
        by: Measure of the probabilities of improvement, a key of :data:`MEASURES`.
        stop_value: Return that counts as solved; by default that of the configs.

    Raises:
        ConfigValueError: Nothing is found under one of the names, or no run has the tag.
    """
    if by not in MEASURES:
        raise ConfigValueError(f"by={by!r} is unknown.{did_you_mean(by, MEASURES)}")
    if at is not None and at < 0:
        raise ConfigValueError(f"at={at} is no step: expected a number of at least 0")
    found = {name: [(run, read_files(event_files(run))) for run in runs] for name, runs in _grouped(experiments)}
    tag = _tag_of([scalars for pairs in found.values() for _, scalars in pairs]) if tag is None else tag
    groups = {name: [run for pair in pairs if (run := _read(*pair, tag))] for name, pairs in found.items()}
    for name, pairs in found.items():
        if not groups[name]:
            known = {one for _, scalars in pairs for one in scalars}
            raise ConfigValueError(f"{name}: no run has values under the tag {tag!r}.{did_you_mean(tag, known)}")
    runs = [run for group in groups.values() for run in group]
    stop = stop_value if stop_value is not None else _common([run.stop_value for run in runs])
    if by == "steps" and stop is None:
        raise ConfigValueError("by='steps': the runs have no stop value in common; give one (--stop-value)")
    notes = _notes(groups, {name: len(pairs) for name, pairs in found.items()}, stop)
    if at is None:
        at, note = _horizon(runs)
    else:
        short = [run for run in runs if run.end < at and not run.solved]
        note = "" if not short else f"{_listed(short)} ended before step {at:,} unsolved: their last value counts there"
    return Comparison(
        tag, at, by, stop, _rows(groups, at, by, stop),
        [average(name, [run.curve for run in group]) for name, group in groups.items()],
        [*notes, *([note] if note else [])],
    )  # fmt: skip


def _grouped(experiments: Iterable[str | Path]) -> list[tuple[str, list[Path]]]:
    """Return names and runs of the experiments, in the given order."""
    groups: dict[str, list[Path]] = {}
    for name in map(str, experiments):
        is_pattern = not Path(name).is_dir() and glob.has_magic(name)
        if not is_pattern:
            for run in find_runs([name]):
                groups.setdefault(label_of(run, seed_of(run, saved_config(run))), []).append(run)
            continue
        folders = [path for path in sorted(glob.glob(name, recursive=True)) if Path(path).is_dir()]
        if not folders:
            raise ConfigValueError(f"{name}: no folder has a name like this{nearest_path(Path(name))}")
        groups.setdefault(name, []).extend(find_runs(folders))
    return [(name, list(dict.fromkeys(runs))) for name, runs in groups.items()]


def _tag_of(runs: Sequence[dict[str, Scalars]]) -> str:
    """Return the tag of evaluation returns that all runs have, else the first that any run has.

    If training takes no env steps, it is the tag over train iterations.
    """
    tags = [tag for tag in RETURN_TAGS if all(tag in run for run in runs)]
    tags += [tag for tag in RETURN_TAGS if any(tag in run for run in runs)]
    if not tags:
        raise ConfigValueError(f"no run has evaluations: none has values under {', '.join(RETURN_TAGS)}; give a tag")
    tag, over_iters = tags[0], tags[0].replace(_JOINED_STEP, _JOINED_ITER)
    without_steps = all(tag in run and len(np.unique(run[tag].steps)) == 1 for run in runs)
    more = any(over_iters in run and len(np.unique(run[over_iters].steps)) > 1 for run in runs)
    return over_iters if without_steps and more else tag


def _read(folder: Path, scalars: dict[str, Scalars], tag: str) -> _Run | None:
    """Read one run; return None if it has no values under the tag."""
    if tag not in scalars:
        return None
    curve = run_curve(folder, scalars[tag], tag)
    if not len(curve[0]):
        return None
    config, status, result = saved_config(folder), _json(folder / STATUS_FILE), _json(folder / "result.json")
    env = config.get("env") if isinstance(config.get("env"), dict) else {}
    stop = status.get("stop_value", (env or {}).get("stop_value"))
    solved = result.get("stop") is True or status.get("solved") is True
    name = (env or {}).get("env_id") or (env or {}).get("type") or ""
    state = str(status.get("state") or ("ended" if result else "unknown"))
    return _Run(folder, curve, seed_of(folder, config), str(name), _bounded(stop), solved, state)


def _json(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return read_object(path)
    return {}


def _bounded(value: object) -> float | None:
    """Return a stop value that a run can reach, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < UNBOUNDED else None


def _common(values: Sequence[float | None]) -> float | None:
    return values[0] if len(set(values)) == 1 else None


def _horizon(runs: Sequence[_Run]) -> tuple[int, str]:
    """Return the step at which returns are compared, and a note if one run limits the others."""
    unsolved = [run for run in runs if not run.solved]
    if not unsolved:
        return max(run.end for run in runs), ""
    shortest = min(unsolved, key=lambda run: run.end)
    longest = max(run.end for run in runs)
    if longest <= shortest.end:
        return shortest.end, ""
    return shortest.end, f"compared at {shortest.end:,}, where {shortest.folder} ends ({shortest.state}), unsolved"


def _rows(groups: dict[str, list[_Run]], at: int, by: str, stop: float | None) -> list[ExperimentRow]:
    first = max(int(run.curve[0][0]) for group in groups.values() for run in group)
    rows: list[ExperimentRow] = []
    better: Scores | None = None
    for name, runs in groups.items():
        measured = {
            "return": _column(run.at(at) for run in runs),
            "area": _column(run.area(first, at) for run in runs),
            "steps": _column(math.inf if stop is None else run.steps_to(stop) for run in runs),
        }
        # Higher is better.
        scores = -measured["steps"] if by == "steps" else measured[by]
        solved = None if stop is None else int(np.isfinite(measured["steps"]).sum())
        iqm = {key: _estimate(interquartile_mean, table) for key, table in measured.items()}
        probability = None if better is None else _estimate(probability_of_improvement, better, scores)
        better = scores if better is None else better
        steps = None if stop is None else iqm["steps"]
        folders = [str(run.folder) for run in runs]
        rows.append(ExperimentRow(name, folders, iqm["return"], iqm["area"], solved, steps, probability))
    return rows


def _column(values: Iterable[float]) -> Scores:
    """Return ``[runs, 1]``: the seeds of one task."""
    return np.array(list(values), np.float64)[:, None]


def _estimate(statistic: Any, *tables: Scores) -> Estimate:
    value = float(statistic(*tables))
    if min(map(len, tables)) < 2:
        return Estimate(value)
    low, high = bootstrap_interval(statistic, *tables)
    return Estimate(value, float(low), float(high))


def _notes(groups: dict[str, list[_Run]], found: dict[str, int], stop: float | None) -> list[str]:
    notes = []
    for name, runs in groups.items():
        if found[name] > len(runs):
            notes.append(f"{name}: {found[name] - len(runs)} of {found[name]} runs have no evaluation and are left out")
        if len(runs) == 1:
            notes.append(f"{name}: one seed, so that no interval can be given")
        twice = [
            str(seed) for seed, count in Counter(run.seed for run in runs).items() if seed is not None and count > 1
        ]
        if twice:
            notes.append(f"{name}: several runs with seed {', '.join(twice)}")
    runs = [run for group in groups.values() for run in group]
    envs = sorted({run.env for run in runs if run.env})
    if len(envs) > 1:
        notes.append(f"the runs are of several envs ({', '.join(envs)}): their returns may not be comparable")
    values = sorted({run.stop_value for run in runs if run.stop_value is not None})
    if stop is None and len(values) > 1:
        notes.append(f"no env steps to a stop value: the configs have several ({', '.join(map(_number, values))})")
    return notes


def _listed(runs: Sequence[_Run]) -> str:
    return ", ".join(str(run.folder) for run in runs)


def _number(value: float) -> str:
    """Format a number as ``12,345``, ``195.2`` or ``0.53``."""
    if not math.isfinite(value):
        return "never" if value > 0 else str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
