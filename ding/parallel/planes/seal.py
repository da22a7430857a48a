"""The seal of what lies in a shared folder: who has no token of the run cannot make it.

A checksum shows what was damaged; a seal also shows what was forged by a peer that can write to the folder, but has
no token. It is an HMAC-SHA256 under a key that comes with each token of the run, over the name under which the bytes
lie and the bytes themselves, and stands behind them. A sealed file that is moved to another name is refused, too. What
a seal does not show: an older file of the same name that was put back.
"""

import hashlib
import hmac

from ding.parallel.planes.errors import BadFrame
from ding.utils.credentials import own_token, planes_key

SEAL_BYTES = hashlib.sha256().digest_size


class Seal:
    """Seals bytes, and opens what was sealed.

    Args:
        token: of the run, or of one of its workers; without one there are no seals, and everything passes.
    """

    def __init__(self, token: str | None = None) -> None:
        self._key = bytes.fromhex(planes_key(token)) if token else None

    @classmethod
    def of_this_process(cls) -> "Seal":
        """The seal of the run that this process belongs to, by the environment variable ``DING_RUN_TOKEN``."""
        return cls(own_token())

    @property
    def nbytes(self) -> int:
        """Number of bytes that it adds."""
        return 0 if self._key is None else SEAL_BYTES

    def close(self, name: str, frame: bytes) -> bytes:
        """Return the frame with its seal."""
        return frame if self._key is None else frame + self._of(name, frame)

    def open(self, name: str, sealed: bytes, seal_bytes: int = 0) -> bytes:
        """Return the frame without its seal.

        Args:
            name: under which it lies.
            sealed: the frame and the seal behind it.
            seal_bytes: without a token: size of the seal, which is then not checked.

        Raises:
            BadFrame: it is not the seal of this run and name.
        """
        if self._key is None:
            return sealed[: len(sealed) - seal_bytes]
        frame, seal = sealed[:-SEAL_BYTES], sealed[-SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._of(name, frame)):
            raise BadFrame("forged, or of another run: the seal is not that of the run's token")
        return frame

    def _of(self, name: str, frame: bytes) -> bytes:
        assert self._key is not None
        mac = hmac.new(self._key, len(name).to_bytes(4, "little") + name.encode(), hashlib.sha256)
        mac.update(frame)
        return mac.digest()
