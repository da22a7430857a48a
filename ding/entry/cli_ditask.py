"""The command ``ditask``: runs one function in several processes that exchange their results.

Exit codes are those of ``ding``, see :mod:`ding.entry.cli`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from ding import __DESCRIPTION__, __version__
from ding.config.errors import ConfigError, ConfigValueError
from ding.entry.cli_parsers import PLATFORM_PARSERS
from ding.entry.cli_parsers.scheduled import numbers_of, words_of
from ding.entry.distributed.config import run_token
from ding.framework import Parallel
from ding.framework.parallel import LOCAL_HOST, TOPOLOGIES
from ding.utils.credentials import RUN_TOKEN_VARIABLE


def _words(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str]:
    """Split a comma-separated list."""
    return [word.strip() for word in (value or "").split(",") if word.strip()]


def _numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    words = _words(ctx, param, value)
    if not all(word.isdigit() for word in words):
        raise click.BadParameter(f"{value!r} is not a list of whole numbers", ctx, param)
    return [int(word) for word in words] or None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-v", "--version", message=f"ditask %(version)s\n{__DESCRIPTION__}")
@click.option("-p", "--package", metavar="PATH", default=".", help="Folder of the code; by default this one.")
@click.option("-m", "--main", metavar="MODULE.FUNC", help="The function. By default main of the package's module.")
@click.option("--parallel-workers", type=click.IntRange(1), default=1, show_default=True, help="Number of processes.")
@click.option("--protocol", type=click.Choice(["tcp", "ipc"]), help="Default: tcp if other machines are named, or ipc.")
@click.option(
    "--ports", callback=_numbers, metavar="N,...", help="First port, or one for each process. Default: 50515."
)
@click.option("--attach-to", callback=_words, metavar="ADDR,...", help="Processes to dial: tcp://host:port.")
@click.option("--address", metavar="HOST", help="Own address for tcp. By default this machine alone can connect.")
@click.option("--labels", callback=_words, metavar="WORD,...", help="Labels of these processes.")
@click.option(
    "--node-ids", callback=_numbers, metavar="N,...", help="First number, or one for each process. Default: 0."
)
@click.option("--topology", type=click.Choice(TOPOLOGIES), default="mesh", show_default=True, help="Who dials whom.")
@click.option("--platform", type=click.Choice(list(PLATFORM_PARSERS)), help="Take addresses from this scheduler.")
@click.option("--platform-spec", metavar="JSON", help="Options of single tasks of the scheduler: JSON, or its file.")
@click.option("--mq-type", default="nng", show_default=True, help="Message queue: nng (needs nothing else) or redis.")
@click.option("--redis-host", metavar="HOST", help="Of the redis server.")
@click.option("--redis-port", type=int, metavar="PORT", help="Of the redis server.")
@click.option(
    "--token-file", metavar="FILE", help=f"The run's token, for several machines; else {RUN_TOKEN_VARIABLE} is."
)
@click.option("--log-dir", metavar="DIR", help="A file there for what each process writes, instead of the terminal.")
@click.option("--startup-interval", default=1.0, help="Kept for scripts: processes wait for each other.", hidden=True)
@click.option("--local_rank", default=0, help="Kept for scripts of torch.distributed.", hidden=True)
def cli_ditask(**options: Any) -> None:
    """Run a function in several processes that exchange their results."""
    try:
        function = _function(options.pop("package"), options.pop("main"))
        run = _runner(options)
    except (ConfigError, AssertionError, ValueError, ImportError) as error:
        raise _Mistake(str(error)) from error
    run(function)


class _Mistake(click.ClickException):
    """Error that the user can correct; shown as one sentence."""

    exit_code = 2


def _runner(options: dict[str, Any]) -> Callable[..., None]:
    """Return a function that runs another one in the processes requested by the options."""
    for unused in ("local_rank", "startup_interval"):
        del options[unused]
    token_file, spec = options.pop("token_file"), _platform_spec(options.pop("platform_spec"))
    if platform := options.pop("platform"):
        options = _listed(PLATFORM_PARSERS[platform](spec, **options))
    outside = options["attach_to"] or options["address"] not in (None, LOCAL_HOST, "localhost")
    if options["protocol"] is None:
        options["protocol"] = "tcp" if outside or options["ports"] else "ipc"
    if outside or token_file:
        os.environ[RUN_TOKEN_VARIABLE] = run_token(token_file)
    return Parallel.runner(options.pop("parallel_workers"), **options)


def _listed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options found by a scheduler's parser, with comma-separated strings converted to lists."""
    listed = {name: words_of(options[name] or ()) for name in ("attach_to", "labels")}
    return {**options, **listed, **{name: numbers_of(options[name]) for name in ("ports", "node_ids")}}


def _platform_spec(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        spec: Mapping[str, Any] = json.loads(Path(text).read_text(encoding="utf-8") if text.endswith(".json") else text)
    except (OSError, ValueError) as error:
        raise ConfigValueError(f"--platform-spec: {error}") from error
    return spec


def _function(package: str, main: str | None) -> Callable[..., Any]:
    """Import the function that every process runs.

    Raises:
        ConfigValueError: The module has no such function.
    """
    folder = os.path.abspath(package)
    module_name, _, name = main.rpartition(".") if main else (os.path.basename(folder), "", "main")
    if not module_name:
        raise ConfigValueError(f"--main is module.function, got {main!r}")
    paths = [folder] if main else [os.path.dirname(folder)]
    sys.path[:0] = [path for path in paths if path not in sys.path]
    function: Callable[..., Any] | None = getattr(importlib.import_module(module_name), name, None)
    if not callable(function):
        raise ConfigValueError(f"the module {module_name} has no function {name!r}")
    return function


if __name__ == "__main__":
    cli_ditask()
