"""The loop of the serial mode, in one place.

env step        one step of one collector env; `collector.envstep` counts them over all envs
train iter      one optimisation step; `learner.train_iter` counts them
pass            one turn of the loop: maybe evaluate, collect, train on the batches that the data path yields
sample          what the learner trains on: a transition, or a trajectory segment
return          sum of the rewards of one episode; an evaluation reports the mean over its episodes
stop value      the mean evaluation return at which a run counts as solved and ends
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from ding.entry.serial.data_path import DataPath
from ding.entry.serial.parts import SerialParts
from ding.entry.serial.run_state import RunSaver, begin_new_episodes, load_run_state
from ding.entry.view.callbacks import Callbacks
from ding.entry.view.status import Evaluations, RunStatus
from ding.entry.view.views import RunView
from ding.parallel.launch.signals import first_asks, handling, write_notice

logger = logging.getLogger("ding.entry")

_SHOW_EVERY_S = 0.25


class StopNow(BaseException):
    """Leaves an interruptible section; caught by the loop, never by code in between."""


class StopSignals:
    """Context manager that notes the first SIGINT or SIGTERM in `requested` while a run lasts.

    A section marked `interruptible` (collecting, evaluating) is left at once by an exception; the update of a network
    is finished first, so that the checkpoint that follows is whole.

    Args:
        notify: Called inside the handler of the first signal, to report that the run is about to stop.
    """

    def __init__(self, notify: Callable[[], None] = write_notice) -> None:
        self._notify = notify
        self.requested: int | None = None
        #: Called inside the handler, too.
        self.on_request: Callable[[], None] = lambda: None
        self._interruptible = False
        self._handlers = contextlib.ExitStack()

    def __enter__(self) -> StopSignals:
        self._handlers.enter_context(handling(first_asks(self._on_first)))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._handlers.close()

    def _on_first(self, signum: int) -> None:
        self.requested = signum
        self.on_request()
        self._notify()
        if self._interruptible:
            raise StopNow

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A section that a signal may leave at any point.

        Raises:
            StopNow: A signal came, before or inside.
        """
        self._interruptible = True
        try:
            if self.requested is not None:
                raise StopNow
            yield
        finally:
            self._interruptible = False


class SerialLoop:
    """Collects, trains and evaluates until the run is solved, a limit is reached, or a signal asks to stop.

    Args:
        parts: The workers.
        data: Where the batches come from.
        max_train_iter: Limit of train iterations.
        max_env_step: Limit of env steps.
        view: Shows how the run goes.
        signals: Note the wish to stop.
        callbacks: Called after evaluations and passes, and at the end.
    """

    def __init__(
        self,
        parts: SerialParts,
        data: DataPath,
        max_train_iter: float,
        max_env_step: float,
        view: RunView,
        signals: StopSignals,
        callbacks: Callbacks | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = parts
        self._data = data
        self._max_train_iter = max_train_iter
        self._max_env_step = max_env_step
        self._view = view
        self._signals = signals
        self._callbacks = Callbacks() if callbacks is None else callbacks
        self._clock = clock
        self._began_s = self._next_show_s = clock()
        self._evaluations = Evaluations()
        self._state_freq = int(parts.cfg.policy.learn.get("run_state_freq") or 0)
        self._last_state_iter = 0
        self._saver = RunSaver(parts)
        signals.on_request = parts.learner.saver.stop_waiting

    def run(self) -> RunStatus:
        """Run to the end and return the last status. After a signal, the `after_run` hooks are left to the caller."""
        learner, collector = self._parts.learner, self._parts.collector
        learner.call_hook("before_run")
        if self._parts.cfg.policy.learn.get("resume_training", False):
            self._resume()
        self._began_s = self._clock()
        self._view.start(self.status())
        try:
            self._data.prepare()
            while collector.envstep < self._max_env_step and learner.train_iter < self._max_train_iter:
                if not self._pass():
                    break
        except StopNow:
            logger.debug("left at env step %d by signal %s", collector.envstep, self._signals.requested)
        except Exception:
            self._save_at_error()
            raise
        self._saver.finish()
        if self._signals.requested is None:
            # So that the last checkpoint knows the env steps of the last collect.
            learner.collector_envstep = collector.envstep
            learner.call_hook("after_run")
            self._callbacks.ended(self.status())
        return self.status()

    def status(self) -> RunStatus:
        """Return how the run does now."""
        parts = self._parts
        # A metric evaluator has a dict here.
        stop_value = parts.cfg.env.stop_value
        return RunStatus(
            exp_name=parts.cfg.exp_name,
            env_step=int(parts.collector.envstep),
            train_iter=int(parts.learner.train_iter),
            elapsed_s=self._clock() - self._began_s,
            max_env_step=self._max_env_step,
            max_train_iter=self._max_train_iter,
            stop_value=stop_value if isinstance(stop_value, (int, float)) else None,
            **vars(self._evaluations),
            buffer_rows=0 if parts.buffer is None else parts.buffer.count(),
            buffer_size=None if parts.buffer is None else parts.buffer.replay_buffer_size,
        )

    def _resume(self) -> None:
        """Go on from the checkpoint that the learner loaded."""
        parts = self._parts
        parts.collector.envstep = max(0, parts.learner.collector_envstep)
        checkpoint = parts.cfg.policy.learn.learner.get("hook", {}).get("load_ckpt_before_run")
        if checkpoint and not load_run_state(checkpoint, parts):
            logger.info("there is no saved state beside %s; the replay buffer is filled anew", checkpoint)
        self._last_state_iter = parts.learner.train_iter

    def _pass(self) -> bool:
        """One pass; returns whether the run goes on, as far as its limits let it."""
        learner = self._parts.learner
        if self._parts.evaluator.should_eval(learner.train_iter):
            self._evaluate()
            goes_on = self._callbacks.evaluated(self.status())
            if self._evaluations.solved or not goes_on:
                return False
        self._data.collect()
        for batch in self._data.batches():
            learner.train(batch, self._parts.collector.envstep, self._data.train_kwargs)
            self._data.trained()
            if self._signals.requested is not None:
                return False
        if self._state_freq and learner.train_iter - self._last_state_iter >= self._state_freq:
            self._save_state()
        if self._clock() >= self._next_show_s:
            self._show()
        if self._callbacks.watch_iterations and not self._callbacks.iterated(self.status()):
            return False
        return self._signals.requested is None

    def _save_state(self) -> None:
        """Save all that a killed run needs to go on."""
        self._last_state_iter = self._parts.learner.train_iter
        self._saver.save(beside=True)
        begin_new_episodes(self._parts)

    def save(self) -> Path:
        """Save all that the run needs to go on; returns the folder of the snapshot.

        Raises:
            DiskFullError: There is no space.
        """
        return self._saver.save()

    def _save_at_error(self) -> None:
        """Save the learner's checkpoint, where that is possible; the error is what matters."""
        try:
            self._saver.finish()
            if self._parts.learner.train_iter:
                self._parts.learner.save_checkpoint("ckpt_exception.pth.tar")
        except (ArithmeticError, OSError, RuntimeError, TypeError, ValueError) as error:
            logger.warning("no checkpoint is saved because of the error: %s", error)

    def _evaluate(self) -> None:
        learner = self._parts.learner
        with self._signals.interruptible():
            solved, info = self._parts.evaluator.eval(
                learner.save_checkpoint, learner.train_iter, self._parts.collector.envstep
            )
        self._evaluations.note(solved, _returns_of(info))
        self._show()

    def _show(self) -> None:
        self._view.update(self.status())
        self._next_show_s = self._clock() + _SHOW_EVERY_S


def _returns_of(info: object) -> tuple[float, ...]:
    """The returns of an evaluation, one per episode; none when the evaluator reports another metric."""
    returns = info.get("eval_episode_return", []) if isinstance(info, Mapping) else []
    return tuple(float(value) for value in np.asarray(returns, dtype=np.float64).reshape(-1))
