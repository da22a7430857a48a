"""Pipelines without a replay buffer: each pass trains on what it collected, and keeps none of it."""

from collections.abc import Sequence

import torch

from ding.data.level_replay import generate_seeds as generate_seeds
from ding.entry.serial.level_path import LevelReplayPath
from ding.entry.serial.loop import OnPolicyPath
from ding.entry.serial.parts import EnvSetting
from ding.entry.serial_entry import InputConfig, RunArguments, opened_run, run_pipeline
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.views import RunView
from ding.policy import Policy


def serial_pipeline_onpolicy(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train an on-policy algorithm and return its policy: each pass trains on what it collected, and forgets it.

    Arguments, what a run leaves behind, and how it ends are those of ``ding.entry.serial_entry.serial_pipeline``.
    """
    arguments = RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, max_env_step, view=view, strict=strict, callbacks=callbacks
    )
    return run_pipeline(OnPolicyPath, arguments)


def serial_pipeline_onpolicy_ppg(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train PPG (``ppg``) and return its policy: each pass trains on what it collected.

    Arguments, what a run leaves behind, and how it ends are those of ``ding.entry.serial_entry.serial_pipeline``. The
    collector's envs begin each episode from their first seeds, and evaluation takes the most likely actions.
    """
    arguments = RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, max_env_step, dynamic_seed=False,
        view=view, strict=strict, callbacks=callbacks,
    )  # fmt: skip
    return run_pipeline(OnPolicyPath, arguments)


def serial_pipeline_plr(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train an on-policy algorithm on levels that come back while there is much to learn in them; return its policy.

    A level is what a procedurally generated env makes of one seed, which each of its episodes begins from. Training has
    the seeds 0 to ``level_replay.num_levels``; ``level_replay`` also has the settings of
    ``ding.data.level_replay.LevelSampler``. Evaluations play other levels, the same
    ones each time, with the most likely actions.

    Other arguments, what a run leaves behind, and how it ends are those of ``ding.entry.serial_entry.serial_pipeline``.
    """
    arguments = RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, max_env_step, dynamic_seed=False,
        view=view, strict=strict, callbacks=callbacks,
    )  # fmt: skip
    with opened_run(arguments) as run, run.parts(with_buffer=False) as parts:
        run.train(parts, LevelReplayPath(parts, run.interruptible), "serial_plr")
        return parts.policy
