"""State from which a run resumes: a snapshot of the learner, the replay buffer, the random generators, the counters,
and the parts in :attr:`SerialParts.saved`, such as a reward model or an expert.

A snapshot is a checkpoint folder (:mod:`ding.utils.checkpoint`) ``ckpt/snapshot_<train iteration>``; every process but
the first has its part in ``rank<r>`` below it. :mod:`ding.entry.serial.run_saver` writes it. A run resumed from a
snapshot equals, bit for bit, the run that wrote it and continued. Both continue in the middle of their episodes
(:mod:`ding.envs.env.state`). If an env has no state that can be saved, both start new episodes there, from seeds
derived from the config's seed and the train iteration; ``episodes`` in the notes of the manifest records which applies,
and why.
"""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

from ding.data.roles import StateDict
from ding.data.safe_file import SafeFileError, read_tree
from ding.entry.serial.ongoing import load_ongoing, ongoing_state
from ding.entry.serial.parts import SerialParts
from ding.entry.serial.snapshot_folders import good_snapshots, own_folder
from ding.rollout import seed_evaluation
from ding.utils.checkpoint import (
    CLASSIC_SUFFIX,
    LEARNER,
    checked_manifest,
    read_manifest,
)
from ding.utils.file_helper import FileRefusedError
from ding.utils.seed import generator_states, set_generator_states
from ding.worker.collector.base_serial_evaluator import BEST_CKPT_NAME, SerialEvaluator

logger = logging.getLogger("ding.entry")

#: File of a snapshot with all state but the learner's, and its declared kind.
STATE = "state.safetensors"
FILE_KIND = "ding.run_state"


def load_run_state(checkpoint: str | Path, parts: SerialParts) -> bool:
    """Restore the snapshot ``checkpoint``, or the one that belongs to this classic file; return whether it exists.

    The learner must have loaded the checkpoint before.

    Raises:
        FileRefusedError: The snapshot is damaged; the message names the newest good one.
    """
    state = read_run_state(checkpoint)
    if state is None:
        return False
    take_up(state, parts, str(checkpoint))
    return True


def read_run_state(checkpoint: str | Path) -> StateDict | None:
    """Return all state but the learner's from the snapshot ``checkpoint``, or the one that belongs to this classic
    file.

    ``None``: it does not exist.

    Raises:
        FileRefusedError: The snapshot is damaged; the message names the newest good one.
    """
    folder = _snapshot_of(Path(checkpoint))
    if folder is None:
        return None
    try:
        manifest = checked_manifest(own_folder(folder))
        if STATE not in manifest.parts:
            return None  # a checkpoint of the learner alone
        state: StateDict = read_tree(manifest.path(STATE), FILE_KIND)
        return {**state, **manifest.notes}
    except (FileRefusedError, SafeFileError) as error:
        good = next(good_snapshots(folder.parent), None)
        offer = "there is no good one" if good is None else f"the newest good one is {good}"
        raise FileRefusedError(f"the saved state {folder} is refused: {error}; {offer}") from error
    except FileNotFoundError:
        return None


def copied_state(parts: SerialParts, with_buffer: bool = True) -> tuple[StateDict, str]:
    """Copy the state of a run, except the learner's; return it and a note about the ongoing episodes.

    Args:
        with_buffer: Whether to include the replay buffer.
    """
    ongoing, episodes = ongoing_state(parts)
    state: dict[str, Any] = {"random": generator_states(), "cfg_seed": int(parts.cfg.seed), "ongoing": ongoing}
    for key in ("collector", "evaluator"):
        state[key] = copy.deepcopy(state_of(getattr(parts, key)))
    # A buffer returns copies.
    state["buffer"] = state_of(parts.buffer) if with_buffer else None
    return state | {key: copy.deepcopy(one.state_dict()) for key, one in parts.saved.items()}, episodes


def take_up(state: StateDict, parts: SerialParts, source: str) -> None:
    """Restore a :func:`copied_state`.

    Args:
        source: Origin of the state, for messages.
    """
    for key in ("collector", "evaluator", "buffer"):
        if state[key] is not None:
            getattr(parts, key).load_state_dict(state[key])
    best = Path(parts.cfg.exp_name, "ckpt", BEST_CKPT_NAME)
    if isinstance(parts.evaluator, SerialEvaluator) and not best.exists():
        parts.evaluator.forget_best()  # the best one is in the folder of the previous run
    for key, one in parts.saved.items():
        if state.get(key) is not None:
            one.load_state_dict(state[key])
        else:
            # The snapshot predates this part, or the part could not be saved safely.
            logger.warning("the saved state %s holds no %s, which is not taken up", source, key.replace("_", " "))
    # Older snapshots have no ongoing episodes.
    load_ongoing(parts, state.get("ongoing"))
    evaluate_anew(parts, state["random"])


def progress_of(parts: SerialParts) -> dict[str, int]:
    """Return the progress of a run for the notes of a snapshot."""
    return {"train_iter": parts.learner.train_iter, "env_step": int(parts.collector.envstep)}


def note_stop(parts: SerialParts) -> None:
    """Keep the end state of an agent's run for its next one; policy and buffer are kept unchanged.

    A run that failed before its first step leaves nothing to continue, not even its folder.
    """
    progress = progress_of(parts)
    if parts.kept is not None and any(progress.values()):
        state, _ = copied_state(parts, with_buffer=False)
        parts.kept.stopped = {**state, **progress}


def take_up_stop(parts: SerialParts) -> bool:
    """Continue from the end of the agent's last run; return whether there was one."""
    if parts.kept is None or parts.kept.stopped is None:
        return False
    state = parts.kept.stopped
    parts.learner.last_iter.update(state["train_iter"])
    parts.learner.collector_envstep = parts.collector.envstep = state["env_step"]
    take_up(state, parts, "of the run before")
    return True


def evaluate_anew(parts: SerialParts, random_state: dict[str, Any]) -> None:
    """Restart evaluations from known seeds, without changing the restored global generators."""
    seed_evaluation(parts.evaluator_env, parts.cfg.seed)
    set_generator_states(random_state)


def newest_good_snapshot(exp_dir: str | Path) -> Path | None:
    """Return the newest good snapshot of an experiment; damaged ones are logged and skipped."""
    return next(good_snapshots(Path(exp_dir) / "ckpt"), None)


def _snapshot_of(checkpoint: Path) -> Path | None:
    """Return the snapshot ``checkpoint``, or the one with the same learner; ``None`` if there is none."""
    if checkpoint.is_dir():
        return checkpoint
    snapshot = checkpoint.with_name(checkpoint.name.removesuffix(CLASSIC_SUFFIX).replace("iteration_", "snapshot_"))
    try:
        learner = read_manifest(snapshot).path(LEARNER)
        same = learner.read_bytes() == checkpoint.read_bytes()
    except FileNotFoundError:
        return None
    return snapshot if same else None


def state_of(worker: object) -> object:
    """Return the worker's state; ``None`` for a missing worker, or a user-defined one without state."""
    if worker is None:
        return None
    if not hasattr(worker, "state_dict"):
        logger.info("a %s has no state_dict; the run will go on with a new one", type(worker).__name__)
        return None
    return worker.state_dict()
