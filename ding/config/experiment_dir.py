"""Experiment folders: a new one for every run, even if two start in the same second, and only one active run in the
folder of a resumed run.
"""

import contextlib
import itertools
import json
import logging
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from ding.config.errors import ExperimentDirError
from ding.utils import get_rank, one_time_warning
from ding.utils.errors import UserMistake
from ding.utils.own_code import refuse_in_import

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("ding.config")

LOCK_FILE = "alive.lock"
"""Lock file of an active run in its experiment folder, see ``ExperimentLock``."""

OWN_CODE_FILE = "own_code.json"
"""Record of the user code that a run needs, see ``ding.config.own``."""

_GIT_TIMEOUT_S = 20.0


def create_experiment_dir(exp_name: str, renew_dir: bool) -> str:
    """Create the folder ``exp_name`` and return its final name.

    With ``renew_dir`` an existing folder is left unchanged, and the name gets the suffix ``_%y%m%d_%H%M%S``, followed
    by ``_1``, ``_2``, ... if that exists, too. Creating a folder is atomic, so two processes never share one.

    Raises:
        ExperimentDirError: The folder cannot be created (an ``OSError``, too).
        MissingMainGuardError: The call occurs while a user's script is imported, which would train again.
    """
    refuse_in_import()
    try:
        return _create(exp_name, renew_dir)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ExperimentDirError(
            f"exp_name: the experiment folder {exp_name} cannot be made: {reason}; choose another with exp_name "
            "(--exp-name)"
        ) from error


def _create(exp_name: str, renew_dir: bool) -> str:
    path = Path(exp_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not renew_dir:
        path.mkdir(exist_ok=True)
        return exp_name
    renewed = f"{exp_name}_{time.strftime('%y%m%d_%H%M%S')}"
    numbered = (f"{renewed}_{number}" for number in itertools.count(1))
    for name in itertools.chain([exp_name, renewed], numbered):
        try:
            Path(name).mkdir()
        except FileExistsError:
            continue
        return name
    raise AssertionError("unreachable: the candidates never end")


@contextlib.contextmanager
def unused_dir_removed(exp_name: str) -> Iterator[None]:
    """Remove the new folder of a run after an error, if it contains only configs.

    After a user error it may also contain the log files of workers that did nothing. The next attempt then gets the
    name of its config.
    """
    try:
        yield
    except Exception as error:
        if get_rank() == 0:
            _remove_if_unused(Path(exp_name), isinstance(error, UserMistake))
        raise


def _remove_if_unused(folder: Path, mistake: bool) -> None:
    endings = ("_config.py", LOCK_FILE, OWN_CODE_FILE, *(["_logger.txt"] if mistake else []))
    files = [file for file in folder.rglob("*") if not file.is_dir()]
    if files and all(file.name.endswith(endings) for file in files) and (mistake or not any(_folders(folder))):
        for file in files:
            file.unlink()
        for inner in sorted(_folders(folder), reverse=True):
            inner.rmdir()
        folder.rmdir()


def _folders(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_dir())


class ExperimentLock:
    """Context manager that keeps other runs out of an experiment folder during a run.

    It is an exclusive kernel lock (``flock``) on ``LOCK_FILE``, which ends with the process that took it, however that
    ends: children close their inherited descriptor. The file names the owner. It is removed with the run; a file left
    by a killed run does not block others.

    Rank 0 locks for all ranks of a run. On Windows, and in a file system without locks (with a warning), nothing is
    locked.
    """

    def __init__(self) -> None:
        self._path = ""
        self._descriptor: int | None = None

    def __enter__(self) -> "ExperimentLock":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()

    def take(self, folder: str | os.PathLike[str]) -> None:
        """Lock a folder until ``release``. A missing folder has no run: call this again after creating it.

        Has no effect if this lock is already held.

        Raises:
            ExperimentDirError: Another run is active there; the message names it.
        """
        if fcntl is None or self._descriptor is not None or get_rank() > 0 or not os.path.isdir(folder):
            return
        # A run may change its working directory.
        self._path = os.path.join(os.path.abspath(folder), LOCK_FILE)
        try:
            while not self._lock():
                logger.debug("%s was removed at the end of a run; once more", self._path)
        except BlockingIOError:
            raise ExperimentDirError(
                f"the experiment folder {os.fspath(folder)} is in use: {_holder(self._path)} lasts there; wait for its "
                "end, or stop it first"
            ) from None
        except OSError as error:
            one_time_warning(f"{folder} is not locked, so mind that no second run goes on there: {error.strerror}")
            return
        self._sign()

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            # While it is locked, so that no other run has taken over this file.
            if os.path.samestat(os.fstat(self._descriptor), os.stat(self._path)):
                os.unlink(self._path)
        self._close()

    def forget(self) -> None:
        """In a forked child: leave the lock to the parent alone."""
        self._close()

    def _lock(self) -> bool:
        """Lock the file; return ``False`` if it was replaced by another file of this name.

        Raises:
            BlockingIOError: Another process, or another lock of this one, holds the lock.
            OSError: The file cannot be locked.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        _held.add(self)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(self._descriptor), os.stat(self._path)):
                return True
        except FileNotFoundError:
            pass
        except BaseException:
            self._close()
            raise
        self._close()
        return False

    def _sign(self) -> None:
        """Write the owner to the file; on a full disk it stays empty."""
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "began": time.strftime("%Y-%m-%d %H:%M:%S")}
        assert self._descriptor is not None
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(holder).encode(), 0)

    def _close(self) -> None:
        _held.discard(self)
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


_held: set[ExperimentLock] = set()


def _forget_inherited() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    # A forked child shares the lock: a hanging env of a killed run would keep others out.
    os.register_at_fork(after_in_child=_forget_inherited)


def _holder(path: str) -> str:
    """Describe the run that holds a lock file."""
    try:
        holder = json.loads(Path(path).read_text(encoding="utf-8"))
        return f"the run of process {holder['pid']} on {holder['host']}, begun {holder['began']},"
    except (OSError, ValueError, LookupError, TypeError):
        return "another run"


def write_git_info(folder: str) -> None:
    """Write ``git_log.txt`` and ``git_diff.txt`` of the repository around the working directory to ``folder``.

    Outside of a repository, or without git, nothing is written. The diff contains all uncommitted changes of the
    working tree, so this happens only on request.
    """
    commands = {
        "git_log.txt": (["git", "describe", "--always", "--dirty"], ["git", "log", "--stat", "-n", "5"]),
        "git_diff.txt": (["git", "diff", "HEAD"],),
    }
    texts = {}
    for name, parts in commands.items():
        try:
            texts[name] = "\n".join(_output_of(part) for part in parts)
        except (OSError, subprocess.SubprocessError) as error:
            logger.info("no git information is saved: %s", error)
            return
    for name, text in texts.items():
        (Path(folder) / name).write_text(text, encoding="utf-8")


def _output_of(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, check=True, timeout=_GIT_TIMEOUT_S, text=True, errors="replace")
    return done.stdout
