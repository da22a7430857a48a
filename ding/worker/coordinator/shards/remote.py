"""Shard in a separate process: JSON messages over the control plane, authenticated with the token of the run.

Each request carries one message, and its response the answer. The buffer numbers its messages, and the shard keeps its
last answer, so that a request without an answer can be repeated. `RemoteShard` starts a new *life* of the shard, which
refuses messages of earlier lives (from a dead coordinator, or from a buffer that considered the process lost).
"""

import contextlib
import logging
import secrets
import threading
from typing import Any

from msgspec import Struct

from ding.interaction import InteractionError, TlsConfig
from ding.interaction.base.addresses import split_http_address
from ding.interaction.base.endpoint import Answer as HttpAnswer
from ding.interaction.base.endpoint import Call, ResponsibleException
from ding.interaction.base.guard import TokenGuard
from ding.interaction.base.service import HttpService
from ding.interaction.base.token import resolve_run_token
from ding.interaction.base.transport import Client, Transport
from ding.interaction.base.transports import resolve_transport
from ding.interaction.config import DEFAULT_SLAVE_PORT
from ding.interaction.exception.response import SlaveErrorCode, get_slave_exception_by_error
from ding.interaction.messages import Identifier, Json
from ding.utils.credentials import WorkerName
from ding.worker.coordinator.shards.messages import (
    Answer,
    Message,
    ShardLost,
    answer_of_json,
    message_of_json,
    to_json,
)
from ding.worker.coordinator.shards.shard import Shard, ShardSpec

log = logging.getLogger(__name__)

ROLE = "shard"
"""Role of a shard process, for tokens."""

_RETRY_PAUSE_S = 0.05
_CLOSE_TIMEOUT_S = 1.0


class Begin(Struct, forbid_unknown_fields=True):
    """``POST /shard/begin``: create an empty shard of a buffer; a shard of an earlier life is dropped."""

    life: Identifier
    spec: ShardSpec


class Ask(Struct, forbid_unknown_fields=True):
    """``POST /shard/ask``: process the message with this running number."""

    buffer: Identifier
    life: Identifier
    number: int
    message: dict[str, Any]


class End(Struct, forbid_unknown_fields=True):
    """``POST /shard/end``: the buffer was closed."""

    buffer: Identifier
    life: Identifier


class _Life:
    def __init__(self, name: str, shard: Shard) -> None:
        self.name = name
        self.shard = shard
        self.number = 0
        self.last: dict[str, Any] = {}


class ShardServer(HttpService):
    """Serves one shard of each buffer of a run to a coordinator.

    Args:
        host: Address to listen on, at a free port.
        run_token, transport, tls: See `HttpService`.
    """

    def __init__(
        self,
        host: str | None = None,
        *,
        run_token: str | None = None,
        transport: Transport | str | None = None,
        tls: TlsConfig | None = None,
    ) -> None:
        super().__init__(host, 0, DEFAULT_SLAVE_PORT, SlaveErrorCode, run_token=run_token, transport=transport, tls=tls)
        self._lives: dict[str, _Life] = {}
        self._lock = threading.Lock()
        #: Number of processed messages.
        self.asked = 0
        self._endpoint.add("POST", "/shard/begin", self._handle_begin, self._checks.alive)
        self._endpoint.add("POST", "/shard/ask", self._handle_ask, self._checks.alive, large=True)
        self._endpoint.add("POST", "/shard/end", self._handle_end)

    def _stop(self) -> None:
        with self._lock:
            for life in self._lives.values():
                life.shard.close()
            self._lives.clear()

    def _handle_begin(self, call: Call) -> HttpAnswer:
        body = call.body(Begin)
        with self._lock:
            former = self._lives.pop(body.spec.buffer_id, None)
            if former is not None:
                former.shard.close()
            self._lives[body.spec.buffer_id] = _Life(body.life, Shard(body.spec))
        return HttpAnswer()

    def _handle_ask(self, call: Call) -> HttpAnswer:
        body = call.body(Ask)
        with self._lock:
            life = self._found(body.buffer, body.life)
            if body.number == life.number:
                return HttpAnswer(data=life.last)
            if body.number != life.number + 1:
                raise _refusal(f"message {body.number} after message {life.number}")
            try:
                life.last = to_json(life.shard.ask(message_of_json(body.message)))
            except ValueError as error:
                raise _refusal(str(error)) from error
            life.number = body.number
            self.asked += 1
            return HttpAnswer(data=life.last)

    def _handle_end(self, call: Call) -> HttpAnswer:
        body = call.body(End)
        with self._lock:
            self._found(body.buffer, body.life).shard.close()
            del self._lives[body.buffer]
        return HttpAnswer()

    def _found(self, buffer: str, name: str) -> _Life:
        life = self._lives.get(buffer)
        if life is None or life.name != name:
            raise _refusal(f"the shard of {buffer!r} has another life")
        return life


def _refusal(text: str) -> ResponsibleException:
    return ResponsibleException(SlaveErrorCode.TASK_REFUSED, text, status_code=409)


class RemoteShard:
    """Connection to a new, empty shard in another process.

    Args:
        spec: Spec of the shard.
        name, address: Name and address (``http://host:port``) of that process.
        patience_s: Seconds to wait for an answer.
        run_token, tls, transport: See `HttpService`; the token of the process is derived from ``run_token``.

    Raises:
        ShardLost: There is no answer.
    """

    remote = True

    def __init__(
        self,
        spec: ShardSpec,
        name: str,
        address: str,
        patience_s: float,
        *,
        run_token: str | None = None,
        tls: TlsConfig | None = None,
        transport: Transport | str | None = None,
    ) -> None:
        guard = TokenGuard(resolve_run_token(run_token))
        if guard.keys is not None:
            # The process knows only its own token.
            guard.keys.enrol(WorkerName(ROLE, name))
        wire = resolve_transport(transport, tls).open(*split_http_address(address))
        headers = guard.headers(name)
        self._client = Client(wire, headers, get_slave_exception_by_error, 1, _RETRY_PAUSE_S)
        self._name = name
        self._patience_s = patience_s / 2
        self._own = {"buffer": spec.buffer_id, "life": secrets.token_hex(8)}
        self._number = 0
        self._lost = False
        try:
            self._post("begin", Begin(self._own["life"], spec), self._patience_s)
        except ShardLost:
            self._client.close()
            raise

    def ask(self, message: Message) -> Answer:
        """See `ShardLink.ask`."""
        self._number += 1
        body = {**self._own, "number": self._number, "message": to_json(message)}
        data = self._post("ask", body, self._patience_s)
        try:
            return answer_of_json(data)
        except ValueError as error:
            raise ShardLost(f"{self._name} gave no answer that can be read: {error}") from error

    def close(self) -> None:
        """See `ShardLink.close`. A lost process is not awaited: its next life replaces this one."""
        if not self._lost:
            with contextlib.suppress(ShardLost):
                self._post("end", self._own, _CLOSE_TIMEOUT_S, retries=0)
        self._client.close()

    def _post(self, what: str, body: object, timeout_s: float, retries: int | None = None) -> Json:
        try:
            return self._client.request("POST", f"/shard/{what}", body, retries=retries, timeout_s=timeout_s).data
        except (InteractionError, ValueError) as error:
            self._lost = True
            raise ShardLost(f"{self._name}: {error}") from error
