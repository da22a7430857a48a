"""Evaluation at intervals of training: episodes of a policy, or a metric over a data set."""

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from easydict import EasyDict
from torch.utils.data import DataLoader, Dataset

from ding.data.roles import EnvManager, EvalMode, only_declared
from ding.framework.context import OfflineRLContext, OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.middleware.trees import TreeMode, TreePolicy
from ding.framework.task import Role, current_task
from ding.rollout import (
    WARN_STEPS,
    EvaluationRunner,
    VectorEvalMonitor,
    as_manager,
    episode_return,
    seed_evaluation,
    v1_interface,
)
from ding.worker.collector.metric_serial_evaluator import IMetric

logger = logging.getLogger(__name__)

RLContext = OnlineRLContext | OfflineRLContext
Evaluate = Callable[[RLContext], None]

__all__ = ["IMetric", "VectorEvalMonitor", "interaction_evaluator", "interaction_evaluator_ttorch", "metric_evaluator"]


@for_roles(Role.EVALUATOR)
def interaction_evaluator(
    cfg: EasyDict, policy: EvalMode, env: EnvManager, render: bool = False, **kwargs: Any
) -> Evaluate:
    """Return a middleware that plays ``env.n_evaluator_episode`` episodes, initially and every ``eval_freq``
    iterations.

    Writes ``last_eval_iter``, ``eval_value`` (the mean return), ``eval_value_min``, ``_max`` and ``_std``,
    ``last_eval_value`` and ``eval_output``: ``episode_return`` (list of floats, one per episode), ``output`` (outputs
    of the last step) and, if the envs report it, ``episode_info``. With ``render`` it also writes ``replay_video``
    (uint8 ``[N, T, C, H, W]``), and ``output`` belongs to the same N episodes. The task ends when the mean return
    reaches ``env.stop_value`` after training has started. With 0 episodes the middleware has no effect.

    Args:
        cfg: ``seed``, ``env.n_evaluator_episode``, ``env.stop_value``, ``policy.eval.evaluator.eval_freq``.
        policy: Eval mode of a policy.
        env: Env manager; seeded here, launched at the first evaluation and reset before each.
        render: Record frames (``env.ready_imgs``) and outputs.
        kwargs: Keyword arguments of the forward; if given, the statistics are also written to ``info_for_logging``,
            with the arguments in their names.

    Raises:
        TypeError: (by the middleware) The context belongs to no training.
    """
    env, policy = as_manager(env), only_declared(policy)
    seed_evaluation(env, cfg.seed)
    name = "/".join(f"{key}({value})" for key, value in kwargs.items())
    due = _every(cfg.policy.eval.evaluator.eval_freq)

    def evaluate(ctx: RLContext) -> None:
        if cfg.env.n_evaluator_episode == 0 or not due(ctx):
            return
        warn_steps = cfg.policy.eval.evaluator.get("warn_steps", WARN_STEPS)
        monitor, output = play_episodes(env, policy, cfg.env.n_evaluator_episode, render, kwargs, warn_steps)
        note_evaluation(ctx, monitor, output, cfg.env.stop_value, name)

    return evaluate


@for_roles(Role.EVALUATOR)
def interaction_evaluator_ttorch(
    seed: int,
    policy: TreePolicy,
    env: EnvManager,
    n_evaluator_episode: int | None = None,
    stop_value: float = math.inf,
    eval_freq: int = 1000,
    render: bool = False,
) -> Evaluate:
    """Return an :func:`interaction_evaluator` for a policy that is one object for all modes and works on trees.

    Args:
        seed: Seed of the environments.
        policy: Object with ``eval(obs)`` and ``reset``, such as ``PPOF``.
        n_evaluator_episode: Number of episodes; ``None``: one per environment.
        stop_value: Mean return at which the task ends.
        eval_freq: Train iterations between two evaluations.
    """
    seed_evaluation(env, seed)
    mode: Any = TreeMode(policy, "eval")
    due = _every(eval_freq)

    def evaluate(ctx: RLContext) -> None:
        if not due(ctx):
            return
        monitor, output = play_episodes(env, mode, n_evaluator_episode or env.env_num, render, {})
        note_evaluation(ctx, monitor, output, stop_value)

    return evaluate


@for_roles(Role.EVALUATOR)
def metric_evaluator(cfg: EasyDict, policy: EvalMode, dataset: "Dataset[Any]", metric: IMetric) -> Evaluate:
    """Return a middleware that evaluates a policy on a data set, initially and every ``eval_freq`` iterations.

    Writes ``last_eval_iter`` and ``eval_value``. The task ends when the metric is better than ``env.stop_value`` after
    training has started.

    Args:
        cfg: ``policy.eval.batch_size``, ``policy.eval.evaluator.eval_freq``, ``env.stop_value``.
        policy: Eval mode of a policy, called with the inputs of a batch.
        dataset: Data set of pairs of inputs and label.
        metric: Metric of a batch, with an average over batches.
    """
    loader = DataLoader(dataset, batch_size=cfg.policy.eval.batch_size)
    due = _every(cfg.policy.eval.evaluator.eval_freq)

    def evaluate(ctx: RLContext) -> None:
        if not due(ctx):
            return
        policy.reset()
        value = metric.reduce_mean([metric.eval(policy.forward(inputs), label) for inputs, label in loader])
        ctx.last_eval_iter, ctx.eval_value = ctx.train_iter, value
        logger.info("evaluation: train iteration %d, metric %s", ctx.train_iter, value)
        if ctx.train_iter > 0 and metric.gt(value, cfg.env.stop_value):
            current_task().finish = True

    return evaluate


def _every(eval_freq: int) -> Callable[[RLContext], bool]:
    """Return a predicate that is true if the last evaluation was ``eval_freq`` train iterations ago, or none has run.

    Each evaluator keeps its own record, so several may evaluate at the same iteration.
    """
    last_iter: int | None = None

    def due(ctx: RLContext) -> bool:
        nonlocal last_iter
        if not isinstance(ctx, OnlineRLContext | OfflineRLContext):
            raise TypeError(f"an evaluator needs an OnlineRLContext or OfflineRLContext, got {type(ctx).__name__}")
        if last_iter is not None and ctx.train_iter - last_iter < eval_freq:
            return False
        last_iter = ctx.train_iter
        return True

    return due


def play_episodes(
    env: EnvManager,
    policy: EvalMode,
    n_episode: int,
    render: bool,
    policy_kwargs: dict[str, Any],
    warn_steps: int | None = WARN_STEPS,
) -> tuple[VectorEvalMonitor, dict[str, Any]]:
    """Play episodes; return their results, and the outputs and video described in :func:`interaction_evaluator`."""
    seed_evaluation(env)
    envs: Any = v1_interface(env)
    if env.closed:
        envs.launch()
    else:
        envs.reset()
    policy.reset()
    monitor = VectorEvalMonitor(env.env_num, n_episode)
    runner = EvaluationRunner(envs, [policy], monitor, policy_kwargs=policy_kwargs, warn_steps=warn_steps)
    while not monitor.is_finished():
        if render:
            monitor.update_video(envs.ready_imgs)
        ended = runner.step()
        if render:
            monitor.update_output(runner.output)
        for env_id, (info,) in ended:
            if "episode_info" in info:
                monitor.update_info(env_id, info["episode_info"])
            monitor.update_reward(env_id, episode_return(info, env_id))
            runner.finished(env_id)
    if render:
        return monitor, {"replay_video": monitor.get_episode_video(), "output": monitor.get_episode_output()}
    return monitor, {"output": list(runner.output.values())}


def note_evaluation(
    ctx: RLContext, monitor: VectorEvalMonitor, output: dict[str, Any], stop_value: float, name: str = ""
) -> None:
    """Write an evaluation to the context, and end the task if ``stop_value`` is reached."""
    returns = monitor.get_episode_return()
    mean, std, low, high = (float(fn(returns)) for fn in (np.mean, np.std, np.min, np.max))
    ctx.last_eval_iter, ctx.eval_value, ctx.last_eval_value = ctx.train_iter, mean, mean
    for key, value in (("min", low), ("max", high), ("std", std)):
        setattr(ctx, f"eval_value_{key}", value)
    ctx.eval_output = {"episode_return": returns, **output}
    info = monitor.get_episode_info()
    if info is not None:
        ctx.eval_output["episode_info"] = info
    if name:
        prefix = f"{name}/eval_episode_return"
        ctx.info_for_logging |= {prefix: mean, f"{prefix}_min": low, f"{prefix}_max": high, f"{prefix}_std": std}
    step = f"env step {ctx.env_step}" if isinstance(ctx, OnlineRLContext) else f"epoch {ctx.train_epoch}"
    logger.info("evaluation: train iteration %d, %s, return %.2f (+- %.2f)", ctx.train_iter, step, mean, std)
    if mean >= stop_value and ctx.train_iter > 0:
        logger.info("the task ends: a mean return of %.2f reaches the stop value %s", mean, stop_value)
        current_task().finish = True
