"""Config functions and option callbacks that DI-engine scripts import from its modules."""

from __future__ import annotations

import inspect
import os
import subprocess
from collections.abc import Mapping
from typing import Any

import click
from easydict import EasyDict

from ding import __DESCRIPTION__, __version__
from ding.config.errors import ConfigValueError
from ding.config.resolve import class_of, defaults_of
from ding.utils import deep_merge_dicts, registries
from ding.utils.file_helper import atomic_write

_GIT = ("git", "--no-pager")


def compile_collector_config(
    policy_cfg: Mapping[str, Any], user_cfg: Mapping[str, Any], collector_cls: type | None
) -> EasyDict:
    """Return the config of a collector: its defaults, updated by ``policy_cfg.collect.collector`` and ``user_cfg``.

    Args:
        policy_cfg: Config of the policy.
        user_cfg: Config with ``policy.collect.collector``.
        collector_cls: Collector class; by default that of the ``type`` in the policy's section.

    Raises:
        ConfigValueError: Neither a class nor a type is given (an ``AssertionError``).
    """
    section = dict(policy_cfg.get("collect", {}).get("collector", {}))
    if collector_cls is None:
        if "type" not in section:
            raise ConfigValueError("policy.collect.collector.type must be given, or the class of the collector")
        collector_cls = class_of("serial_collector", section, "policy.collect.collector")
    own = dict(user_cfg.get("policy", {}).get("collect", {}).get("collector", {}))
    defaults = defaults_of(collector_cls, "policy.collect.collector")
    return EasyDict(deep_merge_dicts(deep_merge_dicts(defaults, section), own))


def save_project_state(exp_name: str) -> None:
    """Write the state of the git repository of the working folder to ``exp_name``.

    ``git_log.txt`` contains the last five commits, ``git_diff.txt`` uncommitted changes. Without a repository nothing
    is written.
    """
    if _git("rev-parse", "--is-inside-work-tree").strip() != "true":
        return
    os.makedirs(exp_name, exist_ok=True)
    described = _git("describe", "--always", "--tags")
    texts = {"git_log.txt": described + _git("log", "--stat", "-n", "5"), "git_diff.txt": _git("diff", "HEAD")}
    for name, text in texts.items():
        with atomic_write(os.path.join(exp_name, name)) as file:
            file.write(text.encode())


def _git(*words: str) -> str:
    """Return the output of a git command; empty if it fails or git is missing."""
    try:
        done = subprocess.run([*_GIT, *words], capture_output=True, check=False)
    except OSError:
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the version and exit if the option is given."""
    if not value or ctx.resilient_parsing:
        return
    click.echo(f"ding {__version__}\n{__DESCRIPTION__}")
    ctx.exit()


def print_registry(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Print the names of a registry, each with file and line, and exit if the option is given."""
    if not value or ctx.resilient_parsing:
        return
    if value not in registries:
        click.echo(f"[ERROR] there is no registry {value!r}; the registries are {', '.join(sorted(registries))}")
        ctx.exit()
    table = registries[value]
    click.echo(" | ".join(table))
    for name in table:
        found = table[name]
        click.echo(f"{name}: {inspect.getsourcefile(found)}:{inspect.getsourcelines(found)[1]}")
    ctx.exit()
