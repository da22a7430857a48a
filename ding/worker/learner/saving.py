"""How a learner saves its checkpoints: which ones stay, and what happens when the disk is full; and how they load."""

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
    """There is no space for a checkpoint; the one before is whole."""


def load_weights(mode: LearnMode | CollectMode | EvalMode, state: StateDict, what: str = "the checkpoint") -> None:
    """Load the state of a checkpoint into a mode of a policy.

    Args:
        what: begins the message.

    Raises:
        PolicyWeightsError: it is the state of another policy or network.
    """
    try:
        mode.load_state_dict(state)
    except (RuntimeError, KeyError, ValueError) as error:
        from ding.policy.errors import PolicyWeightsError

        shown = " ".join(str(error).split())[:300]
        raise PolicyWeightsError(f"{what} does not fit the policy and its policy.model: {shown}") from error


class CheckpointSaver:
    """Saves checkpoints.

    Args:
        keep_last: how many of those named by iteration stay; ``None``: all. Others, as the best one, always stay.
        on_disk_full: ``'end'`` raises :class:`DiskFullError`; ``'wait'`` waits for space, in the thread that saves.
        look_again_s: seconds between two attempts.

    Raises:
        ValueError: a setting is not allowed.
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
        # No event: a handler of signals sets it, in the thread that may be waiting.
        self._stopped = False

    def save(self, path: str, state: Mapping[str, Any]) -> None:
        """Save the state of a learner under the classic name ``path``, with ``last_iter`` and ``last_step`` in it.

        Raises:
            DiskFullError: see above.
        """
        notes = {"train_iter": int(state["last_iter"]), "env_step": int(state["last_step"])}
        self.when_there_is_space(lambda: save_checkpoint(path, state, notes), path)
        if self.keep_last is not None and folder_of(path) is not None:
            keep_newest(path, self.keep_last)

    def when_there_is_space(self, write: Callable[[], object], path: "str | os.PathLike[str]") -> None:
        """Call ``write``, which leaves nothing behind when it fails.

        Raises:
            DiskFullError: there is no space, and this saver does not wait, or waits no longer.
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
        """From now on, a full disk is an error."""
        self._stopped = True
