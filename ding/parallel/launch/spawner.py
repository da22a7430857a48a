"""What a launcher needs of the place where its roles run: processes here, threads of this process, actors of Ray.

However a process is made, the launcher has one end of a pipe to it (the messages are those of
``ding.parallel.launch.child``), something that ``multiprocessing.connection.wait`` reports at its end, and a way to
kill it.
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
        """What ``multiprocessing.connection.wait`` reports once ``is_ready`` returns ``True``."""

    def is_ready(self) -> bool:
        """Whether the start of a process takes no time now."""


class SpawnedProcess(Protocol):
    """The process of a role, from its start on; it is closed after its end."""

    @property
    def pid(self) -> int | None:
        """Its id; ``None`` while it has none."""

    @property
    def end(self) -> Connection | int:
        """What ``multiprocessing.connection.wait`` reports as soon as the process has ended."""

    @property
    def unknown_end(self) -> str:
        """How it ended, where ``exitcode`` returns ``None``."""

    def has_ended(self) -> bool:
        """Whether it has ended."""

    def exitcode(self) -> int | None:
        """The exit code of a process that has ended; ``None`` when nobody knows it."""

    def kill(self) -> None:
        """End it now."""

    def close(self) -> None:
        """Free what it held; it has ended."""


class Spawner(Protocol):
    """Starts the processes of roles.

    Attributes:
        own_processes: whether each role has an environment of its own, and in it a token of its own.
    """

    own_processes: bool

    def opened(self, run_dir: str, preload: Sequence[str]) -> AbstractContextManager[Readiness]:
        """Be ready to start processes while the block lasts; when it is over, none of them is left.

        Args:
            run_dir: folder that the roles share.
            preload: modules that all roles need.
        """

    def start(self, spec: ChildSpec, pipe: Connection) -> SpawnedProcess:
        """Start the process of a role.

        Args:
            spec: what it is started with.
            pipe: its end of the pipe; the caller closes it after this call.

        Raises:
            ForkServerLost, OSError: no process can be made now.
        """


class AlwaysReady:
    """The ``Readiness`` of a place that needs no preparation."""

    news: Any = None

    def is_ready(self) -> bool:
        return True
