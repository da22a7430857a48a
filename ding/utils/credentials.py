"""The token of a run, and the worker tokens derived from it.

The *run token* authorises every call in the run. A *worker token* is bound to the role and name of one worker and
authorises only that worker's calls (`ding.interaction`). It is a string of five parts,
``ding-worker:<role>:<name>:<mac>:<planes key>``:

* ``mac`` is an HMAC-SHA256 over role and name, keyed with the parent token, so the holder of the parent token can
  verify it without a list of workers. The token sent over the network ends with it (`wire_token`).
* ``planes key`` is the same for all workers of a run: chunks and weights of the shared folders are sealed with it.

A worker token may itself be a parent: of the tokens of the ranks of a learner with several processes.
"""

import contextlib
import functools
import hmac
import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

RUN_TOKEN_VARIABLE = "DING_RUN_TOKEN"
"""Environment variable with the token of this process: that of the run, or of a worker."""

_MARK = "ding-worker"
_WORKER = re.compile(rf"(?P<wire>{_MARK}:[^:\s]+:[^:\s]+:[0-9a-f]{{64}}):(?P<planes>[0-9a-f]{{64}})")
_ON_THE_WIRE = re.compile(rf"{_MARK}:(?P<role>[^:\s]+):(?P<name>[^:\s]+):(?P<mac>[0-9a-f]{{64}})")
_PLANES = "ding.parallel.planes"


class WorkerName(NamedTuple):
    """Role and name of the worker that a token is issued for."""

    role: str
    name: str


def own_token() -> str | None:
    """Return the token of this process from its environment."""
    return os.environ.get(RUN_TOKEN_VARIABLE) or None


@contextlib.contextmanager
def own_token_restored() -> Iterator[None]:
    """Restore the token of this process when the block ends."""
    before = os.environ.get(RUN_TOKEN_VARIABLE)
    try:
        yield
    finally:
        os.environ.pop(RUN_TOKEN_VARIABLE, None)
        if before is not None:
            os.environ[RUN_TOKEN_VARIABLE] = before


def worker_token(token: str, role: str, name: str) -> str:
    """Return the token of a worker.

    Args:
        token: Token of the run, or of the worker that this one belongs to.

    Raises:
        ValueError: Role or name is empty, or contains a blank or a colon.
    """
    made = f"{_wire_token(token, role, name)}:{planes_key(token)}"
    if _WORKER.fullmatch(made) is None:
        raise ValueError(f"a worker's role and name must have no blanks and colons, got {role!r} and {name!r}")
    return made


def is_worker_token(token: str) -> bool:
    """Return whether a token is that of a worker, and not that of a run."""
    return _WORKER.fullmatch(token) is not None


def wire_token(token: str) -> str:
    """Return the part of a token that is sent."""
    found = _WORKER.fullmatch(token)
    return token if found is None else found["wire"]


def planes_key(token: str) -> str:
    """Return the key of the run's data and weights, 64 hexadecimal digits. Every token of a run gives the same key."""
    found = _WORKER.fullmatch(token)
    return _mac(token, _PLANES) if found is None else found["planes"]


def worker_of(sent: str, token: str) -> WorkerName | None:
    """Return the worker whose token was sent, or None if it was not derived from ``token``. Runs in constant time per
    text.

    Args:
        sent: Token received from the network.
        token: Token of the run, or of the worker that the sender should belong to.
    """
    found = _ON_THE_WIRE.fullmatch(sent)
    if found is None:
        return None
    worker = WorkerName(found["role"], found["name"])
    return worker if hmac.compare_digest(sent.encode(), _wire_token(token, *worker).encode()) else None


def worker_token_of(token: str, workers: Iterable[WorkerName]) -> str:
    """Return the token of the last worker in a chain, derived from ``token`` one worker after the other."""
    return functools.reduce(lambda made, worker: worker_token(made, *worker), workers, token)


class Keys:
    """Tokens of a process: those it accepts, and the one it shows to each peer.

    Args:
        token: The run token or the process's own token authorises everything; a token derived from it identifies a
            worker.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._accepted = [wire_token(token)]
        # Workers that enrolled with their own token, by name. Kept forever, so that none of them is ever shown another
        # token.
        self._enrolled: dict[str, WorkerName] = {}

    def become(self, role: str, name: str) -> None:
        """Act as this worker from now on: show and accept its token. A process with a worker token already does."""
        if not is_worker_token(self._token):
            own = wire_token(worker_token(self._token, role, name))
            self._accepted = [*dict.fromkeys((*self._accepted, own))]

    def enrol(self, worker: WorkerName) -> None:
        """Record that this worker shows its own token."""
        self._enrolled[worker.name] = worker

    def accept(self, sent: str) -> WorkerName | bool:
        """Return True for a token that authorises everything, the worker for a worker token, else False."""
        if any(hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), one.encode()) for one in self._accepted):
            return True
        return worker_of(sent, self._token) or False

    def shown_to(self, name: str | None) -> str:
        """Return the token to send to peers that enrol under a name; None means any other process."""
        worker = None if name is None else self._enrolled.get(name)
        return self._accepted[-1] if worker is None else wire_token(worker_token(self._token, *worker))


def _wire_token(token: str, role: str, name: str) -> str:
    return f"{_MARK}:{role}:{name}:{_mac(wire_token(token), f'{_MARK}:{role}:{name}')}"


def _mac(key: str, text: str) -> str:
    return hmac.digest(key.encode(), text.encode("utf-8", "surrogateescape"), "sha256").hex()
