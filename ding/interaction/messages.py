"""The messages between masters and slaves, each as a type; both sides build and read them with it.

``convert(loads(body), Enrol)`` is an ``Enrol``, or a ``SchemaError`` that names the field and what was expected there.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from ding.interaction.errors import SchemaError

Identifier = Annotated[str, Meta(pattern=r"^(?!\.+$)[A-Za-z0-9_.\-]{1,120}\Z")]
"""A name that is safe as a file name: 1 to 120 of ``A-Za-z0-9_.-``, and not dots alone."""

Address = Annotated[str, Meta(max_length=512)]
"""``http://host:port``, or ``https``."""


class AnswerBody(Struct):
    """The body of every answer; ``code`` is 0 exactly when ``success``."""

    success: bool = True
    code: int = 0
    message: str | None = ""
    data: Any = None


class Peer(Struct):
    """The master that connects."""

    address: Address


class Connect(Struct):
    """``POST /connect`` of a slave."""

    master: Peer
    data: Any = None


class Disconnect(Struct):
    """``DELETE /disconnect`` of a slave."""

    data: Any = None


class TaskName(Struct):
    """Which task."""

    id: Identifier


class NewTask(Struct):
    """``POST /task/new`` of a slave."""

    task: TaskName
    data: Any = None


class Process(Struct, forbid_unknown_fields=True):
    """Which process of a worker."""

    incarnation: Identifier | None = None


class Result(Struct):
    """``PUT /slave/task/complete`` and ``PUT /slave/task/fail`` of a master."""

    task: TaskName
    result: Any = None
    message: Annotated[str, Meta(max_length=1_000_000)] = ""
    worker: Process = msgspec.field(default_factory=Process)


class Enrol(Struct, forbid_unknown_fields=True):
    """``POST /slave/enrol`` of a master: a worker announces itself."""

    name: Identifier
    role: Identifier
    address: Address
    incarnation: Identifier
    resource: dict[str, Any] = {}


MessageT = TypeVar("MessageT")


def convert(value: object, kind: type[MessageT], where: str = "body") -> MessageT:
    """``value``, decoded JSON, as a ``kind``: a message, or any type that ``msgspec`` knows.

    Raises:
        SchemaError: it is none; the message names the field (``$`` stands for ``where``) and what was expected.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise SchemaError(f"{where}: {str(error)[:300]}") from error
