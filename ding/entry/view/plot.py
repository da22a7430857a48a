"""``ding plot``: learning curves as an image."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ding.config import ConfigValueError
from ding.entry.view.event_files import read_files
from ding.entry.view.runs import event_files, find_runs, label_of
from ding.utils import did_you_mean, require_extra

if TYPE_CHECKING:
    import matplotlib.figure

DEFAULT_TAG = "evaluator_step/reward_mean"


@dataclass(frozen=True)
class Curve:
    """Mean and spread over the runs of one experiment.

    ``steps`` int64 ``[N]``, ``mean``, ``low``, ``high`` float64 ``[N]``; ``low`` and ``high`` are one standard
    deviation away from the mean.
    """

    label: str
    runs: int
    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def learning_curves(folders: Iterable[str | Path], tag: str = DEFAULT_TAG) -> list[Curve]:
    """Return one curve per experiment; runs that differ in the seed or in the time stamp only belong together.

    Runs of an experiment are brought to common steps by linear interpolation. Before its first value a run does not
    count; after its last one (it was solved and stopped) it keeps that value.

    Raises:
        ConfigValueError: nothing is found in a folder, or no run has the tag.
    """
    groups: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    known: set[str] = set()
    for run in find_runs(folders):
        scalars = read_files(event_files(run))
        known.update(scalars)
        if tag in scalars:
            curve = scalars[tag].newest_by_step()
            groups.setdefault(label_of(run), []).append((curve.steps, curve.values))
    if not groups:
        raise ConfigValueError(f"no run has values under the tag {tag!r}.{did_you_mean(tag, known)}")
    return [average(label, runs_of) for label, runs_of in groups.items()]


def average(label: str, runs: Sequence[tuple[np.ndarray, np.ndarray]], steps: np.ndarray | None = None) -> Curve:
    """Return mean and spread of the runs of one experiment, see ``learning_curves``.

    Args:
        label: name of the experiment.
        runs: ``(steps, values)`` of each, ``[N]`` by ascending step.
        steps: where the curve has points, ``[M]`` ascending; at each step of each run when not given.
    """
    if steps is None:
        steps = np.unique(np.concatenate([run_steps for run_steps, _ in runs]))
    table = np.stack([np.interp(steps, run_steps, values, left=np.nan) for run_steps, values in runs])
    mean, spread = np.nanmean(table, axis=0), np.nanstd(table, axis=0)
    return Curve(label, len(runs), steps, mean, mean - spread, mean + spread)


def plot(folders: Iterable[str | Path], out: str | Path = "learning_curve.png", tag: str = DEFAULT_TAG) -> Path:
    """Draw the learning curves of the experiments in ``folders`` and return the path of the PNG.

    Raises:
        ImportError: matplotlib is missing; the message says which extra brings it.
        ConfigValueError: see ``learning_curves``; or ``out`` is in no folder, or no picture by its name.
    """
    out = Path(out)
    if not out.parent.is_dir():
        raise ConfigValueError(f"{out}: there is no folder {out.parent} to write to")
    figure, axes = _axes()
    formats = figure.canvas.get_supported_filetypes()
    if out.suffix and out.suffix[1:] not in formats:
        known = ", ".join(sorted(formats))
        raise ConfigValueError(f"{out}: no picture can be written as {out.suffix}; known are {known}")
    for curve in learning_curves(folders, tag):
        runs = f" ({curve.runs} runs)" if curve.runs > 1 else ""
        (line,) = axes.plot(curve.steps, curve.mean, label=curve.label + runs)
        if curve.runs > 1:
            axes.fill_between(curve.steps, curve.low, curve.high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel("train iterations" if "_iter/" in tag else "env steps")
    axes.set_ylabel("evaluation return" if tag == DEFAULT_TAG else tag)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out, dpi=150)
    return out


def _axes() -> tuple[Any, Any]:
    figure = empty_figure((7.0, 4.2))
    return figure, figure.add_subplot()


def empty_figure(size_inches: tuple[float, float]) -> "matplotlib.figure.Figure":
    """A matplotlib figure that needs no display.

    Raises:
        MissingExtraError: matplotlib is missing.
    """
    require_extra("matplotlib", "plot")
    # The object interface and this canvas need no display, and leave pyplot's global state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_inches, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
