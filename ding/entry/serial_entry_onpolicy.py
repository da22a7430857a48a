"""`serial_pipeline_onpolicy`: one process, one loop, no replay buffer."""

from collections.abc import Sequence

import torch

from ding.entry.callbacks import RunCallback
from ding.entry.serial.data_path import OnPolicyPath
from ding.entry.serial.parts import EnvSetting
from ding.entry.serial_entry import InputConfig, run_pipeline
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

    Arguments, what a run leaves behind, and how it ends are those of `ding.entry.serial_entry.serial_pipeline`.
    """
    return run_pipeline(
        OnPolicyPath, input_cfg, seed, env_setting, model, max_train_iter, max_env_step, True, view, strict, callbacks
    )
