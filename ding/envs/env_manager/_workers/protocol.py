"""Messages between an env manager and its worker processes.

Three channels per worker:

* A duplex pipe. The parent sends single bytes: ``CLOSE``, ``FIRST_STEP + position`` (step the env at this position in
  the worker), or ``MESSAGE``, followed by a pickled :class:`Message`, and by a descriptor if the message says so. The
  worker sends the payloads announced by completions. The parent creates both ends; only its own child gets one.
* One completion pipe shared by all workers of a manager. Each finished command is one record of 8 bytes, written
  atomically (POSIX ``PIPE_BUF``), so the parent waits in a single place.
* Shared memory for all data of fixed shape (``shared_columns``). A worker writes the rows of its envs before it reports
  them; the parent writes the action of an env before it orders the step, and reads a row only while the env is idle.

A worker executes its commands in order, and answers each with exactly one completion.
"""

import os
import pickle
import struct
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

CLOSE = 0
MESSAGE = 1
FIRST_STEP = 2
MAX_ENVS_PER_WORKER = 256 - FIRST_STEP

# env id, generation of the worker, kind, flags
COMPLETION = struct.Struct("<IHBB")


class Command(IntEnum):
    """Commands of a worker for one env."""

    BUILD = 0
    RESET = 1
    STEP = 2
    CALL = 3
    # The process of an env ended while no order was open.
    IDLE = 4


class Flag(IntEnum):
    """Bits of a completion."""

    # A payload follows on the pipe of the worker: an info dict, an answer or a failure.
    PAYLOAD = 1
    # The result is the payload and not in shared memory.
    OBJECT = 2
    # The command failed; the payload is a Failure.
    FAILED = 4
    # The payload is ``(infos, reward)``: rewards of a game, while the reward space describes one player's.
    REWARD = 8
    # The env reported itself abnormal and returned no valid observation: the previous one is kept.
    NO_OBS = 16
    # The same for its reward, in the timestep of a payload.
    NO_REWARD = 32


class Failure(NamedTuple):
    """Reason of a failed command.

    Attributes:
        summary: ``Type: message`` of the exception, or a description of the invalid data.
        traceback: Traceback in the worker; may be empty.
        reason: ``raised``, ``data`` (a wrong shape or dtype was returned), ``timeout`` or ``crashed``.
    """

    summary: str
    traceback: str = ""
    reason: str = "raised"


class Message(NamedTuple):
    """An order with arguments. ``name`` is ``crash_log``, ``build``, ``attach``, ``reset``, ``step`` or ``call``."""

    name: str
    args: tuple[Any, ...] = ()


def send_message(conn: Connection, message: Message) -> None:
    """Send an order. Plain pickle: multiprocessing's own reductions would put tensors into named shared memory."""
    payload = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    os.write(conn.fileno(), bytes([MESSAGE]))
    conn.send_bytes(payload)
