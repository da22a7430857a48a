"""Experiment folders and their files, found and read without executing any of their code."""

import ast
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ding.config import ConfigValueError
from ding.utils.literals import assignments, literal_value
from ding.utils.names import nearest

CONFIG_FILE = "total_config.py"
STATUS_FILE = "status.json"

# Differences between the runs of one experiment: the seed, and the time stamp of a renewed folder.
_RUN_SUFFIX = re.compile(r"([/_.-]?seed[_-]?\d+)?(_\d{6}_\d{6}(_\d+)?)?$")
_SHORT_SEED = re.compile(r"[/_.-]s(\d+)$")
_SEED = re.compile(r"seed[_-]?(\d+)")
_EVENT_FILE = "events.out.tfevents."
# Subfolders without curves of the run; ``eval`` contains separate evaluations.
_NO_CURVES = frozenset({"ckpt", "eval", "run", "replay_videos"})


def find_runs(folders: Iterable[str | Path]) -> list[Path]:
    """Return every experiment folder in or below ``folders``, each once.

    An experiment folder contains a ``log`` folder, the config saved by a pipeline, or event files. All folders below
    one belong to it.

    Raises:
        ConfigValueError: A folder does not exist, or contains no experiment.
    """
    runs: dict[Path, None] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            reason = "is a file and no folder" if folder.exists() else f"there is no such folder{nearest_path(folder)}"
            raise ConfigValueError(f"{folder}: {reason}")
        found = list(_runs_below(folder))
        if not found:
            raise ConfigValueError(
                f"{folder}: no experiment is in this folder (none with log/, {CONFIG_FILE} or event files)"
            )
        runs.update(dict.fromkeys(found))
    return list(runs)


def _runs_below(folder: Path) -> Iterator[Path]:
    for path, names, files in os.walk(folder):
        if "log" in names or CONFIG_FILE in files or any(name.startswith(_EVENT_FILE) for name in files):
            names.clear()
            yield Path(path)
        names[:] = sorted(name for name in names if not name.startswith("."))


def event_files(run: Path) -> list[Path]:
    """Return the event files of a run, those of one writer in the order of their creation."""
    found = []
    for path, names, files in os.walk(run):
        names[:] = sorted(name for name in names if name not in _NO_CURVES)
        found += [Path(path, name) for name in sorted(files) if name.startswith(_EVENT_FILE)]
    return found


def read_object(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file of a run, such as ``status.json``.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file contains no JSON object.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, got {type(content).__name__}")
    return content


def label_of(run: Path, seed: int | None = None) -> str:
    """Return the name of the experiment of ``run``, which runs that differ only in their seed share.

    Args:
        seed: Seed of its config. A name that ends with ``_s`` and this number also marks one seed.
    """
    label = _RUN_SUFFIX.sub("", run.as_posix()) or run.as_posix()
    short = _SHORT_SEED.search(label)
    return label[: short.start()] or label if short and seed is not None and int(short[1]) == seed else label


def seed_of(run: Path, config: Mapping[str, Any]) -> int | None:
    """Return the seed of a run: that of its config, else the one in its name."""
    if isinstance(config.get("seed"), int):
        return int(config["seed"])
    found = _SEED.search(run.name)
    return int(found[1]) if found else None


def saved_config(run: Path) -> dict[str, Any]:
    """Return the config saved by a run, with source text for non-literals; empty if it cannot be read."""
    try:
        return main_config_of(read_literals(run / CONFIG_FILE))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return {}


def main_config_of(literals: Mapping[str, Any]) -> dict[str, Any]:
    """Return the main config among the variables of a saved config; empty without one."""
    found = (literals[name] for name in ("exp_config", "main_config") if isinstance(literals.get(name), dict))
    return dict(next(found, {}))


def read_literals(path: Path) -> dict[str, Any]:
    """Return the variables of a saved config without executing the file; non-literals become their source text.

    Raises:
        OSError: The file cannot be read.
        SyntaxError: The file is not Python.
    """
    return {
        name: literal_value(node, lambda part, _where: ast.unparse(part)) for name, node in assignments(path).items()
    }


def nearest_path(path: Path) -> str:
    """Return the end of a message about a missing folder: the one that the user may have meant."""
    parent = path.parent
    while not parent.is_dir():
        path, parent = parent, parent.parent
    try:
        close = nearest(path.name, (entry.name for entry in parent.iterdir() if entry.is_dir()))
    except OSError:
        return ""
    return "" if close is None else f". Did you mean {(parent / close).as_posix()!r}?"
