"""Curves of the runs in a folder, a panel for each config, beside those of stable-baselines3 where there are some."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np

from ding.config import ConfigValueError
from ding.entry.view.plot import RunCurve, average, empty_figure, learning_curves

SIDES = {"ding": "C0", "stable-baselines3": "C1"}
_RUN = re.compile(r"(.+)_s(\d+)(_sb3\.jsonl)?$")
_COLUMNS = 3


def curves(name: str, folder: Path) -> dict[str, list[RunCurve]]:
    """Env steps and returns of the runs of each side."""
    found: dict[str, list[RunCurve]] = {side: [] for side in SIDES}
    for run_folder in sorted(folder.glob(f"{name}_s[0-9]*/")):
        try:
            found["ding"] += [(curve.steps, curve.iqm) for curve in learning_curves([run_folder])]
        except ConfigValueError as error:  # it has not been evaluated yet
            print(error)
    for file in sorted(folder.glob(f"{name}_s[0-9]*_sb3.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        steps, returns = (np.array([row[key] for row in rows]) for key in ("env_step", "return"))
        found["stable-baselines3"].append((steps, returns))
    return found


def plot(folder: Path, out: Path) -> None:
    """Draw all runs in ``folder``: interquartile means over the seeds and their intervals of 95 %."""
    names = sorted({found[1] for path in folder.iterdir() if (found := _RUN.fullmatch(path.name))})
    if not names:
        raise SystemExit(f"{folder} holds no run NAME_sSEED")
    columns = min(_COLUMNS, len(names))
    rows = math.ceil(len(names) / columns)
    figure = empty_figure((3.2 * columns, 2.6 * rows))
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(rows, columns, number)
        for side, runs in curves(name, folder).items():
            if runs:
                curve = average(side, runs)
                axes.plot(curve.steps, curve.iqm, color=SIDES[side], linewidth=1, label=f"{side} ({curve.runs})")
                axes.fill_between(curve.steps, curve.low, curve.high, color=SIDES[side], alpha=0.2, linewidth=0)
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(out, dpi=150)
