"""Which processes of a parallel run a middleware is for."""

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from ding.framework.task import VoidMiddleware, current_task

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def for_roles(*roles: str) -> Callable[[F], F]:
    """Let a factory, or a class of middleware, return a :class:`VoidMiddleware` in processes without these roles.

    A run of one process, and a process without any role, has all roles. The gate is looked at when the factory is
    called, so ``task.add_role`` comes before.
    """

    def decorate(factory: F) -> F:
        if isinstance(factory, type):

            def new(cls: type, *args: Any, **kwargs: Any) -> Any:
                return object.__new__(cls) if plays(*roles) else VoidMiddleware()

            # So that the signature of the class stays that of its constructor.
            new.__wrapped__ = factory.__init__  # type: ignore[attr-defined,misc]
            factory.__new__ = staticmethod(new)  # type: ignore[method-assign,assignment]
            return factory

        @functools.wraps(factory)
        def make(*args: Any, **kwargs: Any) -> Any:
            return factory(*args, **kwargs) if plays(*roles) else VoidMiddleware()

        return make  # type: ignore[return-value]

    return decorate


def in_parallel(made: type[T]) -> type[T]:
    """Let a class of middleware make a :class:`VoidMiddleware` in a run of one process, and where no role is set."""

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        task = current_task()
        if task.router.is_active and task.roles:
            return object.__new__(cls)
        if task.router.is_active:
            logger.warning("%s does nothing: this process has no role; call task.add_role before", cls.__name__)
        return VoidMiddleware()

    made.__new__ = staticmethod(new)  # type: ignore[method-assign]
    return made


def between_processes(made: type[T]) -> type[T]:
    """Let a class of middleware make a :class:`VoidMiddleware` in a run of one process, which exchanges nothing."""

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls) if current_task().router.is_active else VoidMiddleware()

    made.__new__ = staticmethod(new)  # type: ignore[method-assign]
    return made


def plays(*roles: str) -> bool:
    """Return whether this process has one of the roles."""
    task = current_task()
    return not task.router.is_active or any(task.has_role(role) for role in roles)
