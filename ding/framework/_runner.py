"""Start of the nodes of a run: several processes in the launcher, or this process alone."""

import dataclasses
import logging
import math
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from ding.framework._nodes import Node, NodeJob
from ding.parallel.launch import (
    Launcher,
    RestartRule,
    Role,
    RoleContext,
    RoleFailed,
    RunInterrupted,
    run_here,
    shared_run_dir,
)
from ding.utils.credentials import RUN_TOKEN_VARIABLE
from ding.utils.messages import add_note

logger = logging.getLogger(__name__)

STOP_S = 60.0
"""Seconds that the nodes have to finish their iteration after the first one has finished."""
FAIL_S = 3.0
"""Seconds that the nodes have to finish their iteration after one has failed."""
PRELOAD = ("ding.framework.task", "ding.policy.base_policy")


class Runner:
    """Callable ``runner(main, *args, **kwargs)`` that runs ``main`` in all nodes, see
    :meth:`ding.framework.Parallel.runner`.

    Args:
        make_nodes: ``make_nodes(folder=...)`` creates the nodes with their socket files in a folder.
        body: Main function of a node's process, with a :class:`NodeJob` as its payload.
        auto_recover: Whether a node is restarted after an exception.
        max_retries: Maximum number of restarts.
        log_dir: Folder for the output of the processes.

    Raises:
        AssertionError, ValueError: Raised by ``make_nodes``; or remote processes are dialled without a token.
    """

    def __init__(
        self,
        make_nodes: Callable[..., list[Node]],
        body: Callable[[RoleContext], Any],
        auto_recover: bool,
        max_retries: float,
        log_dir: str | None,
    ) -> None:
        self._make_nodes, self._body = make_nodes, body
        self._auto_recover, self._log_dir = auto_recover, log_dir
        self._restart = RestartRule(max_failures=_max_failures(auto_recover, max_retries))
        inside = make_nodes()
        own = {node.mq_kwargs["listen_to"] for node in inside}
        self._token = os.environ.get(RUN_TOKEN_VARIABLE) or secrets.token_hex(32)
        if RUN_TOKEN_VARIABLE not in os.environ and any(set(node.attach_to) - own for node in inside):
            raise ValueError(
                f"attach_to: the processes of a run know its token; set {RUN_TOKEN_VARIABLE} for all of them"
            )

    def __call__(self, main: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        with shared_run_dir(os.path.join(tempfile.gettempdir(), f"ditask-{os.getuid()}")) as run_dir:
            nodes = self._make_nodes(folder=str(run_dir))
            is_supervised = self._auto_recover or len(nodes) > 1
            jobs = [NodeJob(node, _home_of(main), args, kwargs, self._auto_recover, is_supervised) for node in nodes]
            roles = [
                Role(f"node{job.node.node_id}", self._body, job, self._restart, ends_run=True, may_return=True)
                for job in jobs
            ]
            if len(roles) == 1:
                self._run_here(roles[0])
            else:
                self._run_all(roles, str(run_dir))

    def _run_all(self, roles: list[Role], run_dir: str) -> None:
        launcher = Launcher(roles, run_dir, self._log_dir, self._token, stop_s=STOP_S, fail_s=FAIL_S, preload=PRELOAD)
        try:
            outcome = launcher.run()
        except RoleFailed as failure:
            if failure.__cause__ is None:
                raise
            # Without log files, the process has written its traceback to this terminal.
            add_note(failure.__cause__, f"in {failure.role}" if self._log_dir is None else str(failure))
            raise failure.__cause__ from None
        if outcome.signum is not None:
            raise RunInterrupted(outcome.signum)

    def _run_here(self, role: Role) -> None:
        retries = 0
        while True:
            try:
                run_here(
                    dataclasses.replace(role, payload=dataclasses.replace(role.payload, retries=retries)), self._token
                )
                return
            except Exception:
                retries += 1
                if retries >= self._restart.max_failures:
                    raise
                logger.warning("%s failed and begins anew, retry %d", role.name, retries, exc_info=True)


def _max_failures(auto_recover: bool, max_retries: float) -> int:
    """Return the number of consecutive failures of a node after which the run fails."""
    if not auto_recover:
        return 1
    return 2**31 if math.isinf(max_retries) else int(max_retries) + 1


def _home_of(main: Callable[..., Any]) -> "Callable[..., Any] | tuple[str, str]":
    """Return the location at which a node's process finds the function, or the function itself if it has none."""
    module, name = getattr(main, "__module__", None), getattr(main, "__qualname__", "")
    return (module, name) if module and getattr(sys.modules.get(module), name, None) is main else main
