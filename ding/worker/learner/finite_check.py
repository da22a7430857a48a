"""Detection of NaN and infinity in the updates of a policy."""

import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ding.data import TransitionBatch
from ding.data.roles import LearnMode, attribute_of
from ding.data.safe_file import SafeFileError, write_tree
from ding.torch_utils.weight_checks import ON_NONFINITE, NonFiniteError
from ding.utils.finite import FLOAT32_MAX, unfit_leaf
from ding.utils.names import check_choice
from ding.utils.nested import iter_paths

log = logging.getLogger(__name__)

# File prefix for the batches of non-finite updates, and maximum number saved for skipped updates.
_FILE_KIND, _SAVED_SKIPS = "ding.batch", 3


class FiniteCheck:
    """Checks each update of a policy for NaN and infinity, and keeps the batch for inspection.

    A check costs microseconds and no device synchronisation: the reported losses are numbers already, and on the CPU
    only one weight tensor is checked, the first of the network, which every non-finite gradient reaches by the chain
    rule. What both checks miss shows in the loss of the next update, so the previous batch is kept, too.

    Args:
        policy: Learn mode; its config defines the reaction (``policy.learn.on_nonfinite``), by default ``'raise'``.
        folder: Folder of the saved batches: ``iteration_<n>.safetensors`` and the batch before it.
    """

    def __init__(self, policy: LearnMode, folder: str) -> None:
        found = attribute_of(policy, "cfg")
        cfg: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        self._mode = cfg.get("learn", {}).get("on_nonfinite", "raise")
        check_choice("policy.learn.on_nonfinite", self._mode, ON_NONFINITE)
        self._folder = folder
        model = attribute_of(policy, "model")
        parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
        first = parameters[0] if parameters else None
        self._probe = first if first is not None and first.device.type == "cpu" and first.is_floating_point() else None
        self._previous: object = None
        #: Number of skipped updates with a non-finite loss.
        self.skipped = 0

    def look(self, logged: Sequence[Mapping[str, Any]], data: object, train_iter: int) -> bool:
        """Check the logged values of an update; return whether they are finite or the check is disabled.

        Raises:
            NonFiniteError: They are not finite, and the run must end. The batches are saved.
        """
        if self._mode == "ignore":
            return True
        bad_losses = [
            f"{key} is {value}"
            for values in logged
            for key, value in values.items()
            if type(value) is float and not math.isfinite(value) and "loss" in key
        ]
        bad_weights = self._probe is not None and not math.isfinite(torch.linalg.vector_norm(self._probe.detach()))
        if not bad_losses and not bad_weights:
            self._previous = data
            return True
        found = bad_losses[:1]
        # Skipping an update cannot repair weights that are already non-finite.
        if self._mode == "skip" and not bad_weights:
            self.skipped += 1
            if self.skipped <= _SAVED_SKIPS or self.skipped & (self.skipped - 1) == 0:
                log.warning(
                    "train iteration %d: %s; its update is left out (no. %d)", train_iter, found[0], self.skipped
                )
            if self.skipped <= _SAVED_SKIPS:
                self._save(data, train_iter)
            return False
        if bad_weights:
            found.append("the weights are NaN or infinite, as the gradient was")
        saved = self._save(data, train_iter)
        self._save(self._previous, train_iter, "_before")
        raise NonFiniteError(
            f"train iteration {train_iter}: {' and '.join(found)}; {_cause(data)}the batch is in {saved}. The "
            "checkpoints before are good; policy.learn.on_nonfinite='skip' leaves such updates out"
        )

    def _save(self, data: object, train_iter: int, mark: str = "") -> str:
        path = os.path.join(self._folder, f"iteration_{train_iter}{mark}.safetensors")
        if data is None:
            return path
        columns = data.columns if isinstance(data, TransitionBatch) else data
        try:
            write_tree(path, columns, _FILE_KIND)
        except (SafeFileError, OSError) as error:
            log.warning("the batch of train iteration %d is not saved: %s", train_iter, error)
        return path


def _cause(data: object) -> str:
    """Describe a batch value that float32 cannot hold, observations first; empty if all fit."""
    columns = data.columns if isinstance(data, TransitionBatch) else data
    leaves = [
        (".".join(key for key in keys if isinstance(key, str)), leaf)
        for keys, leaf in iter_paths(columns, sequences=(list, tuple))
    ]
    are_obs = [path.startswith(("obs", "next_obs")) for path, _ in leaves]
    for group in (True, False):
        found = unfit_leaf(leaf for leaf, is_obs in zip(leaves, are_obs) if is_obs is group)
        if found is not None:
            return f"{found[0]!r} of the batch holds {found[2]:g}, and float32 ends at {FLOAT32_MAX:.2g}; "
    return ""
