"""The rows of runs in the tables of `docs/results.md`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ding.entry.view.seed_statistics import bootstrap_interval, interquartile_mean

#: Titles of the columns that are written; others, such as the algorithm, stay.
RETURN, STEPS, IQM, CPU, COMMIT = (
    "return, seeds 0, 1, 2",
    "env steps, seeds 0, 1, 2",
    "env steps, IQM (95 %)",
    "CPU seconds",
    "commit",
)
#: The column of the table of further seeds.
FURTHER = "env steps"
_LISTED = (0, 1, 2)
_FURTHER_SEEDS = (3, 4, 5, 6, 7)
_FEWEST_SEEDS = 3
_DATA_MODES = ("serial_bc", "serial_offline", "serial_pc")


def update_table(file: Path, rows: Sequence[dict[str, Any]], commit: str | None = None) -> str:
    """Write rows into the tables of a Markdown file that have the columns; returns what was done, a line per config.

    A config without a line in any gets one at the end of the first, with its name in the place of the algorithm. One of
    which seeds 0, 1 and 2 are not all there is left as it is.

    Args:
        commit: Of rows that do not say theirs; such rows are left out without it.

    Raises:
        SystemExit: the file has no such table.
    """
    lines = file.read_text(encoding="utf-8").splitlines()
    done = []
    groups: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["config"], {})[row["seed"]] = row
    for name, seeds in groups.items():
        if reason := _why_not(seeds, commit):
            done.append(f"{name}: left as it is, {reason}")
            continue
        tables = [_table(lines, at) for at, line in enumerate(lines) if {RETURN, STEPS, COMMIT} <= set(_cells(line))]
        if not tables:
            raise SystemExit(f"{file}: no table has the columns {RETURN!r}, {STEPS!r} and {COMMIT!r}")
        places = [(titles, at) for titles, at_of in tables for at in at_of if _cells(lines[at])[0] == name]
        if places:
            titles, at = places[0]
        else:
            titles, at = tables[0][0], tables[0][1].stop
            lines.insert(at, f"| {name} | {name} |" + "  |" * (len(titles) - 2))
        cells = dict(zip(titles, _cells(lines[at]))) | _written(seeds, commit)
        lines[at] = _line(titles, cells)
        if set(_FURTHER_SEEDS) <= set(seeds):
            further = {FURTHER: ", ".join(_steps_text(seeds[seed]) for seed in _FURTHER_SEEDS), COMMIT: cells[COMMIT]}
            _write_further(lines, name, further)
        done.append(f"{name}: {len(seeds)} seeds")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return "\n".join(done)


def _write_further(lines: list[str], name: str, written: dict[str, str]) -> None:
    """Write the env steps of the further seeds where a table has them."""
    heads = [at for at, line in enumerate(lines) if {FURTHER, COMMIT} <= set(_cells(line))]
    for titles, places in (_table(lines, at) for at in heads):
        for at in places:
            cells = _cells(lines[at])
            if cells[0] == name:
                lines[at] = _line(titles, dict(zip(titles, cells)) | written)


def _line(titles: Sequence[str], cells: dict[str, str]) -> str:
    return "| " + " | ".join(cells.get(title, "") for title in titles) + " |"


def _table(lines: Sequence[str], head: int) -> tuple[list[str], range]:
    """The titles of the table with this head, and the places of its rows."""
    first = head + 2
    end = next((at for at in range(first, len(lines)) if not lines[at].startswith("|")), len(lines))
    return _cells(lines[head]), range(first, end)


def _why_not(seeds: dict[int, dict[str, Any]], commit: str | None) -> str:
    if missing := [str(seed) for seed in _LISTED if seed not in seeds]:
        return f"seeds {', '.join(missing)} are missing"
    if failed := [str(seed) for seed, row in seeds.items() if row["exit_code"] != 0]:
        return f"seeds {', '.join(failed)} failed"
    if commit is None and not all(row.get("commit") for row in seeds.values()):
        return "rows do not say their commit; give --commit"
    return ""


def _written(seeds: dict[int, dict[str, Any]], commit: str | None) -> dict[str, str]:
    """The columns that follow from the rows of one config, by seed."""
    listed, ordered = [seeds[seed] for seed in _LISTED], [seeds[seed] for seed in sorted(seeds)]
    cpu_s = sorted(row["cpu_s"] for row in ordered)
    low, high = f"{cpu_s[0]:.0f}", f"{cpu_s[-1]:.0f}"
    commits = list(dict.fromkeys(row.get("commit") or commit or "" for row in ordered))
    return {
        RETURN: ", ".join(_return_text(row["return"]) for row in listed),
        STEPS: _all_steps_text(listed),
        IQM: "" if _learns_from_data(ordered[0]) else _iqm_text(ordered),
        CPU: low if low == high else f"{low} to {high}",
        COMMIT: ", ".join(f"`{one}`" for one in commits),
    }


def _learns_from_data(row: dict[str, Any]) -> bool:
    """Whether a run takes no env steps."""
    return row["mode"] in _DATA_MODES


def _all_steps_text(rows: Sequence[dict[str, Any]]) -> str:
    if _learns_from_data(rows[0]):
        iters = ", ".join(f"{row['train_iters']:,}" for row in rows)
        return f"none; {iters} train iterations"
    return ", ".join(_steps_text(row) for row in rows)


def _iqm_text(rows: Sequence[dict[str, Any]]) -> str:
    """Interquartile mean of the env steps to the stop value; runs that did not reach it count as infinite."""
    if len(rows) < _FEWEST_SEEDS:
        return ""
    steps = np.array([row["env_steps"] if row["stop"] else math.inf for row in rows])[:, None]
    low, high = bootstrap_interval(interquartile_mean, steps)
    value, first, last = (f"{one:,.0f}" if math.isfinite(one) else "never" for one in (
        float(interquartile_mean(steps)), float(low), float(high)
    ))  # fmt: skip
    return f"{value} ({first} to {last}), {len(rows)} seeds"


def _return_text(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2f}"


def _steps_text(row: dict[str, Any]) -> str:
    return f"{row['env_steps']:,}" if row["stop"] else f"not within {row['env_steps']:,}"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else [""]
