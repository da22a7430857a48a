"""Seals of shared files, which cannot be created without a token of the run.

A checksum detects damage; a seal also detects forgery by a peer that can write to the folder but has no token. It is an
HMAC-SHA256 of the file name and its bytes, under a key that comes with each token of the run, and is appended to the
bytes. A sealed file under another name is rejected, too. A seal does not detect the restoration of an older file of the
same name.
"""

import hashlib
import hmac

from ding.parallel.planes.errors import BadFrame
from ding.utils.credentials import own_token, planes_key

SEAL_BYTES = hashlib.sha256().digest_size


class Seal:
    """Seals bytes, and verifies sealed bytes.

    Args:
        token: Token of the run or of one of its workers; without one, nothing is sealed and every file is accepted.
    """

    def __init__(self, token: str | None = None) -> None:
        self._key = bytes.fromhex(planes_key(token)) if token else None

    @classmethod
    def of_this_process(cls) -> "Seal":
        """Return the seal of this process's run, from the environment variable ``DING_RUN_TOKEN``."""
        return cls(own_token())

    @property
    def nbytes(self) -> int:
        """Size of a seal in bytes."""
        return 0 if self._key is None else SEAL_BYTES

    def close(self, name: str, frame: bytes) -> bytes:
        """Return the frame with its seal."""
        return frame if self._key is None else frame + self._of(name, frame)

    def open(self, name: str, sealed: bytes, seal_bytes: int = 0) -> bytes:
        """Verify the seal and return the frame without it.

        Args:
            name: File name of the frame.
            sealed: Frame with the seal appended.
            seal_bytes: Size of the seal if there is no token; the seal is then not verified.

        Raises:
            BadFrame: The seal does not match the run and the name.
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
