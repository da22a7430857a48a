"""`serial_pipeline_gail`: imitation of an expert by a discriminator of its steps and the agent's."""

import os
from collections.abc import Sequence

import torch
from easydict import EasyDict

from ding.entry.application_entry import collect_demo_data
from ding.entry.callbacks import RunCallback
from ding.entry.serial.reward_path import run_with_reward_model
from ding.entry.serial_entry import InputConfig, load_input
from ding.entry.view.views import RunView
from ding.policy import Policy
from ding.reward_model import BaseRewardModel


def serial_pipeline_gail(
    input_cfg: InputConfig,
    expert_cfg: InputConfig,
    seed: int = 0,
    model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    collect_data: bool = True,
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train an off-policy algorithm by GAIL on demonstrations of an expert, and return the policy.

    The expert plays ``reward_model.collect_count`` steps, which become ``<data_path>/expert_data.pkl``; its weights are
    ``policy.load_path`` of its config, or ``reward_model.expert_model_path``. ``reward_model.data_path`` is by default
    the experiment folder. Evaluations report the env's rewards.

    Other arguments, what a run leaves behind, and how it ends are those of `serial_pipeline`; the discriminator's
    states are in ``reward_model/ckpt/``.

    Args:
        expert_cfg: Config of the expert, like ``input_cfg``.
        collect_data: Whether to play the expert; False takes the data that is there.
    """

    def prepare(cfg: EasyDict) -> None:
        rewards = cfg.reward_model
        rewards.data_path = rewards.get("data_path") or cfg.exp_name
        if collect_data:
            main, create = load_input(expert_cfg)
            main.exp_name = os.path.join(cfg.exp_name, "expert")
            weights = main.policy.get("load_path") or rewards.get("expert_model_path")
            path = os.path.join(rewards.data_path, "expert_data.pkl")
            collect_demo_data((main, create), seed, rewards.collect_count, path, state_dict_path=weights)

    expert_option = () if not isinstance(expert_cfg, str) else ("--expert-config", expert_cfg)
    return run_with_reward_model(
        False,
        input_cfg,
        seed,
        None,
        model,
        max_train_iter,
        max_env_step,
        view,
        strict,
        callbacks,
        "serial_gail",
        expert_option,
        prepare,
    )


def save_reward_model(path: str, reward_model: BaseRewardModel, weights_name: str = "best") -> str:
    """Write the model's state to ``<path>/reward_model/ckpt/ckpt_<weights_name>.pth.tar``; returns where."""
    return reward_model.save(path, weights_name)
