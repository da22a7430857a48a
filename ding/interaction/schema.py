"""A small validator for messages: ``check(value, schema)`` returns the value, or says where it is wrong.

::

    schema = Record({"task": Record({"id": Identifier()})}, optional={"data": ObjectOf()})
    check({"task": {"id": "a1"}}, schema)                # returns it
    check({"task": {}}, schema)                          # SchemaError: body.task: the key 'id' is missing

A schema holds no state and may be shared. A record refuses keys that it does not know, unless ``extra=True``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ding.interaction.exception.base import SchemaError
from ding.utils.default_helper import did_you_mean


class Schema:
    """One kind of value. An own kind needs ``check`` only."""

    def check(self, value: Any, where: str) -> None:
        """Raise ``SchemaError`` unless ``value`` fits; ``where`` is its place in the message."""
        raise NotImplementedError


def check(value: Any, schema: Schema, where: str = "body") -> Any:
    """``value``, if it fits ``schema``.

    Raises:
        SchemaError: it does not; the message names the place and what was expected there.
    """
    schema.check(value, where)
    return value


def _expected(what: str, value: Any, where: str) -> SchemaError:
    return SchemaError(f"{where}: expected {what}, got {type(value).__name__}")


@dataclass(frozen=True)
class Anything(Schema):
    """Any JSON value."""

    def check(self, value: Any, where: str) -> None:
        """Accept ``value``."""


@dataclass(frozen=True)
class Text(Schema):
    """A text of at most ``max_length`` characters that matches the whole of ``pattern``, if there is one."""

    pattern: str | None = None
    max_length: int = 4096
    what: str = "a text"

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is such a text. The text itself is not repeated in the error: it may be hostile."""
        if not isinstance(value, str):
            raise _expected(self.what, value, where)
        if len(value) > self.max_length:
            raise SchemaError(f"{where}: expected at most {self.max_length} characters, got {len(value)}")
        if self.pattern is not None and re.fullmatch(self.pattern, value) is None:
            raise SchemaError(f"{where}: expected {self.what} that matches {self.pattern}")


@dataclass(frozen=True)
class Identifier(Text):
    """A name that is safe as a file name: 1 to 120 of ``A-Za-z0-9_.-``, and not dots alone."""

    pattern: str | None = r"(?!\.+$)[A-Za-z0-9_.\-]{1,120}"
    max_length: int = 120
    what: str = "an identifier"


@dataclass(frozen=True)
class Integer(Schema):
    """An integer (no bool) within the limits, both included."""

    minimum: int | None = None
    maximum: int | None = None

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is such an integer."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise _expected("an integer", value, where)
        _check_limits(value, self.minimum, self.maximum, where)


@dataclass(frozen=True)
class Number(Schema):
    """An integer or a float (no bool) within the limits, both included. NaN lies within no limits."""

    minimum: float | None = None
    maximum: float | None = None

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is such a number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _expected("a number", value, where)
        _check_limits(value, self.minimum, self.maximum, where)


def _check_limits(value: float, minimum: float | None, maximum: float | None, where: str) -> None:
    if minimum is not None and not value >= minimum:
        raise SchemaError(f"{where}: expected at least {minimum}")
    if maximum is not None and not value <= maximum:
        raise SchemaError(f"{where}: expected at most {maximum}")


@dataclass(frozen=True)
class Boolean(Schema):
    """True or False."""

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is a bool."""
        if not isinstance(value, bool):
            raise _expected("a boolean", value, where)


@dataclass(frozen=True)
class OneOf(Schema):
    """One of some texts or numbers."""

    values: Collection[Any]

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is one of them; the nearest known text is named."""
        if any(type(value) is type(known) and value == known for known in self.values):
            return
        hint = did_you_mean(value, [str(known) for known in self.values]) if isinstance(value, str) else ""
        raise SchemaError(f"{where}: expected one of {sorted(map(str, self.values))}.{hint}")


@dataclass(frozen=True)
class Nullable(Schema):
    """None, or what ``schema`` takes."""

    schema: Schema

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is None or fits."""
        if value is not None:
            self.schema.check(value, where)


@dataclass(frozen=True)
class ListOf(Schema):
    """A list of at most ``max_length`` items that all fit ``item``."""

    item: Schema = field(default_factory=Anything)
    max_length: int = 1_000_000

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is such a list; the first item that does not fit is named."""
        if not isinstance(value, list):
            raise _expected("a list", value, where)
        if len(value) > self.max_length:
            raise SchemaError(f"{where}: expected at most {self.max_length} items, got {len(value)}")
        if isinstance(self.item, Anything):
            return
        for position, item in enumerate(value):
            self.item.check(item, f"{where}[{position}]")


@dataclass(frozen=True)
class ObjectOf(Schema):
    """An object with any keys, whose values all fit ``value``."""

    value: Schema = field(default_factory=Anything)

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is such an object."""
        if not isinstance(value, Mapping):
            raise _expected("an object", value, where)
        if not isinstance(self.value, Anything):
            for key, child in value.items():
                self.value.check(child, f"{where}.{str(key)[:40]!r}")


@dataclass(frozen=True)
class Record(Schema):
    """An object with the keys of ``required``, perhaps those of ``optional``, and no others unless ``extra``."""

    required: Mapping[str, Schema]
    optional: Mapping[str, Schema] = field(default_factory=dict)
    extra: bool = False

    def check(self, value: Any, where: str) -> None:
        """Raise unless ``value`` is such an object; names the key that is missing, unknown or wrong."""
        if not isinstance(value, Mapping):
            raise _expected("an object", value, where)
        for key in self.required:
            if key not in value:
                raise SchemaError(f"{where}: the key {key!r} is missing")
        for key, child in value.items():
            schema = self.required.get(key) or self.optional.get(key)
            if schema is not None:
                schema.check(child, f"{where}.{key}")
            elif not self.extra:
                known = [*self.required, *self.optional]
                raise SchemaError(f"{where}: the key {str(key)[:40]!r} is unknown.{did_you_mean(str(key)[:40], known)}")
