"""Pages of the reference that are made from the code when the site is built: a hook of mkdocs.

* ``reference/config/``: every key of every registered component, with type, default and meaning.
* ``reference/api/``: the public names of each package, from their docstrings.
* ``reference/cli.md``: the commands and options of `ding`.
* ``tutorial.ipynb``: the tutorial as a notebook.
"""

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ding.config.documented import ConfigKey, documented_keys
from ding.entry.cli import cli
from ding.envs.zoo import MODULES
from ding.utils import registries

PACKAGES = [
    *("ding.entry", "ding.bonus", "ding.worker", "ding.framework", "ding.framework.middleware", "ding.policy"),
    *("ding.model", "ding.envs", "ding.data", "ding.rl_utils", "ding.reward_model", "ding.league", "ding.config"),
    *("ding.interaction", "ding.torch_utils", "ding.utils"),
]
TITLES = {
    "policy": "Policies",
    "env": "Envs",
    "env_manager": "Env managers",
    "buffer": "Replay buffers",
    "serial_collector": "Serial collectors",
    "serial_evaluator": "Serial evaluators",
    "learner": "Learners",
    "parallel_collector": "Parallel collectors",
    "comm_collector": "Collector processes",
    "comm_learner": "Learner processes",
    "commander": "Commanders",
    "league": "Leagues",
    "reward_model": "Reward models",
}
CONFIG_PAGE = """# Config reference

A config has two parts: `main_config` with the values, `create_config` with the types. A key that is left out has its
default; an unknown key is reported with the nearest known one. The keys of a policy stand under `policy`, those of a
buffer under `policy.other.replay_buffer`, of a collector under `policy.collect.collector`, of an evaluator under
`policy.eval.evaluator`, of a learner under `policy.learn.learner`, of an env and its manager under `env` and
`env.manager`.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages (called by mkdocs)."""
    pages = {**_config_pages(), **_api_pages(), "reference/cli.md": _cli_page()}
    tutorial = Path(config.docs_dir, "tutorial.md").read_text(encoding="utf-8")
    pages["tutorial.ipynb"] = _notebook(tutorial)
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def _config_pages() -> dict[str, str]:
    for package in ("envs", "policy", "worker", "reward_model", "league"):
        importlib.import_module(f"ding.{package}")
    for module in MODULES.values():
        importlib.import_module(f"ding.envs.zoo.{module}")
    index = [CONFIG_PAGE]
    pages = {}
    for registry, title in TITLES.items():
        index += [f"## {title}", ""]
        for cls, names in _components(registry):
            path = f"{registry}/{names[0]}.md"
            pages[f"reference/config/{path}"] = _component_page(cls, names)
            index.append(f"* [{', '.join(names)}]({path}): {_first_line(cls)}")
        index.append("")
    return {"reference/config/index.md": "\n".join(index), **pages}


def _components(registry: str) -> Iterator[tuple[type, list[str]]]:
    """Classes of a registry that have defaults, with the names under which they are registered."""
    found: dict[type, list[str]] = {}
    for name in registries[registry].keys():  # noqa: SIM118  (a registry is no dict)
        cls = registries[registry].get(name)
        if hasattr(cls, "default_config") and not name.endswith("_command"):
            found.setdefault(cls, []).append(name)
    return iter(sorted(found.items(), key=lambda item: item[1]))


def _component_page(cls: type, names: list[str]) -> str:
    lines = [f"# {names[0]}", "", _first_line(cls), "", f"`{cls.__module__}.{cls.__name__}`", ""]
    if len(names) > 1:
        lines += [f"Also registered as {', '.join(f'`{name}`' for name in names[1:])}.", ""]
    lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(_row, documented_keys(cls)), ""])


def _row(key: ConfigKey) -> str:
    # A meaning begins with the type in brackets, where the type of the default would not say it.
    typed = re.match(r"\(([^)]*)\) (.*)", key.meaning)
    kind, meaning = typed.groups() if typed else (type(key.default).__name__, key.meaning)
    cells = (f"`{key.path}`", kind, f"`{key.default!r}`", _plain(meaning))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _first_line(cls: type) -> str:
    return _plain((inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " "))


def _plain(text: str) -> str:
    """Docstrings mark code with two backticks and roles; pages with one."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")


def _api_pages() -> dict[str, str]:
    index = [
        "# API reference",
        "",
        "The public names of each package; a name may be imported from the package that lists it.",
        "",
    ]
    pages = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        index.append(f"* [`{package}`]({package}.md): {_first_line_of(module)}")
        lines = [f"# {package}", "", _first_line_of(module), ""]
        for name in sorted(getattr(module, "__all__", ())):
            value = getattr(module, name)
            home = getattr(value, "__module__", None)
            if isinstance(home, str) and home.startswith("ding.") and getattr(value, "__name__", None) == name:
                lines += [f"::: {home}.{name}", ""]
        pages[f"reference/api/{package}.md"] = "\n".join(lines)
    return {"reference/api/index.md": "\n".join(index), **pages}


def _first_line_of(module: Any) -> str:
    return _plain((module.__doc__ or "").strip().split("\n")[0])


def _cli_page() -> str:
    lines = ["# Command line", "", "```text", _help(cli, "ding"), "```", ""]
    context = click.Context(cli, info_name="ding")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts = [(name, command)]
        if isinstance(command, click.Group):
            parts += [(f"{name} {inner}", part) for inner, part in command.commands.items()]
        for path, part in parts:
            lines += [f"## ding {path}", "", "```text", _help(part, f"ding {path}"), "```", ""]
    return "\n".join(lines)


def _help(command: click.Command, name: str) -> str:
    return command.get_help(click.Context(command, info_name=name, max_content_width=100))


def _notebook(page: str) -> str:
    """The page with its code as cells of a notebook; commands of the shell begin with ``!`` there."""
    text, *fenced = re.split(r"^```(\w+)\n(.*?)^```\n", page, flags=re.M | re.S)
    cells = [_text_cell(text)]
    for language, code, behind in zip(fenced[::3], fenced[1::3], fenced[2::3]):
        source = code if language == "python" else re.sub(r"^(?=\S)", "!", code, flags=re.M)
        cells.append({"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": source})
        cells.append(_text_cell(behind))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}, indent=1)


def _text_cell(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip()}
