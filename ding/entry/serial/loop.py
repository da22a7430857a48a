"""Loop of the serial mode: one pass from the collector to the learner.

A loop collects once per pass and then trains on every batch of its data path. The path determines which samples are
kept, for how long, and how often they are used. ``ReplayPath`` serves off-policy algorithms, ``OnPolicyPath`` on-policy
ones; other paths are in neighbouring modules.

env step        one step of one collector env; ``collector.envstep`` counts them over all envs
train iter      one optimisation step; ``learner.train_iter`` counts them
pass            one cycle of the loop: evaluate if due, collect, train on the batches of the data path
sample          training input of the learner: a transition, or a trajectory segment
return          sum of the rewards of one episode; an evaluation reports the mean over its episodes
stop value      mean evaluation return at which a run counts as solved and ends
"""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ding.config import ConfigValueError
from ding.data.roles import Samples
from ding.data.transition_batch import joined_samples
from ding.entry.serial.parts import SerialParts
from ding.entry.serial.run_saver import RunSaver
from ding.entry.serial.run_state import load_run_state, take_up_stop
from ding.entry.snapshot_clock import SnapshotClock
from ding.entry.utils import random_collect
from ding.entry.view.callbacks import Callbacks
from ding.entry.view.status import Evaluations, RunStatus
from ding.entry.view.views import RunView
from ding.parallel.launch.signals import first_asks, handling, write_notice
from ding.policy.compiled_updates import joined_updates
from ding.rl_utils.normalization import Counted
from ding.rollout import statistics_of
from ding.torch_utils.graph.compiled_graphs import compile_section
from ding.utils import allreduce_data, broadcast_object_list, get_rank, get_world_size
from ding.utils.seed import generator_states, set_generator_states
from ding.worker.collector.base_serial_evaluator import SerialEvaluator

logger = logging.getLogger("ding.entry")

_SHOW_EVERY_S = 0.25


class StopNow(BaseException):
    """Leaves an interruptible section; caught only by the loop."""


class StopSignals:
    """Context manager that records the first SIGINT or SIGTERM in ``requested``.

    An exception leaves a section marked ``interruptible`` (collection, evaluation, compilation) at once; the update of
    a network is completed first, so that the following checkpoint is consistent.

    Args:
        notify: Called inside the handler of the first signal, to report that the run is about to stop.
    """

    def __init__(self, notify: Callable[[], None] = write_notice) -> None:
        self._notify = notify
        self.requested: int | None = None
        #: Also called inside the handler.
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
        """Section that a signal may interrupt at any point.

        Raises:
            StopNow: A signal arrived, before or within the section.
        """
        before, self._interruptible = self._interruptible, True
        try:
            if self.requested is not None:
                raise StopNow
            yield
        finally:
            self._interruptible = before


class DataPath(ABC):
    """Path of the data from the collector to the learner."""

    #: Further arguments of ``policy.forward`` for the newest batch.
    train_kwargs: dict[str, Any] | None = None

    def prepare(self) -> None:
        """Collect data required before the first pass; does nothing by default."""
        return

    def evaluation_clock(self) -> int | None:
        """Return the counter for ``eval.evaluator.eval_freq``; ``None``: train iterations."""
        return None

    @abstractmethod
    def collect(self) -> None:
        """Collect once, and store the samples.

        Raises:
            StopNow: A signal arrived; nothing was stored.
        """

    @abstractmethod
    def batches(self) -> Iterator[Samples]:
        """Yield the batches of a pass; the loop trains once on each."""

    def trained(self) -> None:
        """Process the learner's results for the newest batch, e.g. its priorities; does nothing by default."""
        return


class ReplayPath(DataPath):
    """Collects into a replay buffer, and samples ``policy.learn.update_per_collect`` batches from it in each pass.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        label: Marks the samples before they are pushed.
        joins: Whether a policy that supports it may get the batches of several updates at once.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        label: Callable[[Samples], Samples] | None = None,
        joins: bool = True,
    ) -> None:
        if parts.buffer is None:
            raise ConfigValueError("learning from a replay buffer needs parts with one")
        self._parts, self.buffer, self._label = parts, parts.buffer, label
        self._interruptible = interruptible
        self._trained = False
        self._updates = int(parts.cfg.policy.learn.update_per_collect)
        #: Batch size; for a policy with several buffers one per buffer.
        self._batch_size: Any = parts.learner.policy.get_attribute("batch_size")
        self._uses_priority = bool(parts.learner.policy.get_attribute("priority"))
        # A rate limiter assumes samples of single batches.
        limited = (parts.cfg.policy.get("other", {}).get("replay_buffer", {}).get("rate_limit") or {}).get(
            "samples_per_insert"
        )
        limit = int(parts.learner.policy.get_attribute("updates_per_call")) if joins and limited is None else 1
        self._joined = joined_updates(self._updates, limit)

    def prepare(self) -> None:
        parts = self._parts
        # The buffer of a resumed run already contains these samples.
        resumed = parts.collector.envstep > 0 and self.buffer.count() > 0
        if (parts.cfg.policy.get("random_collect_size") or 0) > 0 and not resumed:
            with self._interruptible():
                random_collect(
                    parts.cfg.policy, parts.policy, parts.collector, parts.collector_env, parts.commander, self.buffer,
                    self._label,
                )  # fmt: skip

    def collect(self) -> None:
        parts = self._parts
        with self._interruptible():
            samples = collected(parts)
        if self._label is not None:
            samples = self._label(samples)
        self.buffer.push(samples, cur_collector_envstep=parts.collector.envstep)

    def batches(self) -> Iterator[Samples]:
        self.train_kwargs = {"num_updates": self._joined} if self._joined > 1 else None
        for done in range(0, self._updates, self._joined):
            batch = self._draw(self._joined)
            if batch is None:
                # Before the first update the buffer is simply not full enough yet, also in a resumed run.
                if self._trained:
                    logger.warning(
                        "the buffer gave no batch of %s after %d of %d updates of this pass; collecting on",
                        self._batch_size, done, self._updates,
                    )  # fmt: skip
                return
            yield batch

    def _draw(self, count: int) -> Samples | None:
        """Return the concatenated batches of several updates, sampled at once if the buffer has enough elements."""
        if count > 1 and self.buffer.count() >= self._batch_size * count:
            samples: Samples | None = self.buffer.sample(self._batch_size * count, self._parts.learner.train_iter)
            return samples
        return self._joined_batches(count)

    def _joined_batches(self, count: int) -> Samples | None:
        """Return the concatenated batches of several updates, sampled separately."""
        drawn: list[Any] = []
        while len(drawn) < count:
            batch = self._batch()
            if batch is None:
                return None
            drawn.append(batch)
        return drawn[0] if count == 1 else joined_samples(drawn)

    def _batch(self) -> Samples | None:
        samples: Samples | None = self.buffer.sample(self._batch_size, self._parts.learner.train_iter)
        return samples

    def trained(self) -> None:
        self._trained = True
        if self._uses_priority:
            self.buffer.update(self._parts.learner.priority_info)


class OnPolicyPath(DataPath):
    """Trains once on all samples of a pass, and discards them.

    The policy's config defines the number of epochs over the samples.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        label: Marks the samples.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        label: Callable[[Samples], Samples] | None = None,
    ) -> None:
        self._parts, self._label = parts, label
        self._interruptible = interruptible
        self._samples: Samples = ()

    def collect(self) -> None:
        with self._interruptible():
            self._samples = self._collected()
        if self._parts.cfg.policy.get("multi_gpu", False):
            self._samples = self._samples[: _fewest(len(self._samples))]
        if self._label is not None:
            self._samples = self._label(self._samples)

    def _collected(self) -> Samples:
        return collected(self._parts)

    def batches(self) -> Iterator[Samples]:
        samples, self._samples = self._samples, ()
        yield samples


def _fewest(count: int) -> int:
    """Return the minimum over all processes, which must use equally many minibatches to exchange gradients."""
    counts = torch.zeros(get_world_size(), dtype=torch.int64)
    counts[get_rank()] = count
    return int(allreduce_data(counts, "sum").min())


def _first_says(value: bool) -> bool:
    """Broadcast the value of the first process."""
    return allreduce_data(int(value and get_rank() == 0), "sum") > 0


def collected(parts: SerialParts, **kwargs: Any) -> Sequence[Any]:
    """Collect samples or episodes once, with the commander's settings."""
    policy_kwargs = parts.commander.step()
    return parts.collector.collect(train_iter=parts.learner.train_iter, policy_kwargs=policy_kwargs, **kwargs)


class SerialLoop:
    """Collects, trains and evaluates until the run is solved, a limit is reached, or a signal requests a stop.

    Args:
        parts: Workers of the run.
        data: Data path.
        max_train_iter: Limit of train iterations.
        max_env_step: Limit of env steps.
        view: Shows the progress.
        signals: Records stop requests.
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
        self._evaluated_iter: int | None = None
        # With 0 episodes the run is not evaluated.
        self._evaluates = parts.cfg.env.get("n_evaluator_episode") != 0
        several = parts.cfg.policy.get("multi_gpu", False) and get_world_size() > 1
        self._snapshots = SnapshotClock(parts.cfg.policy.learn, clock, _first_says if several else None)
        self._saver = RunSaver(parts)
        # If several processes train one model, each counts the returns of its own envs.
        self._counted: Counted | None = None
        self._statistics = statistics_of(parts.learner.policy)
        if self._statistics is not None and several:
            self._counted = Counted(f"rank{get_rank()}")
            self._statistics.count_into(self._counted)
        signals.on_request = parts.learner.saver.stop_waiting

    def run(self) -> RunStatus:
        """Run to the end and return the last status. After a signal, the caller runs the ``after_run`` hooks."""
        learner, collector = self._parts.learner, self._parts.collector
        learner.call_hook("before_run")
        if self._parts.cfg.policy.learn.get("resume_training", False):
            self._resume()
        self._began_s = self._clock()
        self._view.start(self.status())
        compiling = compile_section.set(self._signals.interruptible)
        try:
            self._data.prepare()
            while collector.envstep < self._max_env_step and learner.train_iter < self._max_train_iter:
                if not self._pass():
                    break
            learner.collector_envstep = collector.envstep  # checkpoints contain the env steps of the last collection
            self._evaluate_at_end()
        except StopNow:
            logger.debug("left at env step %d by signal %s", collector.envstep, self._signals.requested)
        except Exception:
            self._save_at_error()
            raise
        finally:
            compile_section.reset(compiling)
        self._saver.finish()
        if self._signals.requested is None:
            learner.call_hook("after_run")
            self._callbacks.ended(self.status())
            if self._snapshots.saves_at_end:
                self._saver.save_unasked(beside=False)
        self._show()
        return self.status()

    def status(self) -> RunStatus:
        """Return the current status of the run."""
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
            buffer_size=getattr(parts.buffer, "replay_buffer_size", None),
        )

    def _resume(self) -> None:
        """Resume from the checkpoint that the learner loaded, or from the end of the agent's last run."""
        parts = self._parts
        if not take_up_stop(parts):
            parts.collector.envstep = max(0, parts.learner.collector_envstep)
            checkpoint = parts.cfg.policy.learn.learner.get("hook", {}).get("load_ckpt_before_run")
            if checkpoint and load_run_state(checkpoint, parts):
                self._saver.note_taken_up()
            elif checkpoint:
                logger.info("there is no saved state beside %s; the replay buffer is filled anew", checkpoint)
        self._snapshots.restart(parts.learner.train_iter)
        if isinstance(parts.evaluator, SerialEvaluator) and parts.evaluator.best is not None:
            self._evaluations.note_best(parts.evaluator.best)

    def _pass(self) -> bool:
        """Run one pass; return whether the limits allow another one."""
        learner = self._parts.learner
        clock = self._data.evaluation_clock()
        if self._evaluates and self._parts.evaluator.should_eval(learner.train_iter if clock is None else clock):
            self._evaluate()
            goes_on = self._callbacks.evaluated(self.status())
            if self._evaluations.solved or not goes_on:
                return False
        self._data.collect()
        if self._counted is not None:
            self._share_statistics(self._counted)
        for batch in self._data.batches():
            learner.train(batch, self._parts.collector.envstep, self._data.train_kwargs)
            self._data.trained()
            if self._signals.requested is not None:
                return False
        if self._snapshots.is_due(learner.train_iter):
            self._save_state()
        if self._clock() >= self._next_show_s:
            self._show()
        if self._callbacks.watch_iterations and not self._callbacks.iterated(self.status()):
            return False
        return self._signals.requested is None

    def _share_statistics(self, counted: Counted) -> None:
        """Merge the statistics of the envs of other processes; called in all processes after each collection."""
        assert self._statistics is not None
        if self._statistics.norms is None:
            return
        for rank in range(get_world_size()):
            found: list[Any] = [counted.contribution() if rank == get_rank() else None]
            broadcast_object_list(found, src=rank)
            self._statistics.merge(found[0])

    def _save_state(self) -> None:
        """Save a snapshot."""
        self._snapshots.restart(self._parts.learner.train_iter)
        if self._snapshots.counts_iterations:
            self._saver.save(beside=True)
            self._saver.go_on()
        else:
            # Its time differs from run to run, so it must not affect the run.
            self._saver.save_unasked()

    def save(self) -> Path:
        """Save a snapshot; return its folder.

        Raises:
            DiskFullError: There is not enough disk space.
        """
        return self._saver.save()

    def _save_at_error(self) -> None:
        """Save the learner's checkpoint if possible, without hiding the original error."""
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
        self._evaluated_iter = learner.train_iter
        self._evaluations.note(solved, _returns_of(info), train_iter=learner.train_iter)
        self._show()

    def _evaluate_at_end(self) -> None:
        """Evaluate the last weights, unless the last evaluation used them."""
        was_judged = self._evaluated_iter == self._parts.learner.train_iter
        if self._evaluates and not was_judged and self._signals.requested is None:
            # A run with a higher limit would not evaluate here: keep the random generators for resumption.
            random_state = generator_states()
            self._evaluate()
            set_generator_states(random_state)
            self._callbacks.evaluated(self.status())

    def _show(self) -> None:
        self._view.update(self.status())
        self._next_show_s = self._clock() + _SHOW_EVERY_S


def _returns_of(info: object) -> tuple[float, ...]:
    """Return the episode returns of an evaluation; empty if the evaluator reports another metric."""
    returns = info.get("eval_episode_return", []) if isinstance(info, Mapping) else []
    return tuple(float(value) for value in np.asarray(returns, dtype=np.float64).reshape(-1))
