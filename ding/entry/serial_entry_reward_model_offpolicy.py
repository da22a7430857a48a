"""`serial_pipeline_reward_model_offpolicy`: off-policy training on rewards that a model estimates."""

from collections.abc import Sequence

import torch

from ding.entry.callbacks import RunCallback
from ding.entry.serial.parts import EnvSetting
from ding.entry.serial.reward_path import run_with_reward_model
from ding.entry.serial_entry import InputConfig
from ding.entry.view.views import RunView
from ding.policy import Policy


def serial_pipeline_reward_model_offpolicy(
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
    """Train an off-policy algorithm and a reward model (``rnd``, ``icm``, ...) beside it, and return the policy.

    ``create_config.reward_model`` names the model, section ``reward_model`` of the main config configures it. It learns
    from each collection, and estimates the rewards of each batch that is drawn. Evaluations report the env's rewards.

    Arguments, what a run leaves behind, and how it ends are those of `ding.entry.serial_entry.serial_pipeline`; the
    model's states are in ``reward_model/ckpt/``.
    """
    return run_with_reward_model(
        False, input_cfg, seed, env_setting, model, max_train_iter, max_env_step, view, strict, callbacks
    )
