"""Interface between the launcher and the place where roles run: processes, threads, or Ray actors.

For each role, the launcher has one end of a pipe (with the messages of ``ding.parallel.launch.child``), an object that
``multiprocessing.connection.wait`` reports at the end, and a way to kill it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from typing import Any, Protocol

from ding.parallel.launch.child import ChildSpec


class Readiness(Protocol):
    """Whether processes can be started without delay."""

    @property
    def news(self) -> Connection:
        """Object that ``multiprocessing.connection.wait`` reports once ``is_ready`` returns ``True``."""

    def is_ready(self) -> bool:
        """Return whether a process can be started without delay."""


class SpawnedProcess(Protocol):
    """Running process of a role; call ``close`` after its end."""

    @property
    def pid(self) -> int | None:
        """Process id; ``None`` if not known yet."""

    @property
    def end(self) -> Connection | int:
        """Object that ``multiprocessing.connection.wait`` reports once the process has ended."""

    @property
    def unknown_end(self) -> str:
        """Description of the end if ``exitcode`` returns ``None``."""

    def has_ended(self) -> bool:
        """Return whether the process has ended."""

    def exitcode(self) -> int | None:
        """Return the exit code of an ended process; ``None`` if unknown."""

    def kill(self) -> None:
        """Kill the process."""

    def close(self) -> None:
        """Release the resources of the ended process."""


class Spawner(Protocol):
    """Starts the processes of roles.

    Attributes:
        own_processes: Whether each role has its own environment variables, and its own token in them.
    """

    own_processes: bool

    def opened(self, run_dir: str, preload: Sequence[str]) -> AbstractContextManager[Readiness]:
        """Prepare for starting processes within the block; none of them outlives it.

        Args:
            run_dir: Folder shared by the roles.
            preload: Modules that all roles need.
        """

    def start(self, spec: ChildSpec, pipe: Connection) -> SpawnedProcess:
        """Start the process of a role.

        Args:
            spec: Start arguments.
            pipe: Process's end of the pipe; the caller closes it after this call.

        Raises:
            ForkServerLost, OSError: The process cannot be created at present.
        """


class AlwaysReady:
    """``Readiness`` of a place that needs no preparation."""

    news: Any = None

    def is_ready(self) -> bool:
        return True
