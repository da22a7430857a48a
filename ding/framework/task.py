"""Task: runs middleware once per iteration over a shared context.

iteration     one cycle of :meth:`Task.run`: all forward phases, all backward phases, then a new context
middleware    a callable of one argument, the context; a generator function has two phases: the code before its
              ``yield`` (forward) and the code after it (backward)
factory       creates a middleware from a config, policy, env, ...: most names of ``ding.framework.middleware``
router        messenger of this process in a run of several, see :class:`ding.framework.Parallel`
"""

import contextlib
import enum
import fnmatch
import functools
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from ding.framework._jobs import Jobs
from ding.framework._phases import Middleware, OpenPhase, Phases, PhaseStack, name_of
from ding.framework._task_events import TaskEvents
from ding.framework.context import Context
from ding.framework.parallel import Parallel
from ding.parallel.launch import PermanentRoleError

Wrapper = Callable[[Middleware], Middleware]


class Role(str, enum.Enum):
    """Role of a process in a run of several."""

    LEARNER = "learner"
    COLLECTOR = "collector"
    EVALUATOR = "evaluator"
    FETCHER = "fetcher"


class VoidMiddleware:
    """Middleware without effect, which :meth:`Task.use` skips."""

    def __call__(self, _: Any = None) -> None:
        return


def enable_async(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a task method run as a background job: always in async mode, otherwise with ``async_mode=True``.

    The call then returns the task, so ``task.backward().sync()`` waits for it.
    """

    @functools.wraps(method)
    def run(task: "Task", *args: Any, async_mode: bool | None = None) -> object:
        if task.async_mode if async_mode is None else async_mode:
            task.async_executor(method, task, *args)
            return task
        return method(task, *args)

    return run


class Wrapped:
    """Middleware with its lock and its position in a task.

    A call runs the forward phase and returns a function that runs the backward phase. If that function is not called,
    the task runs the backward phase at the end of the iteration.
    """

    def __init__(self, task: "Task", fn: Middleware, lock: Any) -> None:
        self._task = task
        self.fn = fn
        self.lock = lock
        self.__name__ = name_of(fn)

    def __call__(self, ctx: Any) -> Callable[[], None]:
        opened = self._task.open_phases(self.fn, ctx, self.lock)
        return functools.partial(self._task.close_phases, opened)


class Task:
    """Runs middleware; see the glossary of the module.

    Concurrency: without ``async_mode`` all middleware runs in the calling thread. With it, the forward phases of an
    iteration run concurrently in ``n_async_workers`` threads; the backward phases follow, in the reverse order of
    registration. Middleware with the same lock runs sequentially, in the order of registration.
    """

    role = Role

    def __init__(self) -> None:
        self.router = Parallel()
        self.running = False
        self._finish = self._asked_to_finish = False

    def start(
        self,
        async_mode: bool = False,
        n_async_workers: int = 3,
        ctx: Context | None = None,
        labels: set[str] | None = None,
    ) -> "Task":
        """Start afresh, without middleware, roles and listeners. As a context manager the task is stopped at the end.

        Args:
            async_mode: Run the middleware of an iteration concurrently.
            n_async_workers: Number of threads for that.
            ctx: Initial context.
            labels: Additional labels of this process.
        """
        self.running = True
        self._finish = False
        self.num_collectors = 0  # number of collectors that have seeded their envs
        self._asked_to_finish = self.router.is_active and self.router.is_stopping
        self.ctx = ctx or Context()
        self.async_mode = async_mode
        self.n_async_workers = n_async_workers
        self.labels = labels or set()
        self.roles: set[str] = set()
        self._middleware: list[Wrapped] = []
        self._wrappers: list[Wrapper] = []
        self._phases = PhaseStack()
        self._lock = threading.Lock()
        self._newest_locked: dict[int, Future[Any]] = {}
        self._failed = False
        self._jobs: Jobs | None = None
        self._events = TaskEvents(self.router)
        if async_mode or self.router.is_active:
            self._activate_jobs()
        if self.router.is_active:
            self.on("finish", self._set_finish)
        self.init_labels()
        _started.append(self)
        return self

    def stop(self) -> None:
        """Drop all middleware and listeners, and end the other processes of the run. Repeated calls have no effect."""
        self._stop(finish_others=True)

    def _stop(self, finish_others: bool) -> None:
        if not self.running:
            return
        if finish_others:
            self.router.has_finished = True
            self._events.emit_away("finish", True)
        if self._jobs is not None:
            self._jobs.stop()
        self._events.stop()
        self._middleware, self._wrappers, self._phases = [], [], PhaseStack()
        self.running = False
        _started.remove(self)

    def __enter__(self) -> "Task":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The others end, or this process restarts, once its exception has reached its caller.
        self._stop(finish_others=error is None or not self.router.is_supervised)

    # Registration.

    def use(self, fn: Middleware, lock: Any = False) -> "Task":
        """Add a middleware; a :class:`VoidMiddleware` is skipped.

        Args:
            fn: Middleware to add.
            lock: True: do not run concurrently with others that have a lock; or a lock object.

        Raises:
            AssertionError: ``fn`` is not callable, or the task was not started.
        """
        self._check_running()
        if isinstance(fn, VoidMiddleware):
            return self
        for wrapper in self._wrappers:
            fn = _wrapped_by(wrapper, _checked(fn))
        self._middleware.append(self.wrap(fn, lock))
        return self

    def use_wrapper(self, fn: Wrapper) -> "Task":
        """Apply a decorator to all present and future middleware."""
        self._check_running()
        self._wrappers.append(fn)
        for middleware in self._middleware:
            middleware.fn = _wrapped_by(fn, middleware.fn)
        return self

    def wrap(self, fn: Middleware, lock: Any = False) -> Wrapped:
        """Return a middleware for manual calls.

        A call with the context runs its forward phase and returns a function that runs its backward phase.
        """
        return Wrapped(self, _checked(fn), self._lock if lock is True else lock or None)

    def serial(self, *fns: Middleware) -> Middleware:
        """Return a middleware that runs these sequentially; their backward phases run in reverse order."""
        members = [fn for fn in fns if not isinstance(fn, VoidMiddleware)]

        def run(ctx: Any) -> Phases:
            opened = [self._phases.run_first(fn, ctx) for fn in members]
            yield
            for one in reversed(opened):
                if one is not None:
                    self._phases.run_second(one)

        run.__name__ = f"serial<{','.join(map(name_of, members))}>"
        return run

    def parallel(self, *fns: Middleware) -> Middleware:
        """Return a middleware that runs the phases of these concurrently. Not for async mode."""
        members = [fn for fn in fns if not isinstance(fn, VoidMiddleware)]
        jobs = self._activate_jobs()

        def run(ctx: Any) -> Phases:
            opened = jobs.run_all([functools.partial(self._phases.run_first, fn, ctx) for fn in members])
            yield
            jobs.run_all([functools.partial(self._phases.run_second, one) for one in opened if one is not None])

        run.__name__ = f"parallel<{','.join(map(name_of, members))}>"
        return run

    def void(self) -> VoidMiddleware:
        """Return a middleware that :meth:`use` skips."""
        return VoidMiddleware()

    # Execution.

    def run(self, max_step: int = int(1e12)) -> None:
        """Run iterations until :attr:`finish` is set; the current iteration is completed.

        If another process sets it during an iteration, one more iteration follows, so that all middleware sees it.

        Args:
            max_step: Maximum number of iterations.

        Raises:
            AssertionError: The task was not started.
        """
        self._check_running()
        if not self._middleware:
            return
        is_last = False
        for step in range(max_step):
            for place, middleware in enumerate(self._middleware):
                self._phases.set_place(place)
                if self.async_mode:
                    self._submit_in_turn(place, middleware)
                else:
                    middleware(self.ctx)
                if place == 0:
                    # All middleware sees it, such as the one that saves the last checkpoint.
                    is_last = self._asked_to_finish
            self.sync().backward()
            self.sync()
            if step == max_step - 1:
                self.finish = True
            if self._finish or is_last:
                return
            self.renew()

    def _submit_in_turn(self, place: int, middleware: Wrapped) -> None:
        key = id(middleware.lock)
        before = None if middleware.lock is None else self._newest_locked.get(key)
        future = self._activate_jobs().submit(self._run_in_place, place, before, middleware)
        if middleware.lock is not None:
            self._newest_locked[key] = future

    def _run_in_place(self, place: int, before: "Future[Any] | None", middleware: Wrapped) -> None:
        # Jobs start in the order of submission, so the awaited one has started or is done.
        if before is not None:
            with contextlib.suppress(Exception):  # sync raises it
                before.result()
        self._phases.set_place(place)
        middleware(self.ctx)

    @enable_async
    def forward(self, fn: Middleware, ctx: Any = None) -> Phases | None:
        """Run the forward phase of a middleware.

        Returns:
            The generator, which :meth:`backward` resumes; ``None`` if there is no second phase.
        """
        self._check_running()
        opened = self.open_phases(fn, ctx or self.ctx)
        return None if opened is None else opened.phases

    @enable_async
    def backward(self, backward_stack: "Iterable[Phases] | Mapping[Any, Phases] | None" = None) -> None:
        """Run the open backward phases, the newest first.

        Args:
            backward_stack: Only these generators, the last one first.
        """
        self._check_running()
        if backward_stack is None:
            while opened := self._phases.take():
                self._phases.run_second(opened)
            return
        wanted = backward_stack.values() if isinstance(backward_stack, Mapping) else backward_stack
        for phases in reversed(list(wanted)):
            if opened := self._phases.take(phases):
                self._phases.run_second(opened)

    def open_phases(self, fn: Middleware, ctx: Any, lock: Any = None) -> OpenPhase | None:
        """Run the forward phase of ``fn``; its second phase, if there is one, stays open until :meth:`backward`."""
        return self._phases.push(self._phases.run_first(fn, ctx, lock))

    def close_phases(self, opened: OpenPhase | None) -> None:
        """Run the second phase of a result of :meth:`open_phases`, unless it has run."""
        if opened is not None and self._phases.take(opened.phases):
            self._phases.run_second(opened)

    def sync(self) -> "Task":
        """Wait for all background jobs; raise the first error of a job or of a listener."""
        if self._jobs is not None:
            self._jobs.sync()
        self._events.raise_pending()
        return self

    sync_tasks = sync

    def async_executor(self, fn: Callable[..., Any], *args: Any) -> None:
        """Start a background job; :meth:`sync` waits for it.

        Raises:
            RuntimeError: The task has no threads: it runs in a single process without ``async_mode``.
        """
        if self._jobs is None:
            raise RuntimeError("a background job needs task.start(async_mode=True) or a run of several processes")
        self._jobs.submit(fn, *args)

    def renew(self) -> "Task":
        """Replace the context by that of the next iteration."""
        self.ctx = self.ctx.renew()
        return self

    # Events.

    def on(self, event: str, fn: Callable[..., Any]) -> None:
        """Call ``fn`` at each emit of the event, in this or another process of the run."""
        self._events.on(event, fn)

    def once(self, event: str, fn: Callable[..., Any]) -> None:
        """Call ``fn`` at the next emit of the event only."""
        self._events.once(event, fn)

    def off(self, event: str, fn: Callable[..., Any] | None = None) -> None:
        """Remove a listener, or all listeners, of the events that match a pattern such as ``model_*``."""
        self._events.off(event, fn)

    def emit(self, event: str, *args: Any, only_remote: bool = False, only_local: bool = False, **kwargs: Any) -> None:
        """Call the listeners of an event in this and the connected processes; return immediately.

        Args:
            only_remote: Exclude this process.
            only_local: Only this process.

        Raises:
            AssertionError: The task was not started.
        """
        self._check_running()
        if not only_local:
            self._events.emit_away(event, *args, **kwargs)
        if not only_remote:
            self._events.emit_here(event, *args, **kwargs)

    def wait_for(
        self, event: str, timeout: float = math.inf, ignore_timeout_exception: bool = True
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Wait until an event is emitted, and return its arguments.

        Args:
            timeout: Time-out in seconds.
            ignore_timeout_exception: Return ``None`` on time-out.

        Returns:
            ``(args, kwargs)``; ``None`` on time-out, or if the task has finished or a background job has failed.

        Raises:
            TimeoutError: The wait timed out (without ``ignore_timeout_exception``).
        """
        self._check_running()
        try:
            return self._events.wait_for(event, timeout, lambda: self.finish or self._failed)
        except TimeoutError:
            if ignore_timeout_exception:
                return None
            raise

    def wait_until(self, condition: Callable[[], bool], timeout: float = math.inf) -> bool:
        """Wait until the condition holds, the task has finished, or a background job has failed.

        Args:
            condition: Checked at each :meth:`wake`.
            timeout: Time-out in seconds.

        Returns:
            Whether the condition holds.
        """
        self._events.wait_until(lambda: self.finish or self._failed or condition(), timeout)
        return condition()

    def wake(self) -> None:
        """Make waiting threads check their conditions."""
        self._events.wake()

    # State.

    @property
    def finish(self) -> bool:
        """Whether the run ends, normally after this iteration."""
        return self._finish or self._asked_to_finish

    @finish.setter
    def finish(self, value: bool) -> None:
        self._finish, self._asked_to_finish = value, False
        if self.running:
            self._events.wake()

    def init_labels(self) -> None:
        """Add the labels that describe this process."""
        if self.async_mode:
            self.labels.add("async")
        if self.router.is_active:
            self.labels |= {"distributed", f"node.{self.router.node_id}", *self.router.labels}
        else:
            self.labels.add("standalone")

    def add_role(self, role: str) -> None:
        """Assign a role to this process; call it before the factories that depend on roles.

        Raises:
            PermanentRoleError: A restarted learner would begin without its weights.
        """
        if role == Role.LEARNER and self.router.has_lost_state:
            raise PermanentRoleError(
                f"node {self.router.node_id}, the learner, was killed, and its weights with it; "
                f"where main goes on from a checkpoint, use auto_recover=True"
            )
        self.roles.add(role)

    def has_role(self, role: str) -> bool:
        """Return whether this process has the role; a process without any role has all."""
        return not self.roles or role in self.roles

    def match_labels(self, patterns: "Iterable[str] | str") -> bool:
        """Return whether a label of this process matches a pattern such as ``node.*``."""
        wanted = [patterns] if isinstance(patterns, str) else list(patterns)
        return any(fnmatch.filter(self.labels, pattern) for pattern in wanted)

    def get_attch_to_len(self) -> int:
        """Return the number of addresses dialled by this process.

        Raises:
            RuntimeError: This is a single-process run.
        """
        if not self.router.is_active:
            raise RuntimeError("task.get_attch_to_len: the router is not active, this process runs alone")
        return self.router.get_attch_to_len()

    def _check_running(self) -> None:
        if not self.running:
            raise AssertionError("the task is not running: call task.start() first, best in a `with` statement")

    def _set_finish(self, value: bool) -> None:
        self._asked_to_finish = value
        self._events.wake()

    def _fail(self) -> None:
        self._failed = True
        self._events.wake()

    def _activate_jobs(self) -> Jobs:
        if self._jobs is None:
            self._jobs = Jobs(self.n_async_workers, self._fail)
        return self._jobs


def current_task() -> Task:
    """Return the most recently started task that is not stopped; :data:`task` if there is none."""
    return _started[-1] if _started else task


def _checked(fn: Middleware) -> Middleware:
    if not callable(fn):
        raise AssertionError(f"a middleware is a callable of the context, got {type(fn).__name__}")
    return fn


def _wrapped_by(wrapper: Wrapper, fn: Middleware) -> Middleware:
    wrapped = wrapper(fn)
    with contextlib.suppress(AttributeError):
        wrapped.__name__ = name_of(fn)
    return wrapped


_started: list[Task] = []
task = Task()
