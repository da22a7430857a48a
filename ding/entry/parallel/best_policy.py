"""Best policy of a parallel run, saved as ``EXP/ckpt/ckpt_best.pth.tar`` like that of a serial run.

An evaluation in a collector publishes its weights as the policy ``EVALUATED``. If they are the best so far, the
coordinator saves them: the network and the statistics of observations, but no optimiser. The manifest of the checkpoint
stores their result, from which a restarted coordinator and a resumed run continue.
"""

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ding.data.roles import StateDict
from ding.entry.parallel.reports import last_evaluation
from ding.entry.parallel.snapshots import KeptPlanes
from ding.parallel.planes import EVALUATED, ExchangeError
from ding.rollout.evaluation_result import EvaluationResult
from ding.utils.checkpoint import LEARNER, folder_of, link_file, read_manifest, save_checkpoint, write_parts
from ding.utils.file_helper import FileRefusedError
from ding.worker.collector.base_serial_evaluator import BEST_CKPT_NAME

logger = logging.getLogger("ding.entry")

_NOTE = "evaluation"


class BestPolicy:
    """Saves the weights of the best evaluation of a run.

    Args:
        exp_name: Experiment folder.
        kept: Planes with the published weights of evaluations.
    """

    def __init__(self, exp_name: str, kept: KeptPlanes) -> None:
        self._path, self._kept = best_path(exp_name), kept
        self._best = read_best(exp_name)

    def note(self, evaluation: Mapping[str, Any]) -> None:
        """Save the weights of an evaluation if they are the best; a failure to save is logged as a warning.

        Args:
            evaluation: ``last_evaluation`` of a commander's status.
        """
        result = last_evaluation(evaluation)
        if result is None or result.train_iter is None or not result.is_better_than(self._best):
            return
        self._best = result
        try:
            weights = self._kept.weights(EVALUATED).fetch()
            if weights is None or weights.version != result.train_iter:
                logger.warning("the best policy is not kept: the weights of the evaluation did not arrive")
                return
            _save(self._path, weights.state, result)
        except (ExchangeError, OSError, TypeError) as error:
            logger.warning("the best policy is not kept: %s", error)


def best_path(exp_name: str) -> Path:
    """Return the path of a run's best policy."""
    return Path(exp_name) / "ckpt" / BEST_CKPT_NAME


def read_best(exp_name: str) -> EvaluationResult | None:
    """Return the result of the best policy saved by a run; ``None`` before the first."""
    folder = folder_of(best_path(exp_name))
    assert folder is not None
    with contextlib.suppress(OSError, FileRefusedError, LookupError, TypeError):
        return EvaluationResult(**read_manifest(folder).notes[_NOTE])
    return None


def keep_as_best(exp_name: str, checkpoint: str, result: EvaluationResult) -> None:
    """Save a copy of a checkpoint as the best policy of a run.

    Raises:
        OSError: It cannot be written; the previous best policy is intact.
    """
    path = best_path(exp_name)
    folder = folder_of(path)
    assert folder is not None
    write_parts(folder, {LEARNER: lambda target: link_file(checkpoint, target)}, _notes(result))
    link_file(checkpoint, path)


def _save(path: Path, state: StateDict, result: EvaluationResult) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(path, state, _notes(result))


def _notes(result: EvaluationResult) -> dict[str, Any]:
    return {"train_iter": result.train_iter, _NOTE: result.as_dict()}
