"""Where results lie: ``latest/<suite>.json`` and ``.md``, and every run under ``history/``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from benchmarks import _machine
from benchmarks._peers import HERE
from benchmarks._report import markdown

RESULTS = HERE / "results"
FORMAT = 1


def make_document(
    suite: str, title: str, measurements: list[dict[str, Any]], rounds: int, command: str
) -> dict[str, Any]:
    """The document of one run of a suite."""
    return {
        "format": FORMAT,
        "suite": suite,
        "title": title,
        "finished": _machine.now(),
        "commit": _machine.commit(),
        "machine": _machine.machine(),
        "rounds": rounds,
        "command": command,
        "measurements": measurements,
    }


def save(document: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write the document as the latest of its suite and into the history; returns the Markdown file."""
    latest, history = folder / "latest", folder / "history"
    for one in (latest, history):
        one.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, sort_keys=False)
    suite = document["suite"]
    _write(history / f"{document['finished']}-{suite}.json", text)
    _write(latest / f"{suite}.json", text)
    _write(latest / f"{suite}.md", markdown(document))
    return latest / f"{suite}.md"


def load_latest(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The latest document of every suite, by name of the suite."""
    files = sorted((folder / "latest").glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
