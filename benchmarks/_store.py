"""Where results lie: ``latest/<suite>.json`` and ``.md``, and every run under ``history/``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import _machine
from benchmarks._peers import HERE
from benchmarks._plan import MODES
from benchmarks._report import markdown

RESULTS = HERE / "results"
FORMAT = 1
# What is known of how a measurement was made.
MADE = ("finished", "commit", "machine", "rounds", "command")


def make_document(
    suite: str, title: str, measurements: list[dict[str, Any]], rounds: int, command: str
) -> dict[str, Any]:
    """The document of one run of a suite. Each measurement carries where and how it was made, see `merged`."""
    made = {
        "finished": _machine.now(),
        "commit": _machine.commit(),
        "machine": _machine.machine(),
        "rounds": rounds,
        "command": command,
    }
    measured = [{**one, "made": made} for one in measurements]
    return {"format": FORMAT, "suite": suite, "title": title, **made, "measurements": measured}


def merged(document: dict[str, Any], before: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The document of a run of a part of a suite, with the results of ``before`` that it did not measure again.

    ``names`` are the measurements that the suite has, in their order: what is none of them any more is left out.
    """
    found = {(one["name"], one["mode"]): one for one in before["measurements"]}
    for one in found.values():
        one.setdefault("made", {key: before[key] for key in MADE})
    found.update({(one["name"], one["mode"]): one for one in document["measurements"]})
    order = {name: place for place, name in enumerate(names)}
    kept = [one for (name, _), one in found.items() if name in order]
    kept.sort(key=lambda one: (order[one["name"]], MODES.index(one["mode"])))
    return {**document, "measurements": kept}


def made_of(measurement: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """When, where and how a measurement was made."""
    return measurement.get("made") or {key: document[key] for key in MADE}


def save(document: dict[str, Any], folder: Path = RESULTS, names: Sequence[str] | None = None) -> Path:
    """Write the document as the latest of its suite and into the history; returns the Markdown file.

    With ``names`` (the measurements of the suite) it is that of a part, and joins what is there already.
    """
    latest, history = folder / "latest", folder / "history"
    for one in (latest, history):
        one.mkdir(parents=True, exist_ok=True)
    suite = document["suite"]
    _write(history / f"{document['finished']}-{suite}.json", _as_json(document))
    file = latest / f"{suite}.json"
    if names is not None and file.is_file():
        document = merged(document, json.loads(file.read_text(encoding="utf-8")), names)
    _write(file, _as_json(document))
    _write(latest / f"{suite}.md", markdown(document))
    return latest / f"{suite}.md"


def _as_json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=False)


def load_latest(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The latest document of every suite, by name of the suite."""
    files = sorted((folder / "latest").glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
