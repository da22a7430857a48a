"""Who gets in: the token of requests, as `ding.utils.credentials` has it."""

from __future__ import annotations

from collections.abc import Mapping

from ding.interaction.base.endpoint import ResponsibleException
from ding.interaction.exception.response import ProtocolErrorCode
from ding.utils.credentials import Keys, WorkerName

_SCHEME = "Bearer"


class TokenGuard:
    """Checks the token of requests, and makes the headers of the own ones; without a run token everyone passes."""

    def __init__(self, run_token: str | None) -> None:
        #: What is accepted, and shown to whom.
        self.keys = None if run_token is None else Keys(run_token)

    def check(self, authorization: str | None) -> WorkerName | None:
        """See `Guard.check`."""
        accepted = self._accept(authorization)
        if not accepted and not authorization:
            raise ResponsibleException(
                ProtocolErrorCode.RUN_TOKEN_NOT_GIVEN, "The request has no run token.", status_code=401
            )
        if not accepted:
            raise ResponsibleException(
                ProtocolErrorCode.RUN_TOKEN_INVALID, "The run token is not that of this run.", status_code=403
            )
        return accepted if isinstance(accepted, WorkerName) else None

    def _accept(self, authorization: str | None) -> WorkerName | bool:
        if self.keys is None:
            return True
        scheme, _, sent = (authorization or "").partition(" ")
        return scheme == _SCHEME and self.keys.accept(sent)

    def headers(self, enrolled: str | None = None) -> Mapping[str, str]:
        """What a client adds to its requests; with the name, to a process that enrolled under it."""
        return {} if self.keys is None else {"Authorization": f"{_SCHEME} {self.keys.shown_to(enrolled)}"}
