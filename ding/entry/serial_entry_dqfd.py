"""`serial_pipeline_dqfd`: demonstrations beside a replay buffer."""

from collections.abc import Sequence

import torch
from easydict import EasyDict

from ding.entry.callbacks import RunCallback
from ding.entry.serial.expert_path import Mix, mark_expert, random_share, replay_buffer_of, run_with_expert
from ding.entry.serial.parts import EnvSetting
from ding.entry.serial_entry import InputConfig
from ding.entry.view.views import RunView
from ding.policy import Policy


def serial_pipeline_dqfd(
    input_cfg: InputConfig,
    expert_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    expert_model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train DQfD with demonstrations of a trained policy and return the new policy.

    The agent's config has ``policy.learn.expert_replay_buffer_size`` (the number of demonstrations; 0: none),
    ``policy.learn.per_train_iter_k``, ``policy.collect.pho`` (the share of demonstrations in a batch) and
    ``policy.collect.model_path``, the expert's checkpoint. The expert's policy has the type of the agent's, so that its
    samples have the same fields; the weights may be those of any policy with the same network, as a plain DQN.

    Args:
        expert_cfg: Path of the expert's config, or its pair of configs; not changed. Its envs are those of the agent.
        expert_model: The expert's network; the policy's default when not given.

    Other arguments, what a run leaves behind, and how it ends are those of
    `ding.entry.serial_entry.serial_pipeline`.

    Raises:
        ConfigError: A config is wrong, or there is no such checkpoint.
    """
    return run_with_expert(
        _mix, _model_path, "serial_dqfd", input_cfg, expert_cfg, seed, env_setting, model, expert_model,
        max_train_iter, max_env_step, view, strict, callbacks,
    )  # fmt: skip


def _model_path(cfg: EasyDict, expert: EasyDict) -> str | None:
    return cfg.policy.collect.get("model_path") or expert.policy.collect.get("model_path")


def _mix(cfg: EasyDict, expert: EasyDict) -> Mix:
    """``learn.expert_replay_buffer_size`` demonstrations, alone for the first ``learn.per_train_iter_k`` updates."""
    count = int(cfg.policy.learn.get("expert_replay_buffer_size", 0))
    return Mix(
        mark_expert,
        random_share(cfg.policy.collect.pho),
        replay_buffer_of(cfg, count),
        first_count=count,
        lone_updates=int(cfg.policy.learn.per_train_iter_k),
    )
