"""Role without a launcher, in a process that the user started; for runs on several machines."""

import logging
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from ding.parallel.launch.role import Message, Role, RoleContext
from ding.parallel.launch.signals import RunInterrupted, exit_quickly, first_asks, handling
from ding.utils.credentials import RUN_TOKEN_VARIABLE, own_token_restored

logger = logging.getLogger("ding.entry")


def run_here(
    role: Role,
    token: str,
    peers: Mapping[str, Any] | None = None,
    run_dir: str = "",
    on_status: Callable[[Any], None] | None = None,
    on_announced: Callable[[Mapping[str, Any]], None] | None = None,
) -> Any:
    """Run a role in this process and return its result. The first SIGINT or SIGTERM requests a stop, a second one
    kills.

    Args:
        token: Token of the run or of the worker; set in the environment during the call.
        peers: Announcements of other roles; none are added later.
        run_dir: Folder of the coordinator's journal.
        on_status: Called with each status.
        on_announced: Called with each announcement of the role, such as its address, which is also logged.

    Raises:
        RunInterrupted: A signal arrived and the role had no result.
    """
    received: list[int] = []

    def send(message: Message, droppable: bool) -> None:
        if message[0] == "peer":
            logger.info("%s: %s", role.name, message[1].get("address", message[1]))
            if on_announced is not None:
                on_announced(message[1])
        elif message[0] == "status" and on_status is not None:
            on_status(message[1])

    context = RoleContext(role, run_dir, token, peers or {}, send)

    def ask(signum: int) -> None:
        received.append(signum)
        exit_quickly()
        context.stop.set_soon(signal.Signals(signum).name)

    with own_token_restored(), handling(first_asks(ask)):
        os.environ[RUN_TOKEN_VARIABLE] = token
        result = role.target(context)
    if result is None and received:
        raise RunInterrupted(received[0])
    return result
