"""What the parsers of all schedulers share: a task of the scheduler is one call of ``ditask``."""

import os
import re
from collections.abc import Mapping
from typing import Any

from ding.config.errors import ConfigValueError
from ding.framework import Parallel

_NODE = re.compile(r"\$node\.(\d+)")


class ScheduledTask:
    """One of the tasks that a scheduler has started, each with the same number of processes.

    Args:
        hosts: host of each task.
        ports: first port of each task.
        number: which task this is.
        spec: ``{"tasks": [{...}]}``: options of single tasks, in place of those found here. Of ``attach_to``,
            ``$node.<id>`` means the address of that node.
        options: options of ``ditask``.

    Raises:
        ConfigValueError: the number is not one of the tasks.
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
        self._hosts, self._ports, self._number = hosts, ports, number
        self._own: Mapping[str, Any] = ((spec or {}).get("tasks") or [{}] * len(hosts))[number]
        self._options = dict(options)
        self._num_workers = int(self._options.get("parallel_workers") or 1)

    def parse(self) -> dict[str, Any]:
        """Return the options with those of the scheduler in them."""
        found = {
            "protocol": "tcp",
            "address": self._hosts[self._number],
            "ports": [self._ports[self._number]],
            "node_ids": [self._number * self._num_workers],
            "attach_to": self._dialled(),
            **self._own,
        }
        if isinstance(found["attach_to"], str):
            found["attach_to"] = found["attach_to"].split(",")
        found["attach_to"] = [_NODE.sub(self._of_node, one) for one in found["attach_to"]]
        return {**self._options, **found}

    def addresses(self, number: int) -> list[str]:
        """Return the addresses of the processes of a task."""
        return Parallel.get_node_addrs(self._num_workers, "tcp", self._hosts[number], [self._ports[number]])

    def _dialled(self) -> list[str]:
        topology = self._options.get("topology") or "mesh"
        if topology == "mesh":
            return [one for number in range(self._number) for one in self.addresses(number)]
        return self.addresses(0)[:1] if topology == "star" and self._number > 0 else []

    def _of_node(self, match: "re.Match[str]") -> str:
        number, worker = divmod(int(match[1]), self._num_workers)
        if number >= len(self._hosts):
            raise ConfigValueError(f"{match[0]}: there are {len(self._hosts) * self._num_workers} nodes")
        return self.addresses(number)[worker]


def variable(name: str) -> str:
    """Return an environment variable.

    Raises:
        ConfigValueError: it is not set.
    """
    value = os.environ.get(name)
    if not value:
        raise ConfigValueError(f"the environment variable {name} is not set: was this started by the scheduler?")
    return value


def whole_number(name: str) -> int:
    """Return an environment variable that is a whole number.

    Raises:
        ConfigValueError: it is not set, or something else.
    """
    value = variable(name)
    if not value.isdigit():
        raise ConfigValueError(f"the environment variable {name} must be a whole number, got {value!r}")
    return int(value)
