"""``ditask`` on Slurm: one call per task of ``srun``."""

import re
from collections.abc import Mapping
from typing import Any

from ding.config.errors import ConfigValueError
from ding.entry.cli_parsers.scheduled import ScheduledTask, numbers_of, variable, whole_number

FIRST_PORT = 15151
_NAMES = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")


class SlurmParser(ScheduledTask):
    """Options of this Slurm task.

    Reads ``SLURM_NTASKS``, ``SLURM_NTASKS_PER_NODE``, ``SLURM_NODELIST``, ``SLURM_PROCID`` and ``SLURMD_NODENAME``.

    Raises:
        ConfigValueError: A variable is missing, or they do not match.
    """

    def __init__(self, platform_spec: "Mapping[str, Any] | None" = None, **kwargs: Any) -> None:
        number, per_node = whole_number("SLURM_PROCID"), whole_number("SLURM_NTASKS_PER_NODE")
        num, nodes = whole_number("SLURM_NTASKS"), expand_hosts(variable("SLURM_NODELIST"))
        if num > per_node * len(nodes):
            raise ConfigValueError(f"{num} tasks do not fit on {len(nodes)} nodes with {per_node} tasks each")
        hosts = [nodes[task // per_node] for task in range(num)]
        own = variable("SLURMD_NODENAME")
        if number < num and own != hosts[number]:
            raise ConfigValueError(f"task {number} should run on {hosts[number]}, but SLURMD_NODENAME is {own}")
        first = numbers_of(kwargs.get("ports") or FIRST_PORT)[0]
        num_workers = int(kwargs.get("parallel_workers") or 1)
        ports = [first + task % per_node * num_workers for task in range(num)]
        super().__init__(hosts, ports, number, platform_spec, kwargs)


def slurm_parser(platform_spec: "Mapping[str, Any] | None", **kwargs: Any) -> dict[str, Any]:
    """Return the options of ``ditask`` for this Slurm task, see :class:`SlurmParser`."""
    return SlurmParser(platform_spec, **kwargs).parse()


def expand_hosts(text: str) -> list[str]:
    """Return the host names of a list such as ``a-[1,3-5],b``; leading zeros are kept."""
    found: list[str] = []
    for name in _NAMES.findall(text):
        head, bracket, rest = name.partition("[")
        if not bracket:
            found.append(name)
            continue
        numbers, _, tail = rest.partition("]")
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            span = range(int(first), int(last or first) + 1)
            found += [f"{head}{number:0{len(first)}d}{tail}" for number in span]
    return found
