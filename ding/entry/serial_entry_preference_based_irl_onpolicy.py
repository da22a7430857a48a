"""`serial_pipeline_preference_based_irl_onpolicy`: on-policy training on rewards learned from ranked demonstrations."""

from collections.abc import Sequence

import torch

from ding.entry.callbacks import RunCallback
from ding.entry.serial.parts import EnvSetting
from ding.entry.serial.reward_path import ranked_input, run_with_reward_model
from ding.entry.serial_entry import InputConfig
from ding.entry.view.views import RunView
from ding.policy import Policy


def serial_pipeline_preference_based_irl_onpolicy(
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
    """Train an on-policy algorithm on the rewards of ``reward_model.type`` (``trex``), and return the policy.

    The reward model learns once, before the first collection, from the demonstrations that ``trex_collecting_data``
    left in the experiment folder, which is not renamed. Evaluations report the env's rewards.

    Arguments, what a run leaves behind, and how it ends are those of `ding.entry.serial_entry.serial_pipeline`.
    """
    mode = "serial_trex_onpolicy"
    pair = ranked_input(input_cfg)
    return run_with_reward_model(
        True, pair, seed, env_setting, model, max_train_iter, max_env_step, view, strict, callbacks, mode, ranked=True
    )


# Names by which configs call it.
serial_pipeline_trex_onpolicy = serial_pipeline_preference_based_irl_onpolicy
serial_pipeline_reward_model_trex_onpolicy = serial_pipeline_preference_based_irl_onpolicy
