"""The training of an agent: middleware of ``ding.framework`` over its policy, and what is seen of it."""

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from easydict import EasyDict

from ding.config import save_config
from ding.config.experiment_dir import create_experiment_dir
from ding.config.own.record import record_network, record_run_code
from ding.config.source import save_leniently
from ding.data import DequeBuffer
from ding.data.roles import EnvManager, EvalMode, Writer
from ding.entry.serial.loop import StopSignals
from ding.entry.view.experiment import next_steps
from ding.entry.view.status import Evaluations, RunStatus, write_run_result
from ding.entry.view.views import RunView, console_lines, make_view
from ding.framework import OnlineRLContext, Task
from ding.framework.middleware import (
    CkptSaver,
    EpisodeCollector,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    gae_estimator,
    interaction_evaluator,
    montecarlo_return_estimator,
    nstep_reward_enhancer,
    termination_checker,
    trainer,
    wandb_online_logger,
)
from ding.parallel.launch.signals import RunInterrupted
from ding.policy import Policy
from ding.rollout import EvaluationResult
from ding.utils import LazyWriter, write_scalars
from ding.utils.checkpoint import save_checkpoint

_SHOW_EVERY_S = 0.25
_HIDDEN = ("priority",)

Middleware = Callable[[Any], Any]


class Trained(Protocol):
    """What is trained: an :class:`~ding.bonus.core.agent.Agent`, as far as the training sees it."""

    cfg: EasyDict
    policy: Policy
    buffer_: DequeBuffer
    exp_name: str
    given_model: torch.nn.Module | None
    env_step: int
    train_iter: int
    #: Mean return of the checkpoint ``eval``, over all trainings.
    best_eval_value: float

    @property
    def eval_mode(self) -> EvalMode:
        """How the policy acts without exploration."""

    def learning_steps(self, env: EnvManager) -> Iterator[Middleware]:
        """Yield the middleware from the envs to the update of the networks."""


class Trainer:
    """One or several runs of an agent in one experiment folder.

    Args:
        agent: what is trained.
        n_iter_log_show: train iterations between two points of the curves of training.
        n_iter_save_ckpt: train iterations between two numbered checkpoints.
        wandb_sweep: see :func:`ding.framework.middleware.wandb_online_logger`.
    """

    def __init__(self, agent: Trained, n_iter_log_show: int, n_iter_save_ckpt: int, wandb_sweep: bool) -> None:
        self._agent = agent
        self._log_freq = n_iter_log_show
        self._save_freq = n_iter_save_ckpt
        self._wandb_sweep = wandb_sweep

    def run(self, step: int, collector_env: EnvManager, evaluator_env: EnvManager) -> str:
        """Train for ``step`` env steps; returns the page of the run at Weights & Biases, empty without it.

        A first Ctrl-C or SIGTERM ends it after the iteration, with a checkpoint.

        Raises:
            KeyboardInterrupt: after Ctrl-C.
            RunInterrupted: after SIGTERM.
        """
        agent = self._agent
        self._open_folder()
        limit = agent.env_step + step
        ctx = OnlineRLContext(env_step=agent.env_step, train_iter=agent.train_iter)
        writer = LazyWriter(str(Path(agent.exp_name) / "log" / "serial"))
        view = make_view()
        with console_lines(), StopSignals(view.stopping) as signals, Task().start(ctx=ctx) as task:
            monitor = Monitor(agent, limit, view, writer, self._log_freq)
            saver = CkptSaver(agent.policy, agent.exp_name, train_freq=self._save_freq, save_finish=False)
            saver.max_eval_value = agent.best_eval_value
            task.use(interaction_evaluator(agent.cfg, agent.eval_mode, evaluator_env))
            task.use(saver)
            for middleware in agent.learning_steps(collector_env):
                task.use(middleware)
            task.use(termination_checker(max_env_step=limit - 1))
            for middleware in self._wandb_steps(evaluator_env):
                task.use(middleware)
            task.use(monitor)
            task.use(_finish_on(signals, task))
            with monitor.shown(signals):
                task.run()
                end: Any = task.ctx
                if signals.requested is None and end.last_eval_iter != end.train_iter:
                    last_steps = (interaction_evaluator(agent.cfg, agent.eval_mode, evaluator_env), saver, monitor)
                    for middleware in last_steps:
                        middleware(end)
            agent.best_eval_value = saver.max_eval_value
            last: Any = task.ctx
            agent.env_step, agent.train_iter = last.env_step, last.train_iter
            checkpoint = str(Path(agent.exp_name) / "ckpt" / "final.pth.tar")
            notes = {"train_iter": agent.train_iter, "env_step": agent.env_step}
            save_checkpoint(checkpoint, agent.policy.learn_mode.state_dict(), notes)
        if signals.requested == signal.SIGINT:
            raise KeyboardInterrupt(f"the training was stopped; train() goes on, and the policy is in {checkpoint}")
        if signals.requested is not None:
            raise RunInterrupted(signals.requested, checkpoint)
        return str(last.wandb_url)

    def _wandb_steps(self, evaluator_env: EnvManager) -> Iterator[Middleware]:
        """Yield the logger for Weights & Biases, where the config or a sweep asks for it."""
        agent = self._agent
        switches = agent.cfg.get("wandb_logger")
        if not switches and not self._wandb_sweep:
            return
        learn: Any = agent.policy.learn_mode
        yield wandb_online_logger(
            record_path=str(Path(agent.exp_name) / "videos"),
            cfg=switches,
            exp_config=agent.cfg,
            metric_list=learn.monitor_vars(),
            env=evaluator_env,
            model=learn.get_attribute("model") if hasattr(learn, "get_attribute") else None,
            anonymous=True,
            project_name=Path(agent.exp_name).name,
            wandb_sweep=self._wandb_sweep,
        )

    def _open_folder(self) -> None:
        """Make the experiment folder at the first training, and write the config into it."""
        agent = self._agent
        if agent.env_step or agent.train_iter:
            return
        agent.exp_name = agent.cfg.exp_name = create_experiment_dir(agent.cfg.exp_name, renew_dir=True)
        path = Path(agent.exp_name) / "total_config.py"
        save_leniently(lambda strict: save_config(agent.cfg, path, save_formatted=True, strict=strict), path)
        record_run_code(agent.exp_name, path.name, [agent.cfg])
        if agent.given_model is not None:
            record_network(agent.exp_name, path.name, agent.given_model, agent.cfg.policy.model)


def learning_steps(agent: Trained, env: EnvManager) -> Iterator[Middleware]:
    """Yield the middleware from the envs to the update of the networks, as the config of the policy asks for them."""
    cfg, policy = agent.cfg, agent.policy
    with_critic = "gae_lambda" in cfg.policy.collect
    if "eps" in cfg.policy.other:
        yield eps_greedy_handler(cfg)
    if cfg.policy.collect.get("n_episode"):
        yield EpisodeCollector(cfg, policy.collect_mode, env)
    else:
        yield StepCollector(cfg, policy.collect_mode, env, random_collect_size=cfg.policy.get("random_collect_size", 0))
    if cfg.policy.on_policy:
        yield gae_estimator(cfg, policy.collect_mode) if with_critic else montecarlo_return_estimator(policy)
        yield trainer(cfg, policy.learn_mode)
        return
    if with_critic:
        yield gae_estimator(cfg, policy.collect_mode, agent.buffer_)
    else:
        if cfg.policy.get("nstep", 1) > 1:
            yield nstep_reward_enhancer(cfg)
        yield data_pusher(cfg, agent.buffer_)
    yield OffPolicyLearner(cfg, policy.learn_mode, agent.buffer_)


class Monitor:
    """A middleware that shows how the run does, and draws its curves under the tags of a serial run.

    Args:
        agent: what is trained.
        max_env_step: the limit.
        view: shows the run.
        writer: draws curves; closed at the end.
        log_freq: train iterations between two points of the curves of training.
    """

    def __init__(self, agent: Trained, max_env_step: int, view: RunView, writer: Writer, log_freq: int) -> None:
        self._agent = agent
        self._view = view
        self._writer = writer
        self._log_freq = log_freq
        self._began_s = time.monotonic()
        self._next_show_s = 0.0
        self._last_drawn_iter = agent.train_iter
        self._last_eval_iter: int | None = None
        stop_value = float(agent.cfg.env.stop_value)
        self._evaluations = Evaluations()
        if agent.best_eval_value > -np.inf:
            self._evaluations.note_best(EvaluationResult(agent.best_eval_value))
        self._figures: dict[str, Any] = {"max_env_step": max_env_step, "stop_value": stop_value}

    def __call__(self, ctx: OnlineRLContext) -> None:
        evaluated = ctx.eval_value > -np.inf and ctx.last_eval_iter != self._last_eval_iter
        if evaluated:
            self._note_evaluation(ctx)
        output = _last_of(ctx.train_output)
        if output and ctx.train_iter - self._last_drawn_iter >= self._log_freq:
            self._last_drawn_iter = ctx.train_iter
            shown = {f"{k}_avg": v for k, v in output.items() if k not in _HIDDEN and isinstance(v, (int, float))}
            write_scalars(self._writer, "learner_iter/", shown, ctx.train_iter)
            write_scalars(self._writer, "learner_step/", shown, ctx.env_step)
        self._figures |= {"env_step": ctx.env_step, "train_iter": ctx.train_iter}
        if evaluated or time.monotonic() >= self._next_show_s:
            self._view.update(self.status())
            self._next_show_s = time.monotonic() + _SHOW_EVERY_S

    def _note_evaluation(self, ctx: OnlineRLContext) -> None:
        self._last_eval_iter = ctx.last_eval_iter
        value = float(ctx.eval_value)
        solved = value >= self._figures["stop_value"] and ctx.last_eval_iter > 0
        returns = ctx.eval_output.get("episode_return", ())
        self._evaluations.note(solved, returns, value, train_iter=ctx.last_eval_iter)
        self._writer.add_scalar("evaluator_step/reward_mean", value, ctx.env_step)
        self._writer.add_scalar("evaluator_iter/reward_mean", value, ctx.last_eval_iter)

    def status(self) -> RunStatus:
        """Return a snapshot of the run."""
        buffer = self._agent.buffer_
        return RunStatus(
            exp_name=self._agent.exp_name,
            elapsed_s=time.monotonic() - self._began_s,
            buffer_rows=buffer.count(),
            buffer_size=buffer.size,
            **vars(self._evaluations),
            **self._figures,
        )

    @contextlib.contextmanager
    def shown(self, signals: StopSignals) -> Iterator[None]:
        """While the run lasts: the view is open; at the end ``result.json`` is written and the curves are closed."""
        self._view.start(self.status())
        sentence, ok = "ended by an error", False
        try:
            with _without_tables():
                yield
            status = self.status()
            write_run_result(status)
            sentence, ok = status.describe_end() + next_steps(status.exp_name), True
            if signals.requested is not None:
                sentence = f"stopped after {status.env_step} env steps and {status.train_iter} train iterations"
        finally:
            self._writer.close()
            self._view.finish(sentence, ok)


def _finish_on(signals: StopSignals, task: Task) -> Middleware:
    """A middleware that ends the task when a signal asked for it."""

    def finish_when_asked(ctx: OnlineRLContext) -> None:
        if signals.requested is not None:
            task.finish = True

    return finish_when_asked


@contextlib.contextmanager
def _without_tables() -> Iterator[None]:
    """Leave out the lines of the middleware, which the view shows in its own form, where nobody asked for them."""
    framework = logging.getLogger("ding.framework")
    level = framework.level
    if level == logging.NOTSET:
        framework.setLevel(logging.WARNING)
    try:
        yield
    finally:
        framework.setLevel(level)


def _last_of(output: Any) -> Mapping[str, Any] | None:
    """What the policy returned for the last update of an iteration."""
    while isinstance(output, list):
        output = output[-1] if output else None
    return output if isinstance(output, Mapping) else None
