"""The last weights of a parallel run are evaluated once more, after its processes have ended."""

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from easydict import EasyDict

from ding.config.sections import dig
from ding.entry.application_entry import evaluate
from ding.entry.parallel.reports import judged_by
from ding.entry.view.status import RunStatus
from ding.utils.checkpoint import train_iter_of

logger = logging.getLogger("ding.entry")


def evaluated_at_end(
    status: RunStatus, main: Mapping[str, Any], create: Mapping[str, Any], seed: int, checkpoint: str | None
) -> RunStatus:
    """Return the last status of a run with an evaluation of its last checkpoint, as ``ding -m eval`` would do it.

    The status stays as it is where the last evaluation was of these weights, where no evaluation of the run came to
    its end (an episode may have none), and in games of several players. An evaluation that fails is a warning: the run
    itself came to its end.

    Args:
        main, create: the configs of the run.
        checkpoint: path of the last checkpoint; ``None`` without one.
    """
    train_iter = None if checkpoint is None else train_iter_of(checkpoint)
    solo = dig(create, "commander").get("type", "solo") == "solo"
    if not train_iter or status.last_return is None or not solo:
        return status
    if status.last_evaluation is not None and status.last_evaluation.train_iter == train_iter:
        return status
    # In processes: an env that ends its process must not end this one.
    own = EasyDict(deepcopy({**create, "env_manager": {"type": "subprocess"}}))
    try:
        found = evaluate((main, own), seed=seed, load_path=checkpoint)
    except Exception as error:  # noqa: BLE001 - whatever envs and checkpoints raise is reported
        logger.warning("the last weights are not evaluated: %s", error)
        return status
    return judged_by(status, replace(found, train_iter=train_iter))
