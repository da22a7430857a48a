"""Messages between masters and slaves as types, and their JSON encoding.

Both sides use these types: ``convert(loads(body), Enrol)`` is an ``Enrol``, or a ``SchemaError`` that names the field
and what was expected there.

The JSON is UTF-8, without ``NaN`` or ``Infinity`` literals, of bounded nesting. Non-finite floats are encoded as
``{"$float": "inf"}`` (or ``"-inf"``, ``"nan"``), because configs contain many infinite limits. Numpy scalars and arrays
and torch tensors are encoded as plain numbers and lists, messages as objects.
"""

import json
import math
import os
import re
from typing import Annotated, Any, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from ding.interaction.config import MAX_JSON_DEPTH, MAX_JSON_SIGNS
from ding.interaction.errors import SchemaError, WireError

Identifier = Annotated[str, Meta(pattern=r"^(?!\.+$)[A-Za-z0-9_.\-]{1,120}\Z")]
"""A name that is safe as a file name: 1 to 120 of ``A-Za-z0-9_.-``, and not dots alone."""

Json: TypeAlias = Any
"""A value of a JSON body: ``None``, a bool, a number, a text, or lists and dicts of them."""

Address = Annotated[str, Meta(max_length=512)]
"""An address ``http://host:port``, or ``https``."""


class AnswerBody(Struct):
    """The body of every answer; ``code`` is 0 exactly when ``success``."""

    success: bool = True
    code: int = 0
    message: str | None = ""
    data: Any = None


class Peer(Struct):
    """Address and token of the connecting master."""

    address: Address


class Connect(Struct):
    """``POST /connect`` of a slave."""

    master: Peer
    data: Any = None


class Disconnect(Struct):
    """``DELETE /disconnect`` of a slave."""

    data: Any = None


class TaskName(Struct):
    """Id of a task."""

    id: Identifier


class NewTask(Struct):
    """``POST /task/new`` of a slave."""

    task: TaskName
    data: Any = None


class Process(Struct, forbid_unknown_fields=True):
    """Identity of a worker's process."""

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


class Scale(Struct, forbid_unknown_fields=True):
    """``POST /scale`` of a master: the number of collectors of the run."""

    collectors: Annotated[int, Meta(ge=1, le=10_000)]


MessageT = TypeVar("MessageT")


def convert(value: object, kind: type[MessageT], where: str = "body") -> MessageT:
    """Convert ``value``, decoded JSON, to a ``kind``: a message, or any type supported by ``msgspec``.

    Raises:
        SchemaError: It does not fit; the message names the field (``$`` stands for ``where``) and the expected value.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise SchemaError(f"{where}: {str(error)[:300]}") from error


_FLOAT_KEY = "$float"
_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
# A string, closed or truncated, so that no body restarts the search.
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
# Opening brackets as 0, closing ones as 1; all else is dropped.
_NESTING = bytes.maketrans(b"[{]}", b"\0\0\1\1")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_NO_STRUCTURE = bytes(set(range(256)) - set(b'[{,"'))


def dumps(value: object) -> bytes:
    """Return ``value`` as compact JSON.

    Raises:
        WireError: A part has no JSON form, or the value contains itself.
    """
    try:
        try:
            text = json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain)
        except ValueError:
            text = json.dumps(_tagged(value), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"a {type(value).__name__} cannot be sent as JSON: {error}") from error
    return text.encode("utf-8")


def loads(body: bytes, max_depth: int = MAX_JSON_DEPTH) -> Json:
    """Return the value of a JSON body.

    Raises:
        WireError: The body is not strict JSON in UTF-8, nests deeper than ``max_depth``, or has too many values.
    """
    _check_structure(body, max_depth)
    try:
        text = body.decode("utf-8")
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_hook=_untagged if _FLOAT_KEY in text else None,
        )
    except (ValueError, RecursionError) as error:
        raise WireError(f"the body is no JSON: {type(error).__name__}") from error


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return asdict(value)
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        return to_list()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _tagged(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else {_FLOAT_KEY: str(float(value))}
    if isinstance(value, dict):
        return {key: _tagged(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tagged(child) for child in value]
    if value is None or isinstance(value, (str, int)):
        return value
    return _tagged(_plain(value))


def _untagged(value: dict[str, Any]) -> float | dict[str, Any]:
    if len(value) == 1:
        name = value.get(_FLOAT_KEY)
        if isinstance(name, str) and name in _NON_FINITE:
            return _NON_FINITE[name]
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number overflows")
    return number


def _check_structure(body: bytes, max_depth: int) -> None:
    """Refuse bodies that would take long to decode, in time linear in the length of the body."""
    structure = body.translate(None, _NO_STRUCTURE)
    if len(structure) > MAX_JSON_SIGNS:
        raise WireError(f"the body has too many values: more than {MAX_JSON_SIGNS} brackets, commas and quotes")
    if structure.count(b"[") + structure.count(b"{") <= max_depth:
        return
    depth = 0
    for bracket in _STRINGS.sub(b"", body).translate(_NESTING, _NO_BRACKETS):
        depth += 1 - 2 * bracket
        if depth > max_depth:
            raise WireError(f"the body nests deeper than {max_depth} levels")


class Response(Protocol):
    """An HTTP answer: of ``HttpEngine``, of ``requests``, or of another client."""

    status_code: Any
    content: Any


class ResponseValues(NamedTuple):
    """``(status_code, success, code, message, data)``; ``code`` is 0 exactly when ``success``."""

    status_code: int
    success: bool
    code: int
    message: str
    data: Any

    @classmethod
    def from_body(cls, status_code: int, body: bytes) -> "ResponseValues":
        """From a body ``{"success", "code", "message", "data"}``.

        Raises:
            ValueError: the body is not the JSON object that the protocol asks for.
        """
        answer = convert(loads(body), AnswerBody, "answer")
        return cls(status_code, answer.success and status_code < 400, answer.code, answer.message or "", answer.data)


def get_values_from_response(response: Any) -> ResponseValues:
    """Return the values of an answer of an HTTP client, or of a Flask test client.

    Raises:
        ValueError: the body is not the JSON object that the protocol asks for.
    """
    body = response.content if hasattr(response, "content") else response.get_data()
    return ResponseValues.from_body(int(response.status_code), body)
