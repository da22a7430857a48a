"""Pipeline of procedure cloning: a policy learns the search procedure of an expert."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data.roles import Samples
from ding.entry.pipelines.cloning import CloningPath, num_epochs
from ding.entry.serial.arguments import InputConfig, RunArguments
from ding.entry.serial.parts import EnvSetting
from ding.entry.serial.shape_check import is_our_network
from ding.entry.serial_entry import opened_run
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.views import RunView
from ding.policy import Policy, ProcedureCloningBFSPolicy, get_policy_cls
from ding.policy.pc import search_loss
from ding.utils.data import PCDataset, load_bfs_datasets

logger = logging.getLogger("ding.entry")

_MAZE_SIZE = 16


def serial_pipeline_pc(
    input_cfg: InputConfig,
    seed: int = 0,
    model: torch.nn.Module | None = None,
    max_iter: int = int(1e6),
    *,
    env_setting: EnvSetting | None = None,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> tuple[Policy, bool]:
    """Train a policy to search mazes like an expert, and return it with whether it reached ``env.stop_value``.

    The expert searches the mazes of the seeds from 0 to ``train_seeds`` (a key of the main config), which have
    ``policy.maze_size`` cells along an axis and ``env.wall_type``; the policy learns the steps of these searches,
    reshuffled in each of the ``policy.learn.train_epoch`` epochs. After each epoch its loss and its accuracy on the
    cells of five more mazes are logged. The env is used only for evaluations.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run; the
    untrained policy is not evaluated.

    Args:
        max_iter: Limit of train iterations.

    Returns:
        The policy, and whether the last evaluation reached ``env.stop_value``.

    Raises:
        ConfigError: The config is invalid, or has another policy.
    """
    arguments = RunArguments(
        input_cfg, seed, env_setting, model, max_iter, view=view, strict=strict, callbacks=callbacks
    )
    with opened_run(arguments, commanded=False) as run:
        kind = run.cfg.policy.type
        if not issubclass(get_policy_cls(run.cfg.policy), ProcedureCloningBFSPolicy):
            raise ConfigValueError(
                f"serial_pipeline_pc trains policy.type 'pc_bfs', or one of its kind, found {kind!r}"
            )
        epochs, (training, test) = num_epochs(run.cfg), _searches(run.cfg)
        with run.parts(with_buffer=False, collects=False) as parts:
            _check_planes(parts.policy, run.cfg.policy.model, training)
            data = ProcedurePath(parts, training, test)
            status = run.train(parts, data, "serial_pc", (), min(max_iter, epochs * data.batches_per_epoch))
            return parts.policy, status.solved


def _searches(cfg: EasyDict) -> tuple[PCDataset, PCDataset]:
    train_seeds, size = cfg.get("train_seeds"), cfg.policy.get("maze_size") or _MAZE_SIZE
    if not isinstance(train_seeds, int) or train_seeds < 1:
        raise ConfigValueError(f"train_seeds must be the number of mazes to learn from, got {train_seeds!r}")
    try:
        return load_bfs_datasets(train_seeds, size=int(size), wall_type=cfg.env.get("wall_type", "tunnel"))
    except ValueError as error:
        raise ConfigValueError(f"policy.maze_size={size}: {error}") from error


def _check_planes(policy: Policy, model_cfg: EasyDict, dataset: PCDataset) -> None:
    """Compare ``policy.model.obs_shape`` with the planes of observations and maps."""
    wanted, seen = model_cfg.get("obs_shape"), dataset.row_shapes["obs"][-1]
    planes = seen + policy.learn_mode.get_attribute("num_actions") + 1
    if is_our_network(type(policy), model_cfg) and wanted is not None and wanted[0] != planes:
        raise ConfigValueError(
            f"policy.model.obs_shape[0] must be {planes}, {seen} planes of an observation and one for each action and "
            f"for 'not known', got {wanted}"
        )


class ProcedurePath(CloningPath):
    """Samples steps of searches, and validates on those of other mazes after each epoch."""

    def evaluation_clock(self) -> int | None:
        # -1, the evaluator's initial value, skips the evaluation: an untrained network's search rarely ends.
        return self._parts.learner.train_iter or -1

    def batches(self) -> Iterator[Samples]:
        yield from self._path.batches()

    def trained(self) -> None:
        super().trained()
        done = self._parts.learner.train_iter
        if done % self.batches_per_epoch == 0:
            self._validate(done)

    def _validate(self, train_iter: int) -> None:
        """Log loss and accuracy on the validation set."""
        policy = self._parts.policy.learn_mode
        model, device, num_actions = (policy.get_attribute(name) for name in ("model", "device", "num_actions"))
        count, size, sums = len(self._validation), int(policy.get_attribute("batch_size")), np.zeros(2)
        model.eval()
        with torch.no_grad():
            for start in range(0, count, size):
                rows = self._validation.rows_at(np.arange(start, min(start + size, count)))
                batch = {name: torch.as_tensor(column, device=device) for name, column in rows.items()}
                loss_and_accuracy = torch.stack(search_loss(model, batch, num_actions))
                sums += len(rows["obs"]) * loss_and_accuracy.cpu().numpy()
        numbers: dict[str, Any] = dict(zip(("validation_loss", "validation_acc"), (sums / count).tolist()))
        logger.info("%s after %d train iterations", ", ".join(f"{k} {v:.4f}" for k, v in numbers.items()), train_iter)
        if self._parts.learner.tb_logger is not None:
            for name, value in numbers.items():
                self._parts.learner.tb_logger.add_scalar(name, value, train_iter)
