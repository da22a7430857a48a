"""What the subprocess managers have in common: the life of their envs, driven by the events of a ``WorkerEngine``.

Everything happens in the thread that calls the manager, inside its public methods; there is no background thread.
A finished env is ordered to reset as soon as its step is seen, and resets while the caller works.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ding.envs.env_manager._errors import (
    EnvCrashedError,
    EnvDataError,
    EnvManagerError,
    EnvStepError,
    EnvTimeoutError,
    reset_failed,
)
from ding.envs.env_manager._lifecycle import EnvState, ResetParam
from ding.envs.env_manager._manager_base import EnvManagerBase
from ding.envs.env_manager._subprocess_engine import Event, Timeouts, WorkerEngine
from ding.envs.env_manager._subprocess_protocol import MAX_ENVS_PER_WORKER, Command, Failure, Flag
from ding.envs.env_manager._subprocess_results import ResultStore
from ding.utils import did_you_mean

logger = logging.getLogger(__name__)

# Seconds that envs get to close before their process is killed: normally, and when the manager gives up.
CLOSE_GRACE_S = 5.0
FAULT_GRACE_S = 1.0
START_METHODS = ("fork", "spawn", "forkserver")


class SubprocessManagerBase(EnvManagerBase):
    """See the subclasses in ``subprocess_env_manager``."""

    config: dict[str, Any] = {
        **EnvManagerBase.config,
        # Pass arrays of fixed shape through shared memory; without it they are pickled.
        "shared_memory": True,
        # Hand out copies. Without it, batches of all envs are views that change with the next step.
        "copy_on_get": True,
        # How processes are started: 'fork', 'spawn' or 'forkserver'.
        "context": "fork" if sys.platform != "win32" else "spawn",
        # Seconds that an env may take to be built, and to answer for an attribute.
        "connect_timeout": 60,
        # Look for NaN in observations and rewards.
        "check_data": True,
        # Reset a finished env before its step is handed out, whose obs is then the first one of the next episode.
        "reset_inplace": False,
        # Envs that share a process. More of them save wake-ups; one that dies or hangs takes the others with it.
        "envs_per_worker": 1,
    }

    _engine: WorkerEngine
    _store: ResultStore

    def _read_config(self) -> None:
        super()._read_config()
        cfg = self._cfg
        self._shared_memory = bool(cfg.shared_memory)
        self._copy_on_get = bool(cfg.copy_on_get)
        self._context = cfg.context
        self._connect_timeout = cfg.connect_timeout
        self._reset_inplace = bool(cfg.reset_inplace)
        self._envs_per_worker = cfg.envs_per_worker
        self._check_data = bool(cfg.check_data)
        if self._context not in START_METHODS:
            raise ValueError(
                f"env.manager.context {self._context!r} is not a start method."
                f"{did_you_mean(self._context, START_METHODS)}"
            )
        if not isinstance(self._envs_per_worker, int) or not 1 <= self._envs_per_worker <= MAX_ENVS_PER_WORKER:
            raise ValueError(
                f"env.manager.envs_per_worker must be an int from 1 to {MAX_ENVS_PER_WORKER}, "
                f"not {self._envs_per_worker!r}"
            )

    # life

    def launch(self, reset_param: ResetParam = None) -> None:
        """Start the processes, build the envs and reset all of them.

        Raises:
            AssertionError: the manager is open already, or ``reset_param`` does not name every env.
            EnvManagerError: an env could not be built or reset.
        """
        self._check_reset_param(reset_param)
        self._forget_all()
        timeouts = Timeouts(self._connect_timeout, self._reset_timeout, self._step_timeout)
        self._engine = WorkerEngine(self._env_fn, self._context, self._envs_per_worker, timeouts)
        self._owner_pid = os.getpid()
        self._closed = False
        self._life.mark_all(EnvState.INIT)
        try:
            self._engine.start()
            self._building.update(range(self._env_num))
            self._pump_while(lambda: bool(self._building))
            self.reset(reset_param)
            self._share_results()
        except BaseException:
            self._close(FAULT_GRACE_S)
            raise

    def _forget_all(self) -> None:
        self._store = ResultStore(self._env_num, self._copy_on_get)
        self._building: set[int] = set()
        self._stepping: set[int] = set()
        self._answered: set[int] = set()
        self._resetting: set[int] = set()
        self._inplace: set[int] = set()
        self._renewed: set[int] = set()
        self._renewable: set[int] = set()
        self._recorded: dict[int, str] = {}
        self._lost: dict[int, Failure] = {}
        self._step_failures = [0] * self._env_num
        self._attempts: dict[int, int] = {}
        self._retry_at: dict[int, float] = {}
        self._answers: dict[int, Any] = {}

    def _share_results(self) -> None:
        if self._shared_memory:
            shared = self._store.share(getattr(self._reward_space, "shape", None) or (1,))
            if shared is not None:
                self._engine.attach("results", shared)

    def reset(self, reset_param: ResetParam = None) -> None:
        """Reset all envs, or those that ``reset_param`` names with these keyword arguments, and wait for them.

        Steps of these envs that are still under way are waited for and dropped.

        Raises:
            AssertionError: the manager is closed, or an env is unknown.
            EnvResetError: an env could not be reset within its retries. The manager is closed.
        """
        self._check_open()
        env_ids = self._life.remember_reset(reset_param)
        wanted = set(env_ids)
        self._pump_while(lambda: bool(wanted & (self._stepping | self._resetting)))
        for env_id in env_ids:
            self._answered.discard(env_id)
            self._store.forget(env_id)
            self._order_reset(env_id)
        self._pump_while(lambda: bool(wanted & self._resetting))

    def close(self) -> None:
        """Close all envs and end their processes. May be called more than once."""
        self._close(CLOSE_GRACE_S)

    def _close(self, grace_s: float) -> None:
        if self._closed:
            return
        self._closed = True
        if os.getpid() != self._owner_pid:
            return  # a forked copy: the workers belong to the original
        self._engine.close(grace_s)
        # The memory goes with the last array over it.
        self._forget_all()
        self._life.mark_all(EnvState.VOID)
        try:
            self._env_ref.close()
        except Exception:
            # The processes are gone already; what the reference env holds is all that is left.
            logger.exception("closing the reference env failed")

    # events

    def _pump_while(self, unfinished: Callable[[], bool]) -> None:
        while unfinished():
            self._pump(None)

    def _pump(self, timeout_s: float | None) -> None:
        """Wait for events at most so long, and act on them."""
        if self._retry_at:
            timeout_s = self._retry_due(timeout_s)
        stepped: list[int] = []
        events = self._engine.poll(timeout_s, stepped)
        if stepped:
            self._on_plain_steps(stepped)
        for event in events:
            if event.flags & Flag.FAILED:
                self._on_failure(event)
            elif event.command == Command.STEP:
                self._on_step(event)
            elif event.command == Command.RESET:
                self._on_reset(event)
            elif event.command == Command.BUILD:
                self._building.discard(event.env_id)
            else:
                self._answers[event.env_id] = event.payload

    def _on_plain_steps(self, env_ids: list[int]) -> None:
        self._stepping.difference_update(env_ids)
        self._answered.update(env_ids)
        for env_id in self._store.note_plain_steps(env_ids):
            if self._end_episode(env_id) and self._reset_inplace:
                self._inplace.add(env_id)
                self._answered.discard(env_id)

    def _on_step(self, event: Event) -> None:
        env_id = event.env_id
        self._stepping.discard(env_id)
        done, info = self._store.note_step(env_id, bool(event.flags & Flag.OBJECT), event.payload)
        if info.get("abnormal", False):
            self._life.mark(env_id, EnvState.ERROR)
        elif done and self._end_episode(env_id) and self._reset_inplace:
            self._inplace.add(env_id)
            return
        self._answered.add(env_id)

    def _end_episode(self, env_id: int) -> bool:
        """Count a finished episode; whether the env was ordered to start the next one."""
        self._step_failures[env_id] = 0
        if not self._life.count_episode(env_id):
            self._life.mark(env_id, EnvState.DONE)
        elif self._auto_reset:
            self._order_reset(env_id)
            return True
        else:
            self._life.mark(env_id, EnvState.NEED_RESET)
        return False

    def _on_reset(self, event: Event) -> None:
        env_id = event.env_id
        self._store.note_reset(env_id, bool(event.flags & Flag.OBJECT), event.payload)
        self._resetting.discard(env_id)
        self._attempts.pop(env_id, None)
        self._life.mark(env_id, EnvState.RUN)
        if env_id in self._inplace:
            self._answered.add(env_id)

    # resets

    def _order_reset(self, env_id: int) -> None:
        self._life.mark(env_id, EnvState.RESET)
        self._resetting.add(env_id)
        if env_id in self._renewable or not self._engine.is_alive(env_id):
            self._renew(env_id)
        self._send_reset(env_id)

    def _send_reset(self, env_id: int) -> None:
        path, self._replay_paths[env_id] = self._replay_paths[env_id], None
        seed = self._life.take_seed(env_id)
        if env_id in self._renewed:
            self._renewed.discard(env_id)
            path = path or self._recorded.get(env_id)
            seed = seed or self._life.renewal_seed(env_id)
        if path is not None:
            self._recorded[env_id] = path
        self._lost.pop(env_id, None)
        self._engine.reset(env_id, path, seed, self._life.reset_kwargs(env_id))

    def _renew(self, env_id: int) -> None:
        """Start the worker of an env anew. What its other envs were at is lost."""
        for other in self._engine.restart(env_id):
            self._renewed.add(other)
            self._renewable.discard(other)
            if other == env_id:
                continue
            if other in self._resetting and other not in self._retry_at:
                self._send_reset(other)
            elif self._life.states[other] is EnvState.RUN:
                failure = Failure(f"its process was started anew for env {env_id}", "", "crashed")
                self._lose(other, failure)

    def _retry_due(self, timeout_s: float | None) -> float | None:
        """Order the resets whose waiting time is over; the time until the next one is."""
        now = time.monotonic()
        for env_id in [i for i, due in self._retry_at.items() if due <= now]:
            del self._retry_at[env_id]
            self._order_reset(env_id)
        if not self._retry_at:
            return timeout_s
        left = max(0.0, min(self._retry_at.values()) - now)
        return left if timeout_s is None else min(left, timeout_s)

    # failures

    def _on_failure(self, event: Event) -> None:
        env_id, failure = event.env_id, event.payload
        if event.command == Command.CALL:
            self._answers[env_id] = failure
        elif env_id in self._building:
            text = f"Env {env_id} could not be built: {failure.summary}"
            self._give_up(EnvManagerError(text, env_id, None, failure.traceback))
        elif env_id in self._resetting:
            # A failed rebuild is told again by the reset that follows it.
            if event.command != Command.BUILD or failure.reason in ("crashed", "timeout"):
                self._reset_failed(env_id, failure)
        elif self._life.states[env_id] is EnvState.RUN:
            self._lose(env_id, failure)

    def _lose(self, env_id: int, failure: Failure) -> None:
        """What an env was at is gone: that is the failure of its step, of this one or of the next."""
        if env_id in self._stepping:
            self._step_failed(env_id, failure)
        else:
            self._lost[env_id] = failure

    def _reset_failed(self, env_id: int, failure: Failure) -> None:
        if env_id in self._retry_at:
            return
        attempts = self._attempts[env_id] = self._attempts.get(env_id, 0) + 1
        if attempts > self._max_retry:
            self._life.mark(env_id, EnvState.ERROR)
            seed = self._life.last_seeds[env_id]
            error = reset_failed(env_id, attempts, failure.summary, seed, failure.traceback)
            self._give_up(error, self._error(env_id, "reset", failure))
        self._retry_at[env_id] = time.monotonic() + self._retry_waiting_time
        if self._retry_type == "renew" and self._engine.is_alive(env_id):
            self._renew(env_id)

    def _step_failed(self, env_id: int, failure: Failure) -> None:
        self._step_failures[env_id] += 1
        error = self._error(env_id, "step", failure)
        too_often = self._max_retry <= 1 or self._step_failures[env_id] > self._max_retry
        if too_often or isinstance(error, EnvDataError):
            self._give_up(error)
        logger.warning("env %d: step failed (%s); it waits for a reset", env_id, failure.summary)
        if self._retry_type == "renew":
            self._renewable.add(env_id)
        self._stepping.discard(env_id)
        self._answered.add(env_id)
        self._life.mark(env_id, EnvState.ERROR)
        self._store.note_failure(env_id, {"abnormal": True, "error": failure.traceback or str(error)})

    def _error(self, env_id: int, action: str, failure: Failure) -> EnvManagerError:
        seed = self._life.last_seeds[env_id]
        kinds = {"data": EnvDataError, "timeout": EnvTimeoutError, "crashed": EnvCrashedError}
        if failure.reason in kinds:
            return kinds[failure.reason](f"Env {env_id} {action}: {failure.summary}", env_id, seed, failure.traceback)
        kind = EnvStepError if action == "step" else EnvManagerError
        return kind(f"Env {env_id} {action} raised: {failure.summary}", env_id, seed, failure.traceback)

    def _give_up(self, error: EnvManagerError, cause: BaseException | None = None) -> NoReturn:
        """Close the manager and raise: after a fault nobody knows how far its env got."""
        self._close(FAULT_GRACE_S)
        raise error from cause

    # remote attributes

    def _ask(self, env_ids: Iterable[int], name: str, args: tuple[Any, ...] | None) -> list[Any]:
        """An attribute of some envs, or with ``args`` the results of a method."""
        self._check_open()
        wanted = list(env_ids)
        # A reset that is under way may end with another process.
        self._pump_while(lambda: bool(self._resetting))
        self._answers.clear()
        for env_id in wanted:
            self._engine.call(env_id, name, args)
        self._pump_while(lambda: len(self._answers) < len(wanted))
        answers = [self._answers.pop(env_id) for env_id in wanted]
        for env_id, answer in zip(wanted, answers):
            if isinstance(answer, Failure):
                raise self._error(env_id, name, answer)
        return answers

    def _collect_attribute(self, name: str) -> list[Any]:
        return self._ask(range(self._env_num), name, None)

    def reward_shaping(self, env_id: int, transitions: list[dict]) -> list[dict]:
        """Let an env shape the rewards of its transitions."""
        return self._ask([env_id], "reward_shaping", (transitions,))[0]

    def enable_save_figure(self, env_id: int, figure_path: str) -> None:
        """Tell an env to save figures below a path."""
        self._ask([env_id], "enable_save_figure", (figure_path,))

    @property
    def ready_imgs(self) -> dict[int, Any]:
        """A frame, uint8 ``[H, W, 3]``, of each env that waits for an action."""
        env_ids = self.ready_obs_id
        return dict(zip(env_ids, self._ask(env_ids, "render", ())))

    def __del__(self) -> None:
        # Workers of a manager that is dropped without close() end with it.
        if not self.__dict__.get("_closed", True):
            self._close(0.0)
