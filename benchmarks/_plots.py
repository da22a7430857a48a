"""Results as bar charts: one panel per operation, one bar per side, the spread over the rounds as a line on the bar."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._plan import MODES
from benchmarks._report import number

BAR_INCHES = 0.22
PANEL_INCHES = 0.75
WIDTH_INCHES = 13.0
COLUMNS = 2
COLOURS = {MODES[0]: "#3b6ea5", MODES[1]: "#c9a227"}
OURS, DPI, PALETTE = "ding", 80, 32
# Where a chart says which results it shows.
STAMP = "Results"

Bar = tuple[str, str, dict[str, Any]]


class NoMatplotlib(RuntimeError):
    """Charts need matplotlib: ``pip install -c constraints.txt -e '.[plot]'``."""


def stamp_of(document: dict[str, Any]) -> str:
    """What tells the results of one document from those of another."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def stamp_in(file: Path) -> str:
    """The stamp that a chart carries, '' without one.

    A PNG is a signature and chunks of (length, kind, content, checksum); the text chunk holds ``key NUL value``.
    """
    data, place, key = file.read_bytes(), 8, f"{STAMP}\0".encode()
    while place < len(data):
        length, kind = int.from_bytes(data[place : place + 4], "big"), data[place + 4 : place + 8]
        content = data[place + 8 : place + 8 + length]
        if kind == b"tEXt" and content.startswith(key):
            return content[len(key) :].decode("latin-1")
        place += 12 + length
    return ""


def write_chart(document: dict[str, Any], file: Path) -> None:
    """Draw the document of a suite.

    Raises:
        NoMatplotlib: it is not installed.
    """
    try:
        import numpy as np
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from PIL import Image, PngImagePlugin
    except ImportError as error:
        raise NoMatplotlib(str(NoMatplotlib.__doc__)) from error
    panels = _panels(document)
    rows = [panels[start : start + COLUMNS] for start in range(0, len(panels), COLUMNS)]
    heights = [PANEL_INCHES + BAR_INCHES * max(len(bars) for _, _, bars in row) for row in rows] or [1.0]
    figure = Figure(figsize=(WIDTH_INCHES, sum(heights)), dpi=DPI, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(heights), COLUMNS, height_ratios=heights)
    for row_number, row in enumerate(rows):
        for column, (title, unit, bars) in enumerate(row):
            _draw(figure.add_subplot(grid[row_number, column]), title, unit, bars)
    canvas.draw()
    stamp = PngImagePlugin.PngInfo()
    stamp.add_text(STAMP, stamp_of(document))
    temporary = file.with_name(file.name + ".tmp")
    # A palette is enough for bars, and a third of the size.
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(PALETTE)
    picture.save(temporary, format="png", optimize=True, pnginfo=stamp)
    os.replace(temporary, file)


def _panels(document: dict[str, Any]) -> list[tuple[str, str, list[Bar]]]:
    """``(title, unit, bars)`` per measurement and operation; the thread modes share a panel."""
    found: dict[tuple[str, str], tuple[str, str, list[Bar]]] = {}
    for one in document["measurements"]:
        for op in one["ops"]:
            better = ", less is better" if op["lower"] else ""
            panel = (f"{one['title']}\n{op['title']}", op["unit"].replace("_", " ") + better, [])
            bars = found.setdefault((one["name"], op["title"]), panel)[2]
            bars += [(label, one["mode"], figure) for label, figure in op["figures"].items()]
    return [panel for panel in found.values() if panel[2]]


def _draw(axes: Any, title: str, unit: str, bars: Sequence[Bar]) -> None:
    modes = list(dict.fromkeys(mode for _, mode, _ in bars))
    labels = list(dict.fromkeys(label for label, _, _ in bars))
    thickness = 0.8 / len(modes)
    widest = max(max(figure["wall"]) for _, _, figure in bars) or 1.0
    for label, mode, figure in bars:
        place = labels.index(label) + (modes.index(mode) - (len(modes) - 1) / 2) * thickness
        low, high = _quartiles(figure["wall"])
        middle = figure["median"]
        error = [[max(0.0, middle - low)], [max(0.0, high - middle)]]
        emphasis = 1.0 if label.startswith(OURS) else 0.55
        axes.barh(place, middle, thickness * 0.9, xerr=error, color=COLOURS[mode], alpha=emphasis, ecolor="black")
        axes.text(max(middle, high) + widest / 100, place, number(middle), va="center", fontsize=7)
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, widest * 1.15)
    axes.set_title(title, fontsize=8, loc="left")
    axes.set_xlabel(unit, fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    if len(modes) > 1:
        handles = [axes.barh(0, 0, color=COLOURS[mode]) for mode in modes]
        axes.legend(handles, modes, fontsize=7, loc="lower right")


def _quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high
