"""Common design patterns, and a decorator for overriding methods."""

import threading
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, TypeVar

from easydict import EasyDict

F = TypeVar("F", bound=Callable[..., Any])


class SingletonMetaclass(type):
    """Give each class of this metaclass a single instance: ``Class()`` returns it, and so does ``Class.instance``
    afterwards.
    """

    instances: ClassVar[dict[type, Any]] = {}
    _making: ClassVar[threading.RLock] = threading.RLock()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        with SingletonMetaclass._making:
            if cls not in SingletonMetaclass.instances:
                SingletonMetaclass.instances[cls] = super().__call__(*args, **kwargs)
                cls.instance = SingletonMetaclass.instances[cls]
            return SingletonMetaclass.instances[cls]


class Configurable:
    """A class with a ``config`` dict of defaults.

    Subclasses define the whole dict; nothing is merged from their bases.
    """

    config: ClassVar[dict[str, Any]] = {}

    @classmethod
    def default_config(cls) -> EasyDict:
        """Return a fresh copy of the default config, with the key ``cfg_type``. Changing the copy never changes the
        class."""
        cfg = EasyDict(deepcopy(cls.config))
        cfg.cfg_type = cls.__name__ + "Dict"
        return cfg


def override(cls: type) -> Callable[[F], F]:
    """Mark a method as overriding one of ``cls``.

    Raises:
        NameError: ``cls`` has no such method.
    """

    def check(method: F) -> F:
        if method.__name__ not in dir(cls):
            raise NameError(f"{method.__name__} does not override a method of {cls.__name__}")
        return method

    return check
