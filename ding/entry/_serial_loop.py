"""The loop of the serial mode, in one place.

env step        one step of one collector env; `collector.envstep` counts them over all envs
train iter      one optimisation step; `learner.train_iter` counts them
pass            one turn of the loop: maybe evaluate, collect, push, `update_per_collect` train iterations
sample          what the buffer stores and the learner trains on: a transition, or a piece of a trajectory
return          sum of the rewards of one episode; an evaluation reports the mean over its episodes
stop value      the mean evaluation return at which a run counts as solved and ends
"""

from __future__ import annotations

import datetime
import logging
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ding.entry._progress import Progress, ProgressView
from ding.entry._run_state import begin_new_episodes, load_run_state, save_run_state
from ding.entry._serial_build import SerialParts
from ding.entry._signals import StopNow, StopSignals
from ding.entry.utils import random_collect
from ding.utils import get_rank

logger = logging.getLogger("ding.entry")


@dataclass(frozen=True)
class SerialResult:
    """How a run ended. ``eval_value`` is the mean return of the last evaluation, None when there was none."""

    stop: bool
    env_step: int
    train_iter: int
    eval_value: float | None
    eval_value_raw: list[float]
    finish_time: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class SerialLoop:
    """Collects, trains and evaluates until the run is solved, a limit is reached, or a signal asks to stop.

    Args:
        parts: The workers.
        max_train_iter: Limit of train iterations.
        max_env_step: Limit of env steps.
        view: Is told how the run goes.
        signals: Is asked whether to stop.
    """

    def __init__(
        self, parts: SerialParts, max_train_iter: float, max_env_step: float, view: ProgressView, signals: StopSignals
    ) -> None:
        self._parts = parts
        self._view = view
        self._signals = signals
        self._returns: list[float] = []
        self._stop = False
        self._trained = False
        cfg = parts.cfg
        # A metric evaluator has a dict here.
        stop_value = cfg.env.stop_value
        self._updates = int(cfg.policy.learn.update_per_collect)
        self._state_freq = int(cfg.policy.learn.get("run_state_freq") or 0)
        self._last_state_iter = 0
        self._batch_size = parts.learner.policy.get_attribute("batch_size")
        self._uses_priority = bool(parts.learner.policy.get_attribute("priority"))
        self.progress = Progress(
            exp_name=cfg.exp_name,
            max_env_step=max_env_step,
            max_train_iter=max_train_iter,
            stop_value=stop_value if isinstance(stop_value, (int, float)) else float("inf"),
            buffer_size=parts.buffer.replay_buffer_size,
            buffer_count=parts.buffer.count,
        )

    def run(self) -> SerialResult:
        """Run to the end and return the result. After a signal, the `after_run` hooks are left to the caller."""
        learner, collector = self._parts.learner, self._parts.collector
        learner.call_hook("before_run")
        if self._parts.cfg.policy.learn.get("resume_training", False):
            self._resume()
        self.progress.begin(collector.envstep, learner.train_iter)
        self._view.start(self.progress)
        try:
            if self._parts.cfg.policy.get("random_collect_size", 0) > 0:
                self._collect_at_random()
            while not self._at_limit() and not self._pass():
                self._view.update(self.progress)
        except StopNow:
            logger.debug("left at env step %d by signal %s", collector.envstep, self._signals.requested)
        self._count()
        if self._signals.requested is None:
            # So that the last checkpoint knows the env steps of the last collect.
            learner.collector_envstep = collector.envstep
            learner.call_hook("after_run")
        return self._result()

    def _resume(self) -> None:
        """Go on from the checkpoint that the learner loaded."""
        parts = self._parts
        parts.collector.envstep = max(0, parts.learner.collector_envstep)
        checkpoint = parts.cfg.policy.learn.learner.get("hook", {}).get("load_ckpt_before_run")
        if checkpoint and not load_run_state(checkpoint, parts):
            logger.info("there is no saved state beside %s; the replay buffer is filled anew", checkpoint)
        self._last_state_iter = parts.learner.train_iter

    def _at_limit(self) -> bool:
        progress = self.progress
        self._count()
        return progress.env_step >= progress.max_env_step or progress.train_iter >= progress.max_train_iter

    def _pass(self) -> bool:
        """One pass; returns whether the run is over before its limits."""
        parts = self._parts
        collect_kwargs = parts.commander.step()
        if parts.evaluator.should_eval(parts.learner.train_iter) and self._evaluate():
            return True
        with self._signals.interruptible():
            samples = parts.collector.collect(train_iter=parts.learner.train_iter, policy_kwargs=collect_kwargs)
        parts.buffer.push(samples, cur_collector_envstep=parts.collector.envstep)
        self._train()
        if self._signals.requested is not None:
            return True
        self._save_state()
        return False

    def _save_state(self) -> None:
        """Every ``policy.learn.run_state_freq`` train iterations: save all that a killed run needs to go on."""
        train_iter = self._parts.learner.train_iter
        if self._state_freq and train_iter - self._last_state_iter >= self._state_freq:
            self._last_state_iter = train_iter
            if get_rank() == 0:
                save_run_state(self._parts)
            begin_new_episodes(self._parts)

    def _evaluate(self) -> bool:
        learner, collector = self._parts.learner, self._parts.collector
        self._count()
        with self._signals.interruptible():
            self._stop, info = self._parts.evaluator.eval(
                learner.save_checkpoint, learner.train_iter, collector.envstep
            )
        self._returns = _returns_of(info)
        progress = self.progress
        progress.evaluations += 1
        if self._returns:
            progress.last_return = float(np.mean(self._returns))
            best = progress.best_return
            progress.best_return = progress.last_return if best is None else max(best, progress.last_return)
        self._view.evaluated(progress)
        return self._stop

    def _train(self) -> None:
        learner, buffer, envstep = self._parts.learner, self._parts.buffer, self._parts.collector.envstep
        for done in range(self._updates):
            batch = buffer.sample(self._batch_size, learner.train_iter)
            if batch is None:
                # Before the first update the buffer is simply not full enough yet, in a resumed run, too.
                if self._trained:
                    logger.warning(
                        "the buffer gave no batch of %d after %d of %d updates of this pass; collecting on",
                        self._batch_size, done, self._updates,
                    )  # fmt: skip
                return
            learner.train(batch, envstep)
            self._trained = True
            if self._uses_priority:
                buffer.update(learner.priority_info)
            if self._signals.requested is not None:
                return

    def _collect_at_random(self) -> None:
        parts = self._parts
        with self._signals.interruptible():
            random_collect(
                parts.cfg.policy, parts.policy, parts.collector, parts.collector_env, parts.commander, parts.buffer
            )

    def _count(self) -> None:
        self.progress.env_step = self._parts.collector.envstep
        self.progress.train_iter = self._parts.learner.train_iter

    def _result(self) -> SerialResult:
        return SerialResult(
            stop=bool(self._stop),
            env_step=int(self.progress.env_step),
            train_iter=int(self.progress.train_iter),
            eval_value=self.progress.last_return,
            eval_value_raw=self._returns,
            finish_time=datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
        )


def _returns_of(info: dict[str, Any]) -> list[float]:
    """The returns of an evaluation, one per episode; none when the evaluator reports another metric."""
    returns = info.get("eval_episode_return", []) if isinstance(info, dict) else []
    return [float(value) for value in np.asarray(returns, dtype=np.float64).reshape(-1)]
