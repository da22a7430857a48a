"""The token of a run, and the tokens of its workers, which are made of it.

Who has the *run token* may do everything in the run. A worker needs less: a *worker token* is bound to the role and the
name of one worker, and opens the calls of that worker only (`ding.interaction`). It is a text of five parts,
``ding-worker:<role>:<name>:<mac>:<planes key>``:

* ``mac`` is an HMAC-SHA256 over role and name, under the token that it was made of, so whoever has that one can check
  it without a list of workers. What crosses the wire ends with it (`wire_token`).
* ``planes key`` is the same for all workers of a run: chunks and weights of the shared folders are sealed with it.

A worker token may be the beginning of others: those of the ranks of a learner of several processes.
"""

import contextlib
import functools
import hmac
import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

RUN_TOKEN_VARIABLE = "DING_RUN_TOKEN"
"""The environment variable in which a process of a run has its token: the run's, or that of a worker."""

_MARK = "ding-worker"
_WORKER = re.compile(rf"(?P<wire>{_MARK}:[^:\s]+:[^:\s]+:[0-9a-f]{{64}}):(?P<planes>[0-9a-f]{{64}})")
_ON_THE_WIRE = re.compile(rf"{_MARK}:(?P<role>[^:\s]+):(?P<name>[^:\s]+):(?P<mac>[0-9a-f]{{64}})")
_PLANES = "ding.parallel.planes"


class WorkerName(NamedTuple):
    """Whom a worker token is made for."""

    role: str
    name: str


def own_token() -> str | None:
    """Return the token of this process, by its environment."""
    return os.environ.get(RUN_TOKEN_VARIABLE) or None


@contextlib.contextmanager
def own_token_restored() -> Iterator[None]:
    """Whatever token this process gets in the block, afterwards it has the one that it had."""
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
        token: that of the run, or that of the worker to which this one belongs.

    Raises:
        ValueError: role or name is empty, or has a blank or a colon.
    """
    made = f"{_wire_token(token, role, name)}:{planes_key(token)}"
    if _WORKER.fullmatch(made) is None:
        raise ValueError(f"a worker's role and name must have no blanks and colons, got {role!r} and {name!r}")
    return made


def is_worker_token(token: str) -> bool:
    """Return whether a token is that of a worker, and not that of a run."""
    return _WORKER.fullmatch(token) is not None


def wire_token(token: str) -> str:
    """Return what of a token is sent."""
    found = _WORKER.fullmatch(token)
    return token if found is None else found["wire"]


def planes_key(token: str) -> str:
    """Return the key of the run's data and weights, 64 hexadecimal digits; the same by each token of the run."""
    found = _WORKER.fullmatch(token)
    return _mac(token, _PLANES) if found is None else found["planes"]


def worker_of(sent: str, token: str) -> WorkerName | None:
    """Return the worker whose token was sent; None when it was not made of ``token``. In constant time for each text.

    Args:
        sent: what came over the wire.
        token: that of the run, or that of the worker to which it should belong.
    """
    found = _ON_THE_WIRE.fullmatch(sent)
    if found is None:
        return None
    worker = WorkerName(found["role"], found["name"])
    return worker if hmac.compare_digest(sent.encode(), _wire_token(token, *worker).encode()) else None


def worker_token_of(token: str, workers: Iterable[WorkerName]) -> str:
    """Return the token of the last of some workers, of which each belongs to the one before; ``token`` for none."""
    return functools.reduce(lambda made, worker: worker_token(made, *worker), workers, token)


class Keys:
    """The token of a process: what it accepts, and what it shows to whom.

    Args:
        token: that of the run opens everything, as does the own one; one that was made of it is that of a worker.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._accepted = [wire_token(token)]
        # By name, those that enrolled with a token of their own. Kept: none of them may get another one to see.
        self._enrolled: dict[str, WorkerName] = {}

    def become(self, role: str, name: str) -> None:
        """Be this worker from now on: show its token, and accept it. A process with a worker token is one already."""
        if not is_worker_token(self._token):
            own = wire_token(worker_token(self._token, role, name))
            self._accepted = [*dict.fromkeys((*self._accepted, own))]

    def enrol(self, worker: WorkerName) -> None:
        """This worker shows its own token."""
        self._enrolled[worker.name] = worker

    def accept(self, sent: str) -> WorkerName | bool:
        """Return True for a text that opens everything, the worker for the token of one, False for any other text."""
        if any(hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), one.encode()) for one in self._accepted):
            return True
        return worker_of(sent, self._token) or False

    def shown_to(self, name: str | None) -> str:
        """Return what to send to those that enrol under a name; None: to any other process."""
        worker = None if name is None else self._enrolled.get(name)
        return self._accepted[-1] if worker is None else wire_token(worker_token(self._token, *worker))


def _wire_token(token: str, role: str, name: str) -> str:
    return f"{_MARK}:{role}:{name}:{_mac(wire_token(token), f'{_MARK}:{role}:{name}')}"


def _mac(key: str, text: str) -> str:
    return hmac.digest(key.encode(), text.encode("utf-8", "surrogateescape"), "sha256").hex()
