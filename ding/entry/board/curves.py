"""Curves of many runs, reduced for display."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ding.entry.board.runs import BoardRun
from ding.entry.view.plot import average

AXES = ("step", "iter", "hours")
"""Env steps, train iterations, hours since the first value."""

# Maximum number of points; one per pixel of a wide chart would not be visible.
_POINTS = 400
# Bootstrap draws; the page repeats its requests while a run grows.
_DRAWS = 500
_HOUR_S = 3600.0


def run_curves(runs: Sequence[BoardRun], metric: str, axis: str) -> list[dict[str, Any]]:
    """Return the curve of each run that has the metric: ``id``, ``x`` and ``y`` of at most 400 points, ``nonfinite``.

    A point of a reduced curve is the mean of its neighbours; non-finite values are counted and omitted.
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
    """Return ``x`` and ``y`` of a curve, float64 ``[N]``, and the number of non-finite values."""
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
