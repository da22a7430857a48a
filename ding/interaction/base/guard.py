"""Authentication of requests with the tokens of `ding.utils.credentials`."""

from __future__ import annotations

from collections.abc import Mapping

from ding.interaction.base.endpoint import ResponsibleException
from ding.interaction.exception.response import ProtocolErrorCode
from ding.utils.credentials import Keys, WorkerName

_SCHEME = "Bearer"


class TokenGuard:
    """Check the token of requests, and create the headers of own requests; without a run token every request passes."""

    def __init__(self, run_token: str | None) -> None:
        #: Accepted tokens, and the token shown to each peer.
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
        """Return the headers that a client adds to its requests; with a name, for a process enrolled under it."""
        return {} if self.keys is None else {"Authorization": f"{_SCHEME} {self.keys.shown_to(enrolled)}"}
