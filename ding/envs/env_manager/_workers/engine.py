"""Interface to all worker processes: orders are sent, and events are returned.

The engine is independent of episodes, seeds and retries; it turns everything that can happen to a worker into an
:class:`Event`. It runs entirely in the calling thread.

Every order yields exactly one event: done, failed, timed out, or lost with its process. This includes orders to a
process that has died, at the next :meth:`WorkerEngine.poll`. The exception is :meth:`WorkerEngine.restart`.
"""

import logging
import math
import multiprocessing
import os
import select
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ding.envs.env_manager._workers.process import WorkerProcess, close_all, kill_all
from ding.envs.env_manager._workers.protocol import COMPLETION, FIRST_STEP, Command, Failure, Flag, Message
from ding.envs.env_manager._workers.shared_columns import SharedColumns
from ding.utils.compression_helper import CloudPickleWrapper

logger = logging.getLogger(__name__)

# All engines of this process: a forked worker closes the descriptors that it inherits from them.
_LIVE: "weakref.WeakSet[WorkerEngine]" = weakref.WeakSet()
COMMANDS = tuple(Command)
PLAIN_STEP = int(Command.STEP)
READ_BYTES = COMPLETION.size * 4096
PATIENCE_S = 60.0


class Event(NamedTuple):
    """Answer to one order.

    Attributes:
        command: The ordered command; ``IDLE`` if an env without an order was lost.
        env_id: Id of the env.
        flags: Bits of :class:`Flag`.
        payload: A :class:`Failure` with ``Flag.FAILED``, or the payload of the worker with ``Flag.PAYLOAD``.
    """

    command: Command
    env_id: int
    flags: int
    payload: Any


class Timeouts(NamedTuple):
    """Time-outs per command in seconds; ``None``: no limit.

    ``connect`` applies to building an env, to its first reset in a process if ``reset`` is ``None``, and to calls.
    """

    connect: float | None
    reset: float | None
    step: float | None

    def of(self, command: Command, is_first: bool) -> tuple[str, float | None]:
        """Return the config key and the value of a command's time-out; ``is_first``: first reset of the env."""
        if command is Command.STEP:
            return "step_timeout", self.step
        if command is Command.RESET and (self.reset is not None or not is_first):
            return "reset_timeout", self.reset
        return "connect_timeout", self.connect

    @property
    def patience_s(self) -> float:
        """Seconds after which a command without a time-out causes a warning."""
        return PATIENCE_S if self.connect is None else self.connect


class WorkerEngine:
    """Runs env functions in worker processes.

    Args:
        env_fns: One function per env.
        context: Start method: ``fork``, ``spawn`` or ``forkserver``.
        envs_per_worker: Number of envs per process.
        timeouts: See :class:`Timeouts`.
        seeds: the newest seed of each env, read when a process starts; see :func:`seed_env_process`.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Any]],
        context: str,
        envs_per_worker: int,
        timeouts: Timeouts,
        seeds: Sequence[int | None],
    ) -> None:
        self._seeds = seeds
        self._context = multiprocessing.get_context(context)
        self._timeouts = timeouts
        self._shared: dict[str, SharedColumns] = {}
        ids = range(len(env_fns))
        self._groups = [list(ids[i : i + envs_per_worker]) for i in ids[::envs_per_worker]]
        self._workers = [
            WorkerProcess(self._context, group, [CloudPickleWrapper(env_fns[i]) for i in group])
            for group in self._groups
        ]
        self._worker_of = [self._workers[i // envs_per_worker] for i in ids]
        self._step_orders = [bytes([FIRST_STEP + i % envs_per_worker]) for i in ids]
        self._by_sentinel: dict[int, WorkerProcess] = {}
        # Time when the oldest order of a worker is overdue, or causes a warning if it has no time-out.
        self._deadlines: dict[WorkerProcess, float] = {}
        self._dead: set[WorkerProcess] = set()
        self._owed: list[Event] = []
        self._completions, self._completions_in = self._context.Pipe(duplex=False)
        self._completions_fd = self._completions.fileno()
        os.set_blocking(self._completions_fd, False)
        self._poller = select.poll()
        self._poller.register(self._completions_fd, select.POLLIN)
        self._finalizer = weakref.finalize(self, kill_all, self._workers, os.getpid())
        _LIVE.add(self)

    # life cycle

    def start(self) -> None:
        """Start all workers; a ``BUILD`` event per env follows."""
        for worker in self._workers:
            self._start(worker)

    def restart(self, env_id: int) -> list[int]:
        """End the worker of an env, restart it, and return the ids of its envs; ``BUILD`` events follow.

        Pending steps and resets of the worker yield no event, because the caller knows them. Pending calls do.
        """
        worker = self._worker_of[env_id]
        failure = Failure("its process was started anew", "", "crashed")
        calls = [other for command, other in worker.pending if command is Command.CALL]
        self._owed.extend(Event(Command.CALL, other, Flag.FAILED, failure) for other in calls)
        if worker.alive:
            self._forget(worker)
            worker.kill()
            worker.bury()
        self._start(worker)
        return worker.env_ids

    def _start(self, worker: WorkerProcess) -> None:
        worker.start(self._completions_in, close_inherited, [self._seeds[env_id] for env_id in worker.env_ids])
        self._dead.discard(worker)
        self._by_sentinel[worker.sentinel] = worker
        self._poller.register(worker.sentinel, select.POLLIN)
        self._set_deadline(worker)
        for key, shared in self._shared.items():
            worker.attach(key, shared)

    def _forget(self, worker: WorkerProcess) -> None:
        self._poller.unregister(worker.sentinel)
        del self._by_sentinel[worker.sentinel]
        self._deadlines.pop(worker, None)
        self._dead.add(worker)

    def close(self, grace_s: float) -> None:
        """End all workers: ask them, wait ``grace_s`` seconds, kill the rest. Frees memory and descriptors."""
        close_all(self._workers, grace_s)
        self._finalizer.detach()
        _LIVE.discard(self)
        self._by_sentinel.clear()
        self._completions.close()
        self._completions_in.close()
        for shared in self._shared.values():
            shared.close()
        self._shared.clear()

    def close_inherited(self) -> None:
        """In a forked child: close the descriptors that belong to the parent alone."""
        self._completions.close()
        for worker in self._workers:
            worker.hang_up()

    def is_alive(self, env_id: int) -> bool:
        """Return whether the process of this env is running, as far as is known."""
        return self._worker_of[env_id].alive

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the running workers."""
        return [worker.pid for worker in self._workers if worker.alive]

    # orders

    def attach(self, key: str, shared: SharedColumns) -> None:
        """Share memory with all workers, including those started later."""
        old = self._shared.get(key)
        self._shared[key] = shared
        for worker in self._workers:
            if worker.alive:
                worker.attach(key, shared)
        if old is not None:
            old.close()

    def reset(self, env_id: int, replay_path: str | None, seed: tuple[Any, ...] | None, kwargs: dict[str, Any]) -> None:
        """Order a reset, optionally after seeding and with recording."""
        self._order(Command.RESET, env_id, Message("reset", (env_id, replay_path, seed, kwargs)))

    def call(self, env_id: int, name: str, args: tuple[Any, ...] | None) -> None:
        """Request an attribute (``args`` is ``None``) or the result of a method."""
        self._order(Command.CALL, env_id, Message("call", (env_id, name, args)))

    def step_object(self, env_id: int, action: object) -> None:
        """Order a step with an action that has no fixed array form."""
        self._order(Command.STEP, env_id, Message("step", (env_id, action)))

    def step(self, env_ids: Iterable[int]) -> None:
        """Order steps; the actions are in the shared memory ``actions``."""
        for env_id in env_ids:
            worker = self._worker_of[env_id]
            worker.pending.append((Command.STEP, env_id))
            if worker.alive:
                worker.send_bytes(self._step_orders[env_id])
            if len(worker.pending) == 1:
                self._set_deadline(worker)

    def _order(self, command: Command, env_id: int, message: Message) -> None:
        worker = self._worker_of[env_id]
        worker.pending.append((command, env_id))
        if worker.alive:
            worker.send(message)
        if len(worker.pending) == 1:
            self._set_deadline(worker)

    def _set_deadline(self, worker: WorkerProcess) -> None:
        if not worker.pending:
            self._deadlines.pop(worker, None)
            return
        limit = self._limit(worker)[1]
        self._deadlines[worker] = time.monotonic() + (self._timeouts.patience_s if limit is None else limit)

    def _limit(self, worker: WorkerProcess) -> tuple[str, float | None]:
        command, env_id = worker.pending[0]
        return self._timeouts.of(command, env_id not in worker.were_reset)

    # events

    def poll(self, timeout_s: float | None, stepped: list[int]) -> list[Event]:
        """Wait until something happens or ``timeout_s`` has passed.

        Args:
            timeout_s: Time-out in seconds; ``None``: only those of the orders.
            stepped: Receives the ids of the envs whose step is completely described by shared memory. These precede the
                returned events.

        Returns:
            The other events.
        """
        events, self._owed = self._owed, []
        if self._dead:
            self._answer_for_dead(events)
        died = []
        for fd, _ in self._poller.poll(0 if events else self._wait_ms(timeout_s)):
            if fd == self._completions_fd:
                self._drain(events, stepped)
            else:
                died.append(self._by_sentinel[fd])
        for worker in died:
            self._drain(events, stepped)  # orders that it completed before it died
            self._lost(worker, "crashed", events)
        if self._deadlines:
            self._check_deadlines(events)
        return events

    def _wait_ms(self, timeout_s: float | None) -> float | None:
        if self._deadlines:
            left = max(0.0, min(self._deadlines.values()) - time.monotonic())
            timeout_s = left if timeout_s is None else min(timeout_s, left)
        return None if timeout_s is None else math.ceil(timeout_s * 1000.0)

    def _drain(self, events: list[Event], stepped: list[int]) -> None:
        try:
            data = os.read(self._completions_fd, READ_BYTES)
        except BlockingIOError:
            return
        workers = self._worker_of
        for env_id, generation, command, flags in COMPLETION.iter_unpack(data):
            worker = workers[env_id]
            if worker.generation != generation or not worker.alive:
                continue
            if flags or command != PLAIN_STEP:
                event = self._receive(worker, COMMANDS[command], env_id, flags)
                if event is None:
                    continue
                events.append(event)
                if command == Command.RESET and not flags & Flag.FAILED:
                    worker.were_reset.add(env_id)
            else:
                stepped.append(env_id)
            worker.pending.popleft()
            self._set_deadline(worker)

    def _receive(self, worker: WorkerProcess, command: Command, env_id: int, flags: int) -> Event | None:
        if not flags:
            return Event(command, env_id, 0, None)
        try:
            return Event(command, env_id, flags, worker.conn.recv())
        except (EOFError, ConnectionResetError):
            return None  # it died while it reported; its sentinel reports the end
        except Exception as error:  # noqa: BLE001 - a class of the env that cannot be rebuilt here
            return Event(command, env_id, Flag.FAILED, Failure(f"its answer cannot be unpickled: {error!r}"))

    def _check_deadlines(self, events: list[Event]) -> None:
        now = time.monotonic()
        for worker in [worker for worker, deadline in self._deadlines.items() if deadline <= now]:
            if self._limit(worker)[1] is None:
                self._warn_of(worker)
            else:
                self._lost(worker, "timeout", events)

    def _warn_of(self, worker: WorkerProcess) -> None:
        command, env_id = worker.pending[0]
        text = "env %d (process %d): no answer to %s for another %g s; env.manager.%s sets a limit, now there is none"
        logger.warning(
            text, env_id, worker.pid, command.name.lower(), self._timeouts.patience_s, self._limit(worker)[0]
        )
        self._set_deadline(worker)

    def _answer_for_dead(self, events: list[Event]) -> None:
        failure = Failure("its process has ended", "", "crashed")
        for worker in self._dead:
            while worker.pending:
                command, env_id = worker.pending.popleft()
                events.append(Event(command, env_id, Flag.FAILED, failure))

    def _lost(self, worker: WorkerProcess, reason: str, events: list[Event]) -> None:
        """Clean up after a lost worker; add an event for each of its envs."""
        self._forget(worker)
        pending = list(worker.pending)
        if reason == "timeout":
            command, env_id = pending[0]
            key, limit = self._limit(worker)
            text = worker.end_hanging()
            failure = Failure(f"no answer to {command.name.lower()} within {limit} s (env.manager.{key})", text, reason)
            pending = pending[1:]
            events.append(Event(command, env_id, Flag.FAILED, failure))
            reported = {env_id}
        else:
            cause, text = worker.bury()
            failure = Failure(f"its process died ({cause})", text, reason)
            reported = set()
        failure = failure._replace(reason="crashed")
        for command, env_id in pending:
            reported.add(env_id)
            events.append(Event(command, env_id, Flag.FAILED, failure))
        idle = [env_id for env_id in worker.env_ids if env_id not in reported]
        events.extend(Event(Command.IDLE, env_id, Flag.FAILED, failure) for env_id in idle)


def close_inherited() -> None:
    """In a forked worker: close the parent's descriptors, so that all workers notice the end of the parent."""
    for engine in list(_LIVE):
        engine.close_inherited()
