"""Schedulers by name."""

from collections.abc import Callable
from typing import Any

from ding.entry.cli_parsers.k8s_parser import k8s_parser
from ding.entry.cli_parsers.slurm_parser import slurm_parser

PLATFORM_PARSERS: dict[str, Callable[..., dict[str, Any]]] = {"slurm": slurm_parser, "k8s": k8s_parser}
