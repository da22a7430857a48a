"""The curves of many runs, thinned for a screen."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ding.entry.board.runs import BoardRun
from ding.entry.view.plot import average

AXES = ("step", "iter", "hours")
"""Env steps, train iterations, hours since the first value."""

# About one point per pixel of a wide chart would be more than anyone sees.
_POINTS = 400
# Of the bootstrap: the page asks again while a run grows.
_DRAWS = 500
_HOUR_S = 3600.0


def run_curves(runs: Sequence[BoardRun], metric: str, axis: str) -> list[dict[str, Any]]:
    """Return the curve of each run that has the metric: ``id``, ``x`` and ``y`` of at most 400 points, ``nonfinite``.

    A point of a thinned curve is the mean of its neighbours; values that are not finite are counted and left out.
    """
    curves = []
    for run in runs:
        points = _points(run, metric, axis)
        if points is not None:
            x, y, nonfinite = points
            curves.append({"id": run.id, "x": x.tolist(), "y": y.tolist(), "nonfinite": nonfinite})
    return curves


def group_curves(runs: Sequence[BoardRun], metric: str, axis: str) -> list[dict[str, Any]]:
    """Return interquartile mean and interval over the runs of each experiment, see ``ding plot``."""
    groups: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for run in runs:
        points = _points(run, metric, axis)
        if points is not None and len(points[0]):
            groups.setdefault(run.label, []).append(points[:2])
    found = []
    for label, curves in groups.items():
        steps = np.unique(np.concatenate([x for x, _ in curves]))
        if len(steps) > _POINTS:
            steps = np.linspace(steps[0], steps[-1], _POINTS)
        curve = average(label, curves, steps, draws=_DRAWS)
        lines = {key: getattr(curve, key).tolist() for key in ("iqm", "low", "high")}
        found.append({"label": label, "runs": curve.runs, "x": curve.steps.tolist(), **lines})
    return found


def _points(run: BoardRun, metric: str, axis: str) -> tuple[np.ndarray, np.ndarray, int] | None:
    """``x`` and ``y`` of a curve, float64 ``[N]``, and how many values were not finite."""
    names = ("step", "iter") if axis == "hours" else (axis,)
    scalars = next((curve for name in names if (curve := run.curve(metric, name)) is not None), None)
    if scalars is None:
        return None
    x, y = scalars.steps.astype(np.float64), scalars.values
    if axis == "hours":
        # A resumed run may have written a later step at an earlier time.
        order = np.argsort(scalars.wall_s, kind="stable")
        x, y = (scalars.wall_s[order] - scalars.wall_s[order[0]]) / _HOUR_S, y[order]
    good = np.isfinite(y)
    nonfinite = int(len(y) - good.sum())
    x, y = x[good], y[good]
    if len(x) > _POINTS:
        starts = np.linspace(0, len(x), _POINTS, endpoint=False).astype(np.int64)
        sizes = np.diff(np.append(starts, len(x)))
        x, y = np.add.reduceat(x, starts) / sizes, np.add.reduceat(y, starts) / sizes
    return x, y, nonfinite
