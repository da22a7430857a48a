"""What a serial run has begun when it is saved, the episodes of its envs and their segments, as part of a snapshot."""

from __future__ import annotations

import copy
import logging
from typing import Any

import numpy as np

from ding.data._tree_codec import encode_tree
from ding.data.roles import StateDict
from ding.entry.serial.parts import SerialParts
from ding.envs.env.state import EnvStateError
from ding.envs.env_manager import EnvManagerError
from ding.utils import get_rank

logger = logging.getLogger("ding.entry")


def begun_state(parts: SerialParts) -> tuple[StateDict | None, str]:
    """A copy of what the collector has begun, or ``None`` where an env, a policy or the collector has no state that a
    safe file can hold; and what a snapshot notes of it.
    """
    collector: Any = parts.collector
    if not hasattr(collector, "begun_state"):
        return None, f"begin anew: {type(collector).__name__} has no begun_state"
    try:
        state = collector.begun_state()
        encode_tree(state, [])
    except (EnvStateError, EnvManagerError, NotImplementedError, TypeError) as error:
        # The first line: that of an env in another process has its traceback behind it.
        return None, f"begin anew: {str(error).partition(chr(10))[0]}"
    return copy.deepcopy(state), "go on"


def take_up_begun(parts: SerialParts, state: StateDict | None) -> None:
    """Go on with what had begun; where nothing is saved, or it is that of other envs, in new episodes."""
    if state is not None:
        collector: Any = parts.collector
        try:
            collector.load_begun_state(state)
        except (EnvStateError, EnvManagerError, KeyError, NotImplementedError, TypeError, ValueError) as error:
            logger.warning("the saved episodes are not taken up, new ones begin: %s", error)
        else:
            return
    restart_envs(parts)


def restart_envs(parts: SerialParts) -> None:
    """Begin new episodes from seeds that follow from the config's seed and the train iteration."""
    entropy = [int(parts.cfg.seed), int(parts.learner.train_iter), *([get_rank()] if get_rank() else [])]
    words = np.random.SeedSequence(entropy).generate_state(1)
    if hasattr(parts.collector, "restart_envs"):
        parts.collector.restart_envs(int(words[0] >> 1))
