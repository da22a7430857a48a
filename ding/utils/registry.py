"""Registries: dicts from the ``type`` strings of a config to classes.

Exceptions::

    KeyError
    └── UnknownNameError      the name is not registered; the message has the nearest known one
    AssertionError            (the public contract of DI-engine)
    └── DuplicateNameError    the name is taken and ``force_overwrite`` was not given
"""

import importlib
import inspect
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ding.utils.errors import UserMistake
from ding.utils.import_helper import import_module
from ding.utils.names import did_you_mean, listed
from ding.utils.original_names import missing_type

log = logging.getLogger(__name__)
if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_values

T = TypeVar("T")
_MISSING = object()


class UnknownNameError(KeyError, UserMistake):
    """A name that is not registered. ``str()`` is the plain message, without the quotes of ``KeyError``."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class DuplicateNameError(AssertionError):
    """A name is registered twice without ``force_overwrite=True``."""


class _Lazy:
    """An entry ``"pkg.mod:Class"`` that is imported at the first look-up."""

    __slots__ = ("attribute", "module")

    def __init__(self, target: str) -> None:
        module, colon, attribute = target.partition(":")
        if not (module and colon and attribute):
            raise ValueError(f"a lazy registry entry is 'package.module:Name', got {target!r}")
        self.module = module
        self.attribute = attribute

    def load(self) -> object:
        obj = importlib.import_module(self.module)
        for part in self.attribute.split("."):
            obj = getattr(obj, part)
        return obj

    def names(self, obj: object) -> bool:
        """Return whether this entry refers to ``obj``, by module and qualified name, without importing."""
        same_module = getattr(obj, "__module__", None) == self.module
        return same_module and getattr(obj, "__qualname__", None) == self.attribute


class Registry(dict[str, Any]):
    """A dict from names to classes or functions; ``in``, ``len`` and iteration over the names work as usual.

    Values may be registered lazily as ``"pkg.mod:Class"``; they are imported at the first look-up. ``register`` is
    thread-safe; look-ups take no lock.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = "registry"
        self._sites: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()

    @classmethod
    def named(cls, name: str) -> "Registry":
        """Create an empty registry that error messages call ``name``."""
        registry = cls()
        registry.name = name
        return registry

    @overload
    def register(
        self, module_name: str | None = None, module: None = None, force_overwrite: bool = False
    ) -> Callable[[T], T]: ...

    @overload
    def register(self, module_name: str | None, module: object, force_overwrite: bool = False) -> None: ...

    def register(
        self, module_name: str | None = None, module: object = None, force_overwrite: bool = False
    ) -> Callable[[T], T] | None:
        """Register ``module`` (an object, or a lazy ``"pkg.mod:Class"``), or return a decorator that registers.

        Args:
            module_name: Name to register; the decorator defaults to the object's ``__name__``.
            module: Object to register; ``None`` returns a decorator.
            force_overwrite: Allow a name that is already taken; the override is logged as a warning.

        Raises:
            DuplicateNameError: the name is taken (an ``AssertionError``).
            AssertionError: ``module`` was given without a name.
        """
        if module is not None:
            if module_name is None:
                raise AssertionError(f"{self.name}: registering an object directly needs a name")
            self._add(module_name, module, force_overwrite, _caller_site())
            return None

        def decorate(obj: T) -> T:
            name = module_name if module_name is not None else cast(Any, obj).__name__
            self._add(name, obj, force_overwrite, _caller_site())
            return obj

        return decorate

    def _add(self, name: str, obj: object, force: bool, site: tuple[str, int]) -> None:
        entry = _Lazy(obj) if isinstance(obj, str) else obj
        with self._lock:
            if dict.__contains__(self, name):
                old = dict.__getitem__(self, name)
                # A lazy entry may be replaced silently by the class it refers to, and a class by itself when its file
                # runs again
                # (a notebook cell, a config that is read twice).
                again = _is_same_site(self._sites.get(name), site) and _qualified(old) == _qualified(obj) is not None
                if not (again or (isinstance(old, _Lazy) and old.names(obj))):
                    if not force:
                        where = "{}:{}".format(*self._sites.get(name, ("?", 0)))
                        raise DuplicateNameError(
                            f"{self.name}: {name!r} is registered already (at {where}); "
                            "pass force_overwrite=True to replace it"
                        )
                    log.warning("%s: %r is overridden by %r", self.name, name, obj)
            dict.__setitem__(self, name, entry)
            self._sites[name] = site

    def __getitem__(self, name: Any) -> Any:
        try:
            entry = dict.__getitem__(self, name)
        except KeyError:
            text = missing_type(self.name, name) or f"{name!r} is not registered.{did_you_mean(name, self)}"
            raise UnknownNameError(f"{self.name}: {text}") from None
        if not isinstance(entry, _Lazy):
            return entry
        obj = entry.load()
        with self._lock:
            if dict.__getitem__(self, name) is entry:
                dict.__setitem__(self, name, obj)
        return obj

    def get(self, module_name: str, default: object = _MISSING) -> Any:
        """Return the registered object. Unlike ``dict.get``, an unknown name without a default is an error.

        Raises:
            UnknownNameError: the name is not registered (a ``KeyError``).
        """
        if default is not _MISSING and not dict.__contains__(self, module_name):
            return default
        return self[module_name]

    def values(self) -> "dict_values[str, Any]":
        """Return the objects; lazy ones are imported."""
        return {name: self[name] for name in self}.values()

    def items(self) -> "dict_items[str, Any]":
        """Names and objects; lazy ones are imported."""
        return {name: self[name] for name in self}.items()

    def build(self, obj_type: str, *obj_args: Any, **obj_kwargs: Any) -> Any:
        """Look up ``obj_type`` and call it with the other arguments.

        Raises:
            UnknownNameError: the name is not registered. Errors of the call itself propagate unchanged.
        """
        factory = self[obj_type]
        try:
            return factory(*obj_args, **obj_kwargs)
        except TypeError:
            self._hint_at_signature(obj_type, factory, obj_args, obj_kwargs)
            raise

    def type_of(self, cfg: Mapping[str, Any], missing: type[Exception] = KeyError) -> str:
        """Import the modules ``cfg["import_names"]``, which may register the type, and return ``cfg["type"]``.

        Args:
            cfg: a section of a config; ``import_names`` is optional.
            missing: Exception class raised if there is no ``type``.

        Raises:
            KeyError: There is no ``type``; the message lists the registered names and the keys of ``cfg``.
        """
        import_module(cfg.get("import_names") or [])
        if "type" not in cfg:
            keys = sorted(map(str, cfg))
            raise missing(f"{self.name}.type is missing: one of {listed(self)}; the config has the keys {keys}")
        name: str = cfg["type"]
        return name

    def class_of(self, cfg: Mapping[str, Any], missing: type[Exception] = KeyError) -> type:
        """Return the class that ``cfg["type"]`` names, after importing ``cfg["import_names"]``.

        Raises:
            KeyError: ``type`` is missing (``missing`` is raised in its place), or it is not registered
                (:class:`UnknownNameError`).
        """
        found: type = self[self.type_of(cfg, missing)]
        return found

    def create(self, cfg: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Build the class that ``cfg["type"]`` names with ``cfg`` and the other arguments; raises like
        :meth:`class_of`."""
        return self.build(self.type_of(cfg), cfg, *args, **kwargs)

    def _hint_at_signature(
        self, name: str, factory: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, Any]
    ) -> None:
        """Log the expected signature if the arguments were wrong."""
        try:
            signature = inspect.signature(factory)
        except (TypeError, ValueError):  # builtins have none
            return
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            log.error("%s: %r takes %s%s", self.name, name, getattr(factory, "__name__", factory), signature)

    def name_of(self, obj: object) -> str | None:
        """Return the first name under which ``obj`` is registered, or None. Imports nothing."""
        for name, entry in dict.items(self):
            if entry is obj or (isinstance(entry, _Lazy) and entry.names(obj)):
                return name
        return None

    def query(self) -> Iterable[str]:
        """Return the registered names."""
        return self.keys()

    def query_details(self, aliases: Iterable[str] | None = None) -> OrderedDict[str, tuple[str, int]]:
        """Where each name was registered: name -> (file, line).

        Args:
            aliases: Names to look up; all by default.

        Raises:
            UnknownNameError: one of ``aliases`` is not registered.
        """
        details: OrderedDict[str, tuple[str, int]] = OrderedDict()
        for alias in self if aliases is None else aliases:
            if not dict.__contains__(self, alias):
                raise UnknownNameError(f"{self.name}: {alias!r} is not registered.{did_you_mean(alias, self)}")
            details[alias] = self._sites.get(alias, ("?", 0))
        return details


def _qualified(obj: object) -> str | None:
    return getattr(obj, "__qualname__", None)


def _caller_site() -> tuple[str, int]:
    """Return file and line of the code that called the registry function, skipping `register_lazily`."""
    frame = sys._getframe(2)
    if frame.f_code.co_name == "register_lazily" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _is_same_site(one: tuple[str, int] | None, other: tuple[str, int]) -> bool:
    """Return whether two sites are the same; a file may be run by its relative and its absolute path."""
    if one is None or one[1] != other[1]:
        return False
    return one[0] == other[0] or os.path.abspath(one[0]) == os.path.abspath(other[0])
