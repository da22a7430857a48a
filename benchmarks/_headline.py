"""The three figures that a user cares about most, for the README."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks._peers import OWN
from benchmarks._plan import ONE_THREAD
from benchmarks._report import number
from benchmarks._stats import Summary, paired_ratio
from benchmarks.suites.end_to_end import PIPELINE_STEPS
from benchmarks.targets import Results, figure_of, newest

BEGIN = "<!-- begin: written by python -m benchmarks.docs -->"
END = "<!-- end -->"
REFERENCE = "DI-engine"
COMMAND = """```sh
python -m benchmarks.setup
python -m benchmarks vs_reference parallel && python -m benchmarks.docs
```"""
NONE = "not measured"


class Headline(NamedTuple):
    """One row: an operation of a measurement, how its rate is written, and why there may be no peer."""

    title: str
    measurement: str
    operation: str
    text: Callable[[float], str]
    without_peer: str = NONE


def _seconds_of_pipeline(rate: float) -> str:
    return f"{PIPELINE_STEPS / rate:.2f} s"


HEADLINES = (
    Headline("Collector, env steps/s", "collector_base_8", "collect and store", number),
    Headline(
        f"`serial_pipeline`, default CartPole config, {PIPELINE_STEPS:,} env steps",
        "serial_pipeline",
        "wall time of the whole pipeline",
        _seconds_of_pipeline,
        without_peer="none has it",
    ),
    Headline("Parallel mode, transitions/s into the buffer", "parallel", "into the replay buffer", number),
)


def block(documents: dict[str, dict[str, Any]]) -> str:
    """The lines between the two marks."""
    results = newest(documents)
    lines = ["| CartPole, one torch thread | ding | DI-engine 0.5.3 | best other peer |", "|---|---|---|---|"]
    lines += [_row(one, results) for one in HEADLINES]
    return "\n".join([BEGIN, *lines, "", _made(results), "", COMMAND, END])


def put_into(text: str, documents: dict[str, dict[str, Any]]) -> str:
    """``text`` with what stands between the two marks renewed.

    Raises:
        ValueError: the marks are not there.
    """
    before, mark, rest = text.partition(BEGIN)
    _, end_mark, after = rest.partition(END)
    if not mark or not end_mark:
        raise ValueError(f"there is no {BEGIN!r} followed by {END!r}")
    return before + block(documents) + after


def _row(one: Headline, results: Results) -> str:
    ours = _figure(one, results, OWN)
    cells = [one.title, NONE if ours is None else f"**{one.text(ours.median)}**"]
    cells.append(_beside(one, ours, _figure(one, results, REFERENCE)) or NONE)
    peers = {label: figure for label in _peer_labels(one, results) if (figure := _figure(one, results, label))}
    best = max(peers, key=lambda label: peers[label].median, default=None)
    cells.append(one.without_peer if best is None else f"{best}: {_beside(one, ours, peers[best])}")
    return f"| {' | '.join(cells)} |"


def _beside(one: Headline, ours: Summary | None, theirs: Summary | None) -> str:
    """Their figure, and how many times as fast we are."""
    if theirs is None:
        return ""
    ratio = None if ours is None else paired_ratio(ours, theirs)
    return one.text(theirs.median) + ("" if ratio is None else f" ({number(ratio)}x)")


def _figure(one: Headline, results: Results, label: str) -> Summary | None:
    return figure_of(results, one.measurement, ONE_THREAD, one.operation, label)


def _peer_labels(one: Headline, results: Results) -> list[str]:
    """Sides of other libraries; loops by hand run in our own interpreter and are none."""
    sides = results.get((one.measurement, ONE_THREAD), {}).get("sides", {})
    return [label for label, side in sides.items() if side["peer"] != OWN and not label.startswith(REFERENCE)]


def _made(results: Results) -> str:
    found = [
        results[one.measurement, ONE_THREAD]["made"] for one in HEADLINES if (one.measurement, ONE_THREAD) in results
    ]
    if not found:
        return "There are no results yet."
    machine = found[0]["machine"]
    days = sorted({made["finished"][:10] for made in found})
    rounds = sorted({made["rounds"] for made in found})
    text = (
        f"Medians of {' and '.join(map(str, rounds))} rounds on {machine['cores']} cores ({machine['cpu']}),"
        f" {' and '.join(days)}; in brackets how many times as fast ding is. All figures, what is compared with what,"
        " and the targets that are missed: [docs/performance.md](docs/performance.md). The same on your machine:"
    )
    return textwrap.fill(text, 120, break_on_hyphens=False)
