"""Limits that end a task."""

import logging
import math
from collections.abc import Callable

import torch

from ding.framework.context import Context
from ding.framework.task import current_task

logger = logging.getLogger(__name__)


def termination_checker(
    max_env_step: int | None = None, max_train_iter: int | None = None
) -> Callable[[Context], None]:
    """Return a middleware that ends the task when ``env_step`` or ``train_iter`` exceeds its limit.

    Raises:
        AssertionError: (by the middleware) The context has neither counter.
    """
    limits = {
        "env_step": math.inf if max_env_step is None else max_env_step,
        "train_iter": math.inf if max_train_iter is None else max_train_iter,
    }

    def check(ctx: Context) -> None:
        counted = {name: getattr(ctx, name) for name in limits if hasattr(ctx, name)}
        if not counted:
            raise AssertionError(f"the context {type(ctx).__name__} has neither env_step nor train_iter to check")
        for name, count in counted.items():
            if count > limits[name]:
                logger.info("the task ends: %s is %d, above its limit %d", name, count, limits[name])
                current_task().finish = True

    return check


def ddp_termination_checker(
    max_env_step: int | None = None, max_train_iter: int | None = None, rank: int = 0
) -> Callable[[Context], None]:
    """Return a :func:`termination_checker` for several ranks, which all follow rank 0. Use it last.

    Args:
        rank: Rank of this process.
    """
    check = termination_checker(max_env_step, max_train_iter)

    def check_all(ctx: Context) -> None:
        task = current_task()
        if rank == 0:
            check(ctx)
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        finish = torch.tensor([int(task.finish)], device=device)
        torch.distributed.broadcast(finish, src=0)
        task.finish = bool(finish.item())

    return check_all
