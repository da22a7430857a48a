"""Results as Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def markdown(document: dict[str, Any]) -> str:
    """The document of one suite (see `benchmarks._store`) as Markdown."""
    lines = [f"# {document['title']}", "", *_head(document), ""]
    lines += targets_table(document["measurements"])
    for measurement in document["measurements"]:
        lines += _measurement(measurement, document)
    lines += _versions(document["measurements"])
    return "\n".join(lines).rstrip() + "\n"


def _head(document: dict[str, Any]) -> list[str]:
    machine = document["machine"]
    return [
        f"{document['finished']}, commit {document['commit'] or 'unknown'}, {machine['cpu']}, {machine['cores']} cores,"
        f" {machine['memory_gib']} GiB, {machine['system']}. {document['rounds']} rounds; all sides take turns in every"
        " round. Ratio: median over the rounds of ours / theirs. Spread: distance of the quartiles over the median."
        " Per CPU s: work per second of CPU time, child processes included.",
        "",
        f"Made by `{document['command']}`.",
    ]


def targets_table(measurements: Sequence[dict[str, Any]], level: int = 2) -> list[str]:
    """All targets with what was measured beside them."""
    rows = [
        f"| {one['title']}: {op['title']} | {one['mode']} | {target['text']} | {_verdict(target)} |"
        for one in measurements
        for op in one["ops"]
        for target in op["targets"]
    ]
    if not rows:
        return []
    return [f"{'#' * level} Targets", "", "| what | threads | target | measured |", "|---|---|---|---|", *rows, ""]


def _verdict(target: dict[str, Any]) -> str:
    if target["measured"] is None:
        return "not measured"
    return f"{'met' if target['met'] else '**missed**'}: {number(target['measured'])}"


def _measurement(one: dict[str, Any], document: dict[str, Any]) -> list[str]:
    loads = one["load"]
    made = one.get("made", {})
    load = f" Load of the machine {min(loads):.1f} to {max(loads):.1f}." if loads else ""
    took = f" Took {one['seconds']:.0f} s." if "seconds" in one else ""
    lines = [f"## {one['title']} ({one['mode']})", "", f"Work: {_work(one['work'])}.{load}{took}", ""]
    if made and made["finished"] != document["finished"]:
        lines += [
            f"Made {made['finished']}, commit {made['commit']}, {made['rounds']} rounds: `{made['command']}`.",
            "",
        ]
    if one["remark"]:
        lines += [one["remark"], ""]
    for op in one["ops"]:
        lines += _op(op)
    for label, error in one["errors"].items():
        lines += [f"- {label} did not run: {' '.join(error.split())}"]
    return [*lines, ""] if one["errors"] else lines


def _op(op: dict[str, Any]) -> list[str]:
    noise = "" if op["noise"] is None else f" The same side twice differs by {op['noise']:.1%}."
    better = " (less is better)" if op["lower"] else ""
    lines = [f"**{op['title']}**, {op['unit'].replace('_', ' ')}{better}.{noise}", ""]
    lines += [
        "| side | median | best | spread | per CPU s | ours / theirs | by CPU time |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, figure in op["figures"].items():
        ratio = op["ratios"].get(label)
        best = min(figure["wall"]) if op["lower"] else figure["best"]
        cells = [label, number(figure["median"]), number(best), f"{figure['spread']:.0%}"]
        by_cpu = op["cpu_ratios"].get(label)
        cells += [number(figure["median_cpu"]), *("" if one is None else f"{number(one)} x" for one in (ratio, by_cpu))]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _work(work: dict[str, Any] | None) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in (work or {}).items()) or "as titled"


def _versions(measurements: Sequence[dict[str, Any]]) -> list[str]:
    seen: dict[str, str] = {}
    for one in measurements:
        for label, side in one["sides"].items():
            if not label.endswith("(again)"):
                seen.setdefault(label, ", ".join(f"{name} {value}" for name, value in side["versions"].items()))
    return ["## Versions", "", *(f"- {label}: {text}" for label, text in seen.items())] if seen else []


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"
