"""Base class of the scheduler parsers: each task of the scheduler is one call of ``ditask``."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ding.config.errors import ConfigValueError
from ding.framework import Parallel

_NODE = re.compile(r"\$node\.(\d+)")


class ScheduledTask:
    """One of the tasks started by a scheduler, each with the same number of processes.

    Args:
        hosts: Host of each task.
        ports: First port of each task.
        number: Index of this task.
        spec: ``{"tasks": [{...}]}``: options of single tasks that override those found here. In ``attach_to``,
            ``$node.<id>`` stands for the address and first port of the task with that ``node_ids``.
        options: Options of ``ditask``.

    Raises:
        ConfigValueError: The number is out of range, or the specification has another number of tasks.
    """

    def __init__(
        self,
        hosts: list[str],
        ports: list[int],
        number: int,
        spec: "Mapping[str, Any] | None",
        options: Mapping[str, Any],
    ) -> None:
        if not 0 <= number < len(hosts):
            raise ConfigValueError(f"task {number} of a run of {len(hosts)} tasks")
        tasks: Sequence[Mapping[str, Any]] = (spec or {}).get("tasks") or [{}] * len(hosts)
        if len(tasks) != len(hosts):
            raise ConfigValueError(f"the platform specification has {len(tasks)} tasks, but {len(hosts)} were started")
        self._number, self._own = number, tasks[number]
        self._num_workers = int(options.get("parallel_workers") or 1)
        self._options = {"topology": "mesh", **options, "parallel_workers": self._num_workers}
        found = zip(hosts, ports, range(0, len(hosts) * self._num_workers, self._num_workers), tasks)
        #: Address, first port and first node id of each task.
        self._tasks = [{"address": host, "ports": port, "node_ids": node, **task} for host, port, node, task in found]

    def parse(self) -> dict[str, Any]:
        """Return the options with those of the scheduler: ``address``, ``ports`` and ``node_ids`` as given or the first
        ones, ``attach_to`` as comma-separated addresses.
        """
        dialled = self._own.get("attach_to")
        parts = self._linked() if dialled is None else words_of(dialled)
        links = ",".join(_NODE.sub(self._of_node, one) for one in parts)
        return {**self._options, "protocol": "tcp", **self._tasks[self._number], "attach_to": links}

    def addresses(self, number: int) -> list[str]:
        """Return the addresses of the processes of a task."""
        task = self._tasks[number]
        return Parallel.get_node_addrs(self._num_workers, "tcp", task["address"], numbers_of(task["ports"]))

    def _linked(self) -> list[str]:
        topology = self._options["topology"] or "mesh"
        if topology == "mesh":
            return [one for number in range(self._number) for one in self.addresses(number)]
        return self.addresses(0) if topology == "star" and self._number > 0 else []

    def _of_node(self, match: "re.Match[str]") -> str:
        wanted = int(match[1])
        ids = [numbers_of(task["node_ids"])[0] for task in self._tasks]
        if wanted not in ids:
            raise ConfigValueError(f"attach_to: no task has the node id of {match[0]}; they have {ids}")
        if ids.index(wanted) == self._number:
            raise ConfigValueError(f"attach_to: {match[0]} is the task itself")
        return self.addresses(ids.index(wanted))[0]


def words_of(value: "str | Sequence[str]") -> list[str]:
    """Split a comma-separated string, or return the elements of a list."""
    return [part.strip() for part in (value.split(",") if isinstance(value, str) else value) if part.strip()]


def numbers_of(value: "int | str | Sequence[int | str]") -> list[int]:
    """Return integers from a single one, a comma-separated string, or a list."""
    if isinstance(value, str):
        return [int(word) for word in words_of(value)]
    return [int(one) for one in value] if isinstance(value, Sequence) else [int(value)]


def variable(name: str) -> str:
    """Return an environment variable.

    Raises:
        ConfigValueError: The variable is not set.
    """
    value = os.environ.get(name)
    if not value:
        raise ConfigValueError(f"the environment variable {name} is not set: was this started by the scheduler?")
    return value


def whole_number(name: str) -> int:
    """Return an environment variable as an integer.

    Raises:
        ConfigValueError: The variable is not set, or is not an integer.
    """
    value = variable(name)
    if not value.isdigit():
        raise ConfigValueError(f"the environment variable {name} must be a whole number, got {value!r}")
    return int(value)
