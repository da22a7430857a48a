"""Restriction of middleware to certain roles in a parallel run."""

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ding.framework.task import VoidMiddleware, current_task

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def for_roles(*roles: str) -> Callable[[F], F]:
    """Make a factory or middleware class return a :class:`VoidMiddleware` in processes without these roles.

    A single-process run, and a process without any role, has all roles. Roles are checked when the factory is called,
    so call ``task.add_role`` before it.
    """

    def decorate(factory: F) -> F:
        if isinstance(factory, type):
            return cast(F, _made_where(cast(type[Any], factory), lambda: plays(*roles)))

        @functools.wraps(factory)
        def make(*args: Any, **kwargs: Any) -> object:
            return factory(*args, **kwargs) if plays(*roles) else VoidMiddleware()

        return make  # type: ignore[return-value]

    return decorate


def in_parallel(made: type[T]) -> type[T]:
    """Make a middleware class return a :class:`VoidMiddleware` in a single-process run, and where no role is set."""

    def has_roles() -> bool:
        task = current_task()
        if task.router.is_active and not task.roles:
            logger.warning("%s does nothing: this process has no role; call task.add_role before", made.__name__)
        return task.router.is_active and bool(task.roles)

    return _made_where(made, has_roles)


def between_processes(made: type[T]) -> type[T]:
    """Make a middleware class return a :class:`VoidMiddleware` in a single-process run, where nothing is exchanged."""
    return _made_where(made, lambda: current_task().router.is_active)


def _made_where(made: type[T], here: Callable[[], bool]) -> type[T]:
    """Make a class return a :class:`VoidMiddleware` where ``here`` is false; keep the signature of ``__init__``."""

    def new(cls: type, *args: Any, **kwargs: Any) -> object:
        return object.__new__(cls) if here() else VoidMiddleware()

    new.__wrapped__ = made.__init__  # type: ignore[attr-defined]
    made.__new__ = staticmethod(new)  # type: ignore[method-assign, assignment]
    return made


def plays(*roles: str) -> bool:
    """Return whether this process has one of the roles."""
    task = current_task()
    return not task.router.is_active or any(task.has_role(role) for role in roles)
