"""Trials of a sweep as a table and as a plot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ding.entry.sweep.study import TrialResult
from ding.entry.view.plot import empty_figure


def table(trials: Sequence[TrialResult]) -> str:
    """Return the trials as text, best first; pruned and failed trials come last."""
    order = {"complete": 0, "pruned": 1}
    keys = list(dict.fromkeys(key for trial in trials for key in trial.params))
    rows = [["trial", "return", "state", *keys]]
    for trial in sorted(trials, key=lambda one: (order.get(one.state, 2), -_value(one), one.number)):
        value = "-" if trial.value is None else f"{trial.value:.2f}"
        rows.append([str(trial.number), value, trial.state, *(_text(trial.params.get(key)) for key in keys)])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def plot_trials(trials: Sequence[TrialResult], out: str | Path) -> Path:
    """Plot the return of each trial over each parameter; return the path of the PNG.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    keys = list(dict.fromkeys(key for trial in trials for key in trial.params))
    figure = empty_figure((4.0 * max(1, len(keys)), 3.6))
    for place, key in enumerate(keys, 1):
        axes = figure.add_subplot(1, len(keys), place)
        for state, marker in (("complete", "o"), ("pruned", "x")):
            shown = [one for one in trials if one.state == state and key in one.params]
            points = [(_place(one.params[key]), one.value) for one in shown if one.value is not None]
            axes.scatter([at for at, _ in points], [value for _, value in points], marker=marker, label=state)
        if all(isinstance(one.params.get(key), float) and one.params[key] > 0 for one in trials if key in one.params):
            axes.set_xscale("log")
        axes.set_xlabel(key)
        axes.set_ylabel("best evaluation return")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(out, dpi=150)
    return Path(out)


def _value(trial: TrialResult) -> float:
    return float("-inf") if trial.value is None else trial.value


def _place(value: Any) -> int | float | str:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)
