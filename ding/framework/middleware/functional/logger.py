"""TensorBoard curves of a task."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ding.framework.context import OfflineRLContext, OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.task import Role, current_task
from ding.utils import DistributedWriter, write_scalars

# Policy outputs that are meant for the buffer, not for display.
_HIDDEN = ("priority", "td_error_priority")


@for_roles(Role.LEARNER, Role.EVALUATOR)
def online_logger(record_train_iter: bool = False, train_show_freq: int = 100) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that plots the mean evaluation return and the policy's train output over env steps.

    Tags: ``basic/eval_episode_return_mean`` and ``basic/train_<key>``; if an iteration has several updates, the last
        one is
    plotted. Keys with the prefix ``[histogram]`` or ``[scalars]`` hold an array, or a dict of numbers.

    Args:
        record_train_iter: Also plot over train iterations; the tags then end with ``-env_step`` and ``-train_iter``.
        train_show_freq: Train iterations between two points of the train output.

    Raises:
        RuntimeError: There is no writer.
    """
    axes = {"-env_step": "env_step", "-train_iter": "train_iter"} if record_train_iter else {"": "env_step"}
    return _curves(axes, train_show_freq)


@for_roles(Role.LEARNER, Role.EVALUATOR)
def offline_logger(train_show_freq: int = 100) -> Callable[[OfflineRLContext], None]:
    """Return a middleware that plots the mean evaluation return and the policy's train output over train iterations.

    Tags: ``basic/eval_episode_return_mean-train_iter`` and ``basic/train_<key>-train_iter``; see :func:`online_logger`.

    Raises:
        RuntimeError: There is no writer.
    """
    return _curves({"-train_iter": "train_iter"}, train_show_freq)


def _curves(axes: Mapping[str, str], train_show_freq: int) -> Callable[[Any], None]:
    """Return a middleware that plots each curve once per axis; ``axes`` maps tag suffixes to counters."""
    writer = DistributedWriter.get_instance()
    if writer is None:
        raise RuntimeError("there is no tensorboard writer: call ding.framework.ding_init(cfg) before making a logger")
    last_shown_iter = -1

    def draw(ctx: Any) -> None:
        nonlocal last_shown_iter
        for end, axis in axes.items():
            if not math.isinf(ctx.eval_value):
                writer.add_scalar(f"basic/eval_episode_return_mean{end}", ctx.eval_value, getattr(ctx, axis))
        output = last_output(ctx.train_output)
        if output and ctx.train_iter - last_shown_iter >= train_show_freq:
            last_shown_iter = ctx.train_iter
            for end, axis in axes.items():
                _draw_output(writer, output, end, getattr(ctx, axis))
        if current_task().finish:
            writer.close()

    return draw


def _draw_output(writer: DistributedWriter, output: Mapping[str, Any], end: str, step: int) -> None:
    points = {}
    for key, value in output.items():
        kind, _, name = key.rpartition("]")
        if key in _HIDDEN:
            continue
        if kind == "[histogram":
            writer.add_histogram(name, np.asarray(value), step)
        elif kind == "[scalars":
            writer.add_scalars(f"basic/train_{name}{end}", value, step)
        else:
            points[f"basic/train_{key}{end}"] = value
    write_scalars(writer, "", points, step)


def last_output(train_output: Any) -> Mapping[str, Any] | None:
    """Return the policy's output of the last update of an iteration; ``None`` without updates."""
    last = train_output
    while isinstance(last, Sequence) and not isinstance(last, str):
        if not last:
            return None
        last = last[-1]
    found: Mapping[str, Any] | None = last
    return found
