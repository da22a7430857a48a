"""What the handlers of masters and slaves check before they look at a body."""

from __future__ import annotations

import re
import threading

from ding.interaction.base.app import ResponsibleException
from ding.interaction.base.common import random_token
from ding.interaction.base.endpoint import Call
from ding.interaction.base.token import same_token
from ding.interaction.exception.response import MasterErrorCode, SlaveErrorCode

_CHANNEL = re.compile(r"-?[0-9]{1,9}")


class Checks:
    """Raise ``ResponsibleException`` with the code that a master (or a slave) gives to the error.

    Arguments:
        codes: the codes of the own side.
        channel: what the requests of the other side must name.
    """

    def __init__(self, codes: type[MasterErrorCode] | type[SlaveErrorCode], channel: int) -> None:
        self._codes = codes
        self._missing = "NOT_GIVEN" if codes is MasterErrorCode else "NOT_FOUND"
        self._peer = "SLAVE" if codes is MasterErrorCode else "MASTER"
        self._channel = channel
        #: The token of requests that only the service itself may make.
        self.self_token = random_token()
        self.shutting_down = threading.Event()

    def alive(self) -> None:
        """The service does not shut down."""
        if self.shutting_down.is_set():
            raise self._error("SYSTEM_SHUTTING_DOWN", "The service is shutting down.", 401)

    def peer(self, call: Call) -> str:
        """The request is for this channel and has a connection token; returns the token."""
        self.channel(call)
        token = call.header("Token")
        if not token:
            raise self._error(f"{self._peer}_TOKEN_{self._missing}", "The request has no connection token.", 400)
        return token

    def channel(self, call: Call) -> None:
        """The service is alive, and the request is for this channel."""
        self.alive()
        text = call.header("Channel")
        if text is None:
            raise self._error(f"CHANNEL_{self._missing}", "The request has no channel.", 400)
        if _CHANNEL.fullmatch(text) is None:
            raise self._error("CHANNEL_INVALID", "The channel is no integer.", 400)
        if int(text) != self._channel:
            raise self._error("CHANNEL_INVALID", "The channel is another one.", 403)

    def own(self, call: Call) -> None:
        """The service is alive, and the request is its own."""
        self.alive()
        token = call.header("Token")
        if not token:
            raise self._error(f"SELF_TOKEN_{self._missing}", "The request has no token.", 400)
        if not same_token(token, self.self_token):
            raise self._error("SELF_TOKEN_INVALID", "The token is wrong.", 403)

    def _error(self, name: str, text: str, status: int) -> ResponsibleException:
        return ResponsibleException(self._codes[name], text, status_code=status)
