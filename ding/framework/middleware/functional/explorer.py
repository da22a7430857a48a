"""Exploration: epsilon of a collecting policy."""

from collections.abc import Callable, Iterator
from typing import Any

from easydict import EasyDict

from ding.framework.context import OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.task import Role
from ding.policy.common_utils import epsilon_schedule

NEVER_EXPLORE = -1


@for_roles(Role.COLLECTOR)
def eps_greedy_handler(cfg: EasyDict) -> Callable[[OnlineRLContext], Iterator[Any]]:
    """Return a middleware that sets ``ctx.collect_kwargs['eps']`` from ``ctx.env_step``, and removes it at the end.

    Args:
        cfg: ``policy.other.eps`` has ``start``, ``end``, ``decay`` (env steps) and ``type`` (``exp`` or ``linear``).

    Raises:
        PolicyConfigError: ``start``, ``end`` or ``decay`` is missing.
    """
    epsilon_at = epsilon_schedule(cfg.policy)

    def set_epsilon(ctx: OnlineRLContext) -> Iterator[Any]:
        ctx.collect_kwargs["eps"] = epsilon_at(ctx.env_step)
        yield
        ctx.collect_kwargs.pop("eps", None)

    return set_epsilon


def eps_greedy_masker() -> Callable[[OnlineRLContext], None]:
    """Return a middleware that disables exploration for the middleware after it, e.g. an expert."""

    def mask_epsilon(ctx: OnlineRLContext) -> None:
        ctx.collect_kwargs["eps"] = NEVER_EXPLORE

    return mask_epsilon
