"""Ongoing episodes of a serial run, with their envs and segments, as part of a snapshot."""

from __future__ import annotations

import copy
import logging
from typing import Any

from ding.data.roles import StateDict
from ding.data.tree_codec import encode_tree
from ding.entry.serial.parts import NoCollector, SerialParts
from ding.envs.env.state import EnvStateError
from ding.envs.env_manager import EnvManagerError
from ding.utils import SeedTree, get_rank

logger = logging.getLogger("ding.entry")


def ongoing_state(parts: SerialParts) -> tuple[StateDict | None, str]:
    """Copy the collector's ongoing episodes; return them and a note for the snapshot.

    The copy is ``None`` if an env, a policy or the collector has no state that can be saved safely.
    """
    collector = parts.collector
    if isinstance(collector, NoCollector):  # a run on a data set has no episodes
        return None, "go on"
    if not hasattr(collector, "ongoing_state"):
        return None, f"begin anew: {type(collector).__name__} has no ongoing_state"
    try:
        state = collector.ongoing_state()
        encode_tree(state, [])
    except (EnvStateError, EnvManagerError, NotImplementedError, RuntimeError, TypeError) as error:
        # Only the first line: the error of an env in another process continues with its traceback.
        return None, f"begin anew: {str(error).partition(chr(10))[0]}"
    return copy.deepcopy(state), "go on"


def load_ongoing(parts: SerialParts, state: StateDict | None) -> None:
    """Continue the saved episodes, or start new ones if none are saved or they belong to other envs."""
    if state is not None:
        collector: Any = parts.collector
        try:
            collector.load_ongoing_state(state)
        except (EnvStateError, EnvManagerError, KeyError, NotImplementedError, TypeError, ValueError) as error:
            logger.warning("the saved episodes are not taken up, new ones begin: %s", error)
        else:
            return
    restart_envs(parts)


def restart_envs(parts: SerialParts) -> None:
    """Start new episodes from seeds derived from the config's seed and the train iteration."""
    if hasattr(parts.collector, "restart_envs"):
        count, purpose = parts.collector_env.env_num, f"restart at {int(parts.learner.train_iter)}"
        seeds = SeedTree(parts.cfg.seed).env_seeds(count, parts.collector_role, process=get_rank(), purpose=purpose)
        parts.collector.restart_envs(seeds)
