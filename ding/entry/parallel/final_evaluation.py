"""End of a run of several processes: evaluates the last weights once more, and writes the result."""

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from easydict import EasyDict

from ding.entry.application_entry import evaluate
from ding.entry.parallel.best_policy import keep_as_best, read_best
from ding.entry.parallel.reports import finish_run, judged_by, keep_final_checkpoint
from ding.entry.view.status import RunStatus
from ding.utils.checkpoint import train_iter_of

logger = logging.getLogger("ding.entry")

Configs = tuple[Mapping[str, Any], Mapping[str, Any]]


def finish_evaluated(end: RunStatus, configs: Configs, seed: int) -> tuple[RunStatus, dict[str, Any], str]:
    """Evaluate the last checkpoint of a run with :func:`evaluated_at_end`, and write ``result.json``.

    Args:
        end: Last status of the run.
        configs: Main and create config of the run, as given.

    Returns:
        The status with that evaluation, the content of ``result.json``, and a sentence about the end.
    """
    checkpoint = keep_final_checkpoint(end.exp_name, end.train_iter)
    # Before anything else, as the evaluation may be interrupted.
    finish_run(end, checkpoint)
    end = evaluated_at_end(end, *configs, seed, checkpoint)
    return end, *finish_run(end, checkpoint)


def evaluated_at_end(
    status: RunStatus, main: Mapping[str, Any], create: Mapping[str, Any], seed: int, checkpoint: str | None
) -> RunStatus:
    """Return the last status of a run, extended by an evaluation of its last checkpoint as by ``ding -m eval``.

    The best evaluation is the one whose weights the run keeps. In a two-player game the opponent is that of the last
    evaluation. If the result is the best of the run, a copy of the checkpoint becomes its best policy. The evaluation
    is skipped if the last one had the same weights, or if no evaluation of the run was completed (an episode may never
    end). A failed evaluation is logged as a warning, because the run itself has ended normally.

    Args:
        main, create: Configs of the run.
        checkpoint: Path of the last checkpoint; ``None`` without one.
    """
    kept = read_best(status.exp_name)
    best = status.best_evaluation
    if kept is not None and best is not None and not best.is_better_than(kept):
        # Reports may be rarer than evaluations: the coordinator has seen all of them.
        status = replace(status, best_evaluation=kept, best_return=kept.mean)
    train_iter = None if checkpoint is None else train_iter_of(checkpoint)
    if checkpoint is None or not train_iter or status.last_return is None:
        return status
    last = status.last_evaluation
    if last is not None and last.train_iter == train_iter:
        return status
    opponent = None if last is None else last.opponent
    own_main = main if opponent is None else {**main, "env": {**main["env"], "eval_opponent": opponent}}
    # In processes: an env that ends its process must not end this one.
    own_create = {**create, "env_manager": {"type": "subprocess"}}
    try:
        own = (EasyDict(deepcopy(own_main)), EasyDict(deepcopy(own_create)))
        found = replace(evaluate(own, seed=seed, load_path=checkpoint), train_iter=train_iter, opponent=opponent)
        if all(map(found.is_better_than, (kept, status.best_evaluation))):
            keep_as_best(status.exp_name, checkpoint, found)
    except Exception as error:  # noqa: BLE001 - any error of envs and checkpoints is reported
        logger.warning("the last weights are not evaluated: %s", error)
        return status
    return judged_by(status, found)
