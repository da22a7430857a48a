"""Descriptions of an element of an env: an observation, an action or a reward."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple


class EnvElementInfo(NamedTuple):
    """Shape and value range of an element.

    Attributes:
        shape: Shape, or nested shapes.
        value: ``{'min': ..., 'max': ..., 'dtype': ...}``, or nested dicts of this form.
    """

    shape: Any
    value: Any


class IEnvElement(ABC):
    """Interface of element descriptions."""

    @abstractmethod
    def __repr__(self) -> str:
        """Return a one-line description."""

    @property
    @abstractmethod
    def info(self) -> object:
        """Return the :class:`EnvElementInfo`."""


class EnvElement(IEnvElement):
    """Element whose subclass sets ``_shape``, ``_value`` and other fields in ``_init``.

    There is one object per class: descriptions hold no state of an env.
    """

    _instance: "EnvElement | None" = None
    _name = "EnvElement"
    _shape: Any
    _value: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> "EnvElement":
        if cls.__dict__.get("_instance") is None:
            cls._instance = super().__new__(cls)
        instance = cls._instance
        assert instance is not None
        return instance

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._init(*args, **kwargs)
        self._check()

    @abstractmethod
    def _init(self, *args: Any, **kwargs: Any) -> None:
        """Set the fields of the description."""

    def _check(self) -> None:
        missing = [name for name in ("_shape", "_value") if not hasattr(self, name)]
        if missing:
            raise AttributeError(f"{type(self).__name__}._init must set {' and '.join(missing)}")

    def __repr__(self) -> str:
        return f"{self._name}: {self._details()}"

    @abstractmethod
    def _details(self) -> str:
        """Return the details that distinguish this element."""

    @property
    def info(self) -> EnvElementInfo:
        """Return shape and value range."""
        return EnvElementInfo(shape=self._shape, value=self._value)
