"""Saving and loading of a learner's checkpoints: retention, full disks, and loading into a policy mode."""

import errno
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ding.data.roles import CollectMode, EvalMode, LearnMode, StateDict
from ding.utils.checkpoint import folder_of, keep_newest, save_checkpoint
from ding.utils.errors import UserMistake
from ding.utils.names import check_choice

log = logging.getLogger(__name__)

_FULL = {errno.ENOSPC, errno.EDQUOT}
_LOOK_AGAIN_S = 1.0


class DiskFullError(OSError, UserMistake):
    """There is no space for a checkpoint; the previous one is intact."""


def load_weights(mode: LearnMode | CollectMode | EvalMode, state: StateDict, what: str = "the checkpoint") -> None:
    """Load the state of a checkpoint into a mode of a policy.

    Args:
        what: Subject of the error message.

    Raises:
        PolicyWeightsError: The state belongs to another policy or network.
    """
    try:
        mode.load_state_dict(state)
    except (RuntimeError, KeyError, ValueError) as error:
        from ding.policy.errors import PolicyWeightsError

        shown = " ".join(str(error).split())[:300]
        raise PolicyWeightsError(f"{what} does not fit the policy and its policy.model: {shown}") from error


class CheckpointSaver:
    """Saves checkpoints, with a retention limit and a reaction to full disks.

    Args:
        keep_last: Number of checkpoints named by iteration to keep; ``None``: all. Others, such as the best one, are
            always kept.
        on_disk_full: ``'end'`` raises :class:`DiskFullError`; ``'wait'`` waits for space, in the saving thread.
        look_again_s: Seconds between two attempts.

    Raises:
        ValueError: A setting is invalid.
    """

    def __init__(
        self, keep_last: int | None = None, on_disk_full: str = "end", look_again_s: float | None = None
    ) -> None:
        if keep_last is not None and (isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 1):
            raise ValueError(f"learner.keep_last must be None or an int of 1 or more, found {keep_last!r}")
        check_choice("learner.on_disk_full", on_disk_full, ("end", "wait"))
        self.keep_last = keep_last
        self._waits = on_disk_full == "wait"
        self._look_again_s = _LOOK_AGAIN_S if look_again_s is None else look_again_s
        # A plain flag, not an event: a signal handler sets it in the thread that may be waiting.
        self._stopped = False

    def save(self, path: str, state: Mapping[str, Any]) -> None:
        """Save the state of a learner under the classic name ``path``, including ``last_iter`` and ``last_step``.

        Raises:
            DiskFullError: There is not enough disk space, see the class.
        """
        notes = {"train_iter": int(state["last_iter"]), "env_step": int(state["last_step"])}
        self.when_there_is_space(lambda: save_checkpoint(path, state, notes), path)
        if self.keep_last is not None and folder_of(path) is not None:
            keep_newest(path, self.keep_last)

    def when_there_is_space(self, write: Callable[[], object], path: "str | os.PathLike[str]") -> None:
        """Call ``write``, which must leave no partial file if it fails.

        Raises:
            DiskFullError: There is no space, and this saver does not wait, or has stopped waiting.
        """
        waited = False
        while True:
            try:
                write()
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                if not self._waits or self._stopped:
                    raise DiskFullError(
                        error.errno,
                        "no space for the checkpoint (the one before is whole); free some, or set "
                        "policy.learn.learner.on_disk_full='wait'",
                        os.fspath(path),
                    ) from error
                if not waited:
                    log.warning("no space for the checkpoint %s: training waits until there is some", os.fspath(path))
                waited = True
                time.sleep(self._look_again_s)
            else:
                return

    def stop_waiting(self) -> None:
        """Treat a full disk as an error from now on."""
        self._stopped = True
