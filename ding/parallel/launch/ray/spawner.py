"""Launcher's side of roles in actors."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing.spawn
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ding.parallel.launch.child import ChildSpec
from ding.parallel.launch.ray.actor import BEGUN, EXIT, RoleActor
from ding.parallel.launch.role import Message
from ding.parallel.launch.spawner import AlwaysReady
from ding.parallel.ray_cluster import require_ray

logger = logging.getLogger("ding.entry")

_BODY, _MAIL = "body", "mail"
_NAME_PATIENCE_S = 30.0
_PAUSE_S = 0.05


class RaySpawner:
    """``Spawner`` of actors. This process must be connected to the cluster.

    Args:
        namespace: Namespace of the run, in which actors are named after their roles.
        options: Returns the options of a role's actor by role name: ``num_cpus``, ``scheduling_strategy``, ...
    """

    own_processes = True

    def __init__(self, namespace: str, options: Callable[[str], Mapping[str, Any]]) -> None:
        self._ray: Any = require_ray()
        self._namespace = namespace
        self._options = options
        self._actors: dict[str, Any] = {}
        self._home: dict[str, Any] = {}

    @contextlib.contextmanager
    def opened(self, run_dir: str, preload: Sequence[str]) -> Iterator[AlwaysReady]:
        """See ``Spawner.opened``."""
        self._home = multiprocessing.spawn.get_preparation_data("role")
        # Processes of a cluster share no key; none is needed here.
        self._home.pop("authkey", None)
        try:
            yield AlwaysReady()
        finally:
            for name in list(self._actors):
                self.discard(name)

    def start(self, spec: ChildSpec, pipe: Connection) -> ActorProcess:
        """See ``Spawner.start``."""
        return ActorProcess(self, spec, Connection(os.dup(pipe.fileno())))

    def actor(self, name: str) -> Any:
        """Return the actor of a role, which may be starting or restarting."""
        if name not in self._actors:
            own = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0, **self._options(name)}
            kind = self._ray.remote(concurrency_groups={_BODY: 1, _MAIL: 1})(RoleActor)
            actor = kind.options(name=name, namespace=self._namespace, **own)
            self._actors[name] = self._created(lambda: actor.remote(self._home))
        return self._actors[name]

    def discard(self, name: str) -> None:
        """End the process of a role; its next process belongs to a new actor."""
        actor = self._actors.pop(name, None)
        if actor is not None:
            self._ray.kill(actor)

    def _created(self, create: Callable[[], Any]) -> object:
        deadline_s = time.monotonic() + _NAME_PATIENCE_S
        while True:
            try:
                return create()
            except ValueError:
                # The previous actor of this name is about to end.
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_PAUSE_S)


class ActorProcess:
    """Role in a running process of an actor.

    Attributes:
        pid: Process id on its node; ``None`` until it runs.
        end: Object that ``multiprocessing.connection.wait`` reports at the end.
        unknown_end: Description of an end that the process did not report.
    """

    def __init__(self, spawner: RaySpawner, spec: ChildSpec, pipe: Connection) -> None:
        self._ray: Any = require_ray()
        self._spawner, self._name = spawner, spec.role.name
        self.end, self._ended = Pipe(duplex=False)
        self.pid: int | None = None
        self.unknown_end = "ended"
        self._code: int | None = None
        self._pipe = pipe
        self._killed = False
        data = cloudpickle.dumps(spec)
        threading.Thread(target=self._listen, args=(data,), name=f"{self._name}-up", daemon=True).start()

    def has_ended(self) -> bool:
        """See ``SpawnedProcess.has_ended``."""
        return bool(wait([self.end], 0))

    def exitcode(self) -> int | None:
        """See ``SpawnedProcess.exitcode``; ``None`` for a process that died, because Ray does not report how."""
        return self._code

    def kill(self) -> None:
        """See ``SpawnedProcess.kill``."""
        self._killed = True
        self._spawner.discard(self._name)

    def close(self) -> None:
        """See ``SpawnedProcess.close``."""
        self.end.close()

    def _listen(self, data: bytes) -> None:
        try:
            for message in self._messages(data):
                if message[0] == BEGUN:
                    self.pid = message[1]
                elif message[0] == EXIT:
                    self._code = message[1]
                else:
                    self._pipe.send(message)
        except OSError:
            # The launcher has stopped reading.
            self.unknown_end = "was left"
        except Exception as error:  # noqa: BLE001 - includes errors of Ray about the actor's options
            if self._killed:
                self.unknown_end = "was killed"
            elif isinstance(error, self._ray.exceptions.RayActorError) and not _never_began(error):
                self.unknown_end = f"died: {_first_line(error)}"
            else:
                # No process died: the role could not start, and wrong options stay wrong.
                self._code = 1
                permanent = not isinstance(error, self._ray.exceptions.RayError)
                with contextlib.suppress(OSError):
                    self._pipe.send(("error", "".join(traceback.format_exception(error)), permanent, None))
        if self._code is not None:
            # It ended by itself: threads may remain in that process.
            self._spawner.discard(self._name)
        self._ended.close()

    def _messages(self, data: bytes) -> Iterator[Message]:
        """Yield the messages of the role; raise Ray's error at the end of a dead process."""
        while True:
            actor = self._spawner.actor(self._name)
            if self._killed:
                self._spawner.discard(self._name)
            stream = actor.run.options(num_returns="streaming", concurrency_group=_BODY).remote(data)
            try:
                first = self._ray.get(next(stream))
                break
            except self._ray.exceptions.ActorUnavailableError:
                # The previous process has just ended, and Ray does not know it yet.
                if self._killed:
                    raise
                time.sleep(_PAUSE_S)
            except self._ray.exceptions.ActorDiedError as error:
                if self._killed or _never_began(error):
                    raise
                self._spawner.discard(self._name)
        yield first
        threading.Thread(target=self._deliver, args=(actor,), name=f"{self._name}-down", daemon=True).start()
        for reference in stream:
            yield self._ray.get(reference)

    def _deliver(self, actor: Any) -> None:
        """Forward the messages of the launcher until it closes its end."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                actor.deliver.options(concurrency_group=_MAIL).remote(self._pipe.recv())
        self._pipe.close()


def _never_began(error: Any) -> bool:
    """Return whether an actor failed in its constructor."""
    return bool(error.actor_init_failed)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]
