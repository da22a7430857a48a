"""Weight plane in a folder, with one file per version and a pointer to the newest."""

import contextlib
import errno
import json
import logging
import os
import re
import threading
import zlib
from collections.abc import Mapping
from typing import Any

from ding.parallel.planes.data_plane import check_id
from ding.parallel.planes.errors import BadFrame, storage_error
from ding.parallel.planes.file import files
from ding.parallel.planes.frames import pack, unpack
from ding.parallel.planes.looking import Looking
from ding.parallel.planes.protocols import Weights, check_version
from ding.parallel.planes.seal import SEAL_BYTES, Seal

logger = logging.getLogger(__name__)

_POINTER = "newest.json"
_MAX_POINTER_BYTES = 4096
_WEIGHTS = re.compile(r"weights_[0-9]{1,19}-[0-9a-f]{8}\.safetensors")


class FileWeightPlane:
    """:class:`~ding.parallel.planes.WeightPlane` in the folder ``<root>/<policy_id>``.

    A version is a file ``weights_<version>-<checksum>.safetensors``; ``newest.json`` names the newest one and is
    replaced after that file is complete, so a reader gets either the previous version or the new one. The last few
    versions are kept for readers that still use them. Only one publisher at a time is allowed.

    :meth:`hint` wakes a waiting reader; call it when a new version is known. Otherwise the reader polls the pointer
    every ``look_interval_s``.

    Args:
        root: Folder of all policies, created if missing.
        policy_id: Plain name of the policy.
        keep_versions: Number of versions to keep, at least 1.
        look_interval_s: Poll interval in seconds.
        seal: Seal of the versions; by default that of the run of this process.

    Raises:
        BadId: ``policy_id`` is not a plain name.
        StorageError: The folder cannot be created. For a read-only folder only :meth:`publish` raises it.
    """

    def __init__(
        self,
        root: "str | os.PathLike[str]",
        policy_id: str,
        keep_versions: int = 3,
        look_interval_s: float = 0.05,
        seal: "Seal | None" = None,
    ) -> None:
        if keep_versions < 1:
            raise ValueError(f"keep_versions must be at least 1, found {keep_versions}")
        self._folder = os.path.join(os.path.realpath(root), check_id(policy_id, "a policy id"))
        self._policy_id, self._seal = policy_id, Seal.of_this_process() if seal is None else seal
        self._keep_versions = keep_versions
        self._publishing = threading.Lock()
        self._looking = Looking(look_interval_s)
        self._broken: str | None = None
        self.broken_versions = 0
        try:
            os.makedirs(self._folder, exist_ok=True)
            files.remove_stale(self._folder)
        except OSError as error:
            # Readers need no write permission: on the collectors' machines the policies may be mounted read-only.
            if error.errno != errno.EROFS:
                raise storage_error(error, self._folder) from error

    @property
    def folder(self) -> str:
        """Absolute path of the folder."""
        return self._folder

    # ------------------------------------------------------------------ publishing

    def publish(self, state: "Mapping[str, Any]", version: int, meta: "Mapping[str, Any] | None" = None) -> None:
        """See :meth:`WeightPlane.publish <ding.parallel.planes.WeightPlane.publish>`."""
        check_version(version)
        with self._publishing:
            frame = pack(dict(state), "weights", meta)
            crc = zlib.crc32(frame)
            name = f"weights_{version:010d}-{crc:08x}.safetensors"
            sealed = self._seal.close(f"{self._policy_id}/{version}", frame)
            seal_bytes = len(sealed) - len(frame)
            pointer = {"version": version, "file": name, "bytes": len(sealed), "crc": crc, "seal_bytes": seal_bytes}
            try:
                os.makedirs(self._folder, exist_ok=True)
                files.write_whole(self._folder, name, sealed)
                files.write_whole(self._folder, _POINTER, json.dumps(pointer).encode())
                self._remove_old(name)
            except OSError as error:
                raise storage_error(error, self._folder) from error
        self.hint()

    def _remove_old(self, newest: str) -> None:
        entries = []
        with os.scandir(self._folder) as found:
            for entry in found:
                if _WEIGHTS.fullmatch(entry.name) and entry.name != newest:
                    with contextlib.suppress(FileNotFoundError):
                        entries.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
        for _, path in sorted(entries)[: max(len(entries) + 1 - self._keep_versions, 0)]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    # ------------------------------------------------------------------ reading

    def newest(self) -> "int | None":
        """See :meth:`WeightPlane.newest <ding.parallel.planes.WeightPlane.newest>`."""
        pointer = self._read_pointer()
        return None if pointer is None else pointer["version"]

    def fetch(self, newer_than: int = -1, timeout_s: float = 0.0) -> "Weights | None":
        """See :meth:`WeightPlane.fetch <ding.parallel.planes.WeightPlane.fetch>`.

        A broken version is skipped until the next one is published; it is counted in ``broken_versions`` and logged
        once.
        """
        return self._looking.until_found(lambda: self._read_newest(newer_than), timeout_s)

    def hint(self) -> None:
        """See :meth:`WeightPlane.hint <ding.parallel.planes.WeightPlane.hint>`."""
        self._looking.hint()

    def close(self) -> None:
        """See :meth:`WeightPlane.close <ding.parallel.planes.WeightPlane.close>`."""
        self._looking.close()

    def _read_newest(self, newer_than: int) -> "Weights | None":
        pointer = self._read_pointer()
        while pointer is not None and pointer["version"] != newer_than and pointer["file"] != self._broken:
            path = os.path.join(self._folder, pointer["file"])
            try:
                # A reader without a token, such as a script after the run, cannot verify the seal; it reads the data
                # before it.
                seal_bytes = self._seal.nbytes or pointer.get("seal_bytes", 0)
                sealed = files.read_frame(path, "weights", pointer["bytes"], seal_bytes)
                frame = self._seal.open(f"{self._policy_id}/{pointer['version']}", sealed, seal_bytes)
                return Weights(pointer["version"], *unpack(frame, "weights", pointer["crc"]))
            except (FileNotFoundError, BadFrame) as error:
                again = self._read_pointer()
                if again != pointer:
                    # A newer version was published while this one was being read.
                    pointer = again
                    continue
                self._note_broken(pointer["file"], error)
                return None
            except OSError as error:
                raise storage_error(error, self._folder) from error
        return None

    def _note_broken(self, file: str, error: Exception) -> None:
        if self._broken != file:
            self._broken = file
            self.broken_versions += 1
            logger.warning("%s/%s cannot be used, waiting for the next version: %s", self._folder, file, error)

    def _read_pointer(self) -> "dict[str, Any] | None":
        path = os.path.join(self._folder, _POINTER)
        try:
            with files.open_plain(path) as fd:
                text = os.read(fd, _MAX_POINTER_BYTES)
        except FileNotFoundError:
            return None
        except BadFrame as error:
            self._note_broken(_POINTER, error)
            return None
        except OSError as error:
            raise storage_error(error, self._folder) from error
        try:
            return _checked_pointer(json.loads(text))
        except (ValueError, RecursionError) as error:
            self._note_broken(_POINTER, error)
            return None


def _checked_pointer(pointer: object) -> dict[str, Any]:
    numbers = ("version", "bytes", "crc")
    if not isinstance(pointer, dict) or any(type(pointer.get(key)) is not int for key in numbers):
        raise ValueError(f"expected version, file, bytes and crc, found {str(pointer)[:80]}")
    file = pointer.get("file")
    if not isinstance(file, str) or not _WEIGHTS.fullmatch(file):
        raise ValueError(f"{str(file)[:80]!r} is no file of weights")
    if pointer.get("seal_bytes", 0) not in (0, SEAL_BYTES):
        raise ValueError(f"seal_bytes must be 0 or {SEAL_BYTES}, found {str(pointer['seal_bytes'])[:80]}")
    return pointer
