"""``ding plot``: learning curves as an image."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ding.config import ConfigValueError
from ding.entry.view.event_files import Scalars, read_files
from ding.entry.view.runs import event_files, find_runs, label_of, saved_config, seed_of
from ding.entry.view.seed_statistics import DRAWS, bootstrap_interval, interquartile_mean
from ding.utils import did_you_mean, require_extra

if TYPE_CHECKING:
    import matplotlib.figure

logger = logging.getLogger("ding.entry")

DEFAULT_TAG = "evaluator_step/reward_mean"

RunCurve = tuple[np.ndarray, np.ndarray]
"""Steps and values of one run, each ``[N]``, by ascending step."""

# Number of points at which an interval is computed; it is interpolated in between.
_BAND_POINTS = 400
_FEWEST_RUNS = 2


@dataclass(frozen=True)
class Curve:
    """Curve of one experiment.

    Attributes:
        label: Name of the experiment.
        runs: Number of runs.
        steps: int64 ``[N]``, ascending.
        iqm: Interquartile mean over the runs, float64 ``[N]``.
        low, high: Ends of its interval of 95 %, float64 ``[N]``; one run has none, and both are its values.
    """

    label: str
    runs: int
    steps: np.ndarray
    iqm: np.ndarray
    low: np.ndarray
    high: np.ndarray


def learning_curves(folders: Iterable[str | Path], tag: str = DEFAULT_TAG) -> list[Curve]:
    """Return one curve per experiment; runs that differ only in the seed or the time stamp belong together.

    Runs of an experiment are interpolated linearly to common steps. A run is excluded before its first value; after its
    last one (it was solved and stopped) it keeps that value. Non-finite values are omitted with a warning.

    Raises:
        ConfigValueError: A folder contains no runs, or no run has the tag.
    """
    groups: dict[str, list[RunCurve]] = {}
    known: set[str] = set()
    for run in find_runs(folders):
        scalars = read_files(event_files(run))
        known.update(scalars)
        if tag in scalars and len((curve := run_curve(run, scalars[tag], tag))[0]):
            groups.setdefault(label_of(run, seed_of(run, saved_config(run))), []).append(curve)
    if not groups:
        raise ConfigValueError(f"no run has values under the tag {tag!r}.{did_you_mean(tag, known)}")
    return [average(label, runs_of) for label, runs_of in groups.items()]


def run_curve(run: Path, scalars: Scalars, tag: str) -> RunCurve:
    """Return steps and values of a run, each ``[N]``, by ascending step; non-finite values are omitted and logged."""
    curve = scalars.newest_by_step()
    good = np.isfinite(curve.values)
    if not good.all():
        logger.warning("%s: %d values of %s are not finite and are left out", run, len(good) - good.sum(), tag)
    return curve.steps[good], curve.values[good]


def average(label: str, runs: Sequence[RunCurve], steps: np.ndarray | None = None, draws: int = DRAWS) -> Curve:
    """Return the interquartile mean of the runs of one experiment with its interval, see ``learning_curves``.

    Args:
        label: Name of the experiment.
        runs: ``(steps, values)`` of each run, ``[N]`` by ascending step, all finite.
        steps: Steps of the curve, ``[M]`` ascending; by default the steps of all runs.
        draws: Number of bootstrap resamples.
    """
    if steps is None:
        steps = np.unique(np.concatenate([run_steps for run_steps, _ in runs]))
    # [points, runs, 1]: whole runs are drawn, so that neighbouring points have the same draws.
    table = np.stack([np.interp(steps, *run, left=np.nan) for run in runs], axis=1)[..., None]
    iqm, low, high = (np.full(len(steps), np.nan) for _ in range(3))
    # Runs that have started remain: equal numbers of runs imply the same runs.
    begun = np.isfinite(table[..., 0]).sum(axis=1)
    for count in np.unique(begun[begun > 0]):
        at = np.flatnonzero(begun == count)
        there = np.isfinite(table[at[0], :, 0])
        part = table[at][:, there]
        iqm[at] = low[at] = high[at] = interquartile_mean(part)
        if count >= _FEWEST_RUNS:
            few = np.unique(np.linspace(0, len(at) - 1, _BAND_POINTS).round().astype(np.int64))
            ends = bootstrap_interval(interquartile_mean, part[few], draws=draws)
            low[at], high[at] = (np.interp(steps[at], steps[at[few]], end) for end in ends)
    return Curve(label, len(runs), steps, iqm, low, high)


def plot(folders: Iterable[str | Path], out: str | Path = "learning_curve.png", tag: str = DEFAULT_TAG) -> Path:
    """Plot the learning curves of the experiments in ``folders`` and return the path of the PNG.

    The line of an experiment with several runs is their interquartile mean, the band its 95 % interval.

    Raises:
        ImportError: matplotlib is not installed; the message names the extra.
        ConfigValueError: See ``learning_curves``; or the folder of ``out`` does not exist, or its suffix is no image
            format.
    """
    check_picture(out)
    return draw_curves(learning_curves(folders, tag), out, tag)


def check_picture(out: str | Path) -> None:
    """Check that an image can be written before the runs are read.

    Raises:
        ImportError: matplotlib is not installed; the message names the extra.
        ConfigValueError: The folder of ``out`` does not exist, or its suffix is no image format.
    """
    out = Path(out)
    if not out.parent.is_dir():
        raise ConfigValueError(f"{out}: there is no folder {out.parent} to write to")
    formats = empty_figure((1.0, 1.0)).canvas.get_supported_filetypes()
    if out.suffix and out.suffix[1:] not in formats:
        known = ", ".join(sorted(formats))
        raise ConfigValueError(f"{out}: no picture can be written as {out.suffix}; known are {known}")


def draw_curves(curves: Sequence[Curve], out: str | Path, tag: str) -> Path:
    """Plot curves with their intervals and return the path of the image.

    Args:
        tag: Tag of the values, for the axis labels.
    """
    figure = empty_figure((7.0, 4.2))
    axes = figure.add_subplot()
    for curve in curves:
        runs = f" ({curve.runs} runs)" if curve.runs > 1 else ""
        (line,) = axes.plot(curve.steps, curve.iqm, label=curve.label + runs)
        if curve.runs > 1:
            axes.fill_between(curve.steps, curve.low, curve.high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel("train iterations" if "_iter/" in tag else "env steps")
    axes.set_ylabel("evaluation return" if tag == DEFAULT_TAG else tag)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out, dpi=150)
    return Path(out)


def empty_figure(size_inches: tuple[float, float]) -> "matplotlib.figure.Figure":
    """Return a matplotlib figure that needs no display.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require_extra("matplotlib", "plot")
    # The object interface and this canvas need no display, and do not change pyplot's global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_inches, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
