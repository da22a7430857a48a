"""Training on the data that a fetcher has written to the context."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.data.roles import LearnMode, Samples, attribute_of, only_declared
from ding.framework.context import Context, OfflineRLContext, OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.task import Role
from ding.torch_utils import to_device
from ding.worker.learner.base_learner import FiniteCheck

logger = logging.getLogger(__name__)

Train = Callable[[Any], None]


@for_roles(Role.LEARNER)
def trainer(cfg: EasyDict, policy: LearnMode, log_freq: int = 100) -> Train:
    """Return a middleware that trains once on ``ctx.train_data``, if any.

    Writes ``train_output`` (the policy's output) and adds the number of its updates to ``train_iter``.

    Args:
        cfg: Config with ``exp_name``, the experiment directory.
        policy: Learn mode of a policy.
        log_freq: Train iterations between two log lines.

    Raises:
        NonFiniteError: (by the middleware) See ``policy.learn.on_nonfinite``; the batch is in ``<exp_name>/nonfinite``.
    """

    check = FiniteCheck(policy, os.path.join((cfg or {}).get("exp_name", ""), "nonfinite"))

    def train(ctx: Any) -> None:
        _check_context(ctx)
        if ctx.train_data is None:
            return
        output = policy.forward(ctx.train_data)
        check.look(output if isinstance(output, list) else [output], ctx.train_data, ctx.train_iter)
        if ctx.train_iter % log_freq == 0:
            _log(ctx, output)
        ctx.train_iter += len(output) if isinstance(output, list) else 1
        ctx.train_output = output

    return train


@for_roles(Role.LEARNER)
def multistep_trainer(policy: LearnMode, log_freq: int = 100) -> Train:
    """Return a middleware that trains on ``ctx.train_data``, if any, with a policy that makes several updates per call.

    Writes ``train_output`` (a list: one dict per update) and adds their number to ``train_iter``.

    Args:
        policy: Learn mode of a policy; the data is moved to its device.
        log_freq: Train iterations between two log lines.

    Raises:
        TypeError: (by the middleware) The policy did not return a list.
        NonFiniteError: (by the middleware) See ``policy.learn.on_nonfinite``; the batch is in ``nonfinite``.
    """
    last_log_iter = -1
    check = FiniteCheck(policy, "nonfinite")
    device = getattr(only_declared(policy), "_device", None) or attribute_of(policy, "device", "cpu")

    def train(ctx: Any) -> None:
        nonlocal last_log_iter
        _check_context(ctx)
        if ctx.train_data is None:
            return
        output = policy.forward(_on(device, ctx.train_data))
        if not isinstance(output, list):
            raise TypeError(f"multistep_trainer needs a policy that returns a list, got {type(output).__name__}")
        check.look(output, ctx.train_data, ctx.train_iter)
        if ctx.train_iter - last_log_iter >= log_freq:
            _log(ctx, output)
            last_log_iter = ctx.train_iter
        ctx.train_iter += len(output)
        ctx.train_output = output

    return train


def _on(device: Any, data: Any) -> Samples:
    if isinstance(data, TransitionBatch):
        return TransitionBatch(to_device(data.columns, device), data.lengths)
    return to_device(data, device)


def _check_context(ctx: Any) -> None:
    if not isinstance(ctx, OnlineRLContext | OfflineRLContext):
        raise TypeError(f"training needs an OnlineRLContext or OfflineRLContext, got {type(ctx).__name__}")


def _log(ctx: Context, output: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    outputs = [output] if isinstance(output, Mapping) else output
    loss = float(np.mean([one["total_loss"] for one in outputs])) if outputs else float("nan")
    steps = f", env step {ctx.env_step}" if isinstance(ctx, OnlineRLContext) else ""
    logger.info("training: iteration %d%s, loss %.6f", ctx.train_iter, steps, loss)  # type: ignore[attr-defined]
