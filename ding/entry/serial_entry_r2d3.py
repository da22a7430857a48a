"""`serial_pipeline_r2d3`: sequences of demonstrations beside a replay buffer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.data.roles import Samples
from ding.data.sequences import stacked_sequence
from ding.entry.callbacks import RunCallback
from ding.entry.serial.expert_path import Mix, mark_expert, random_share, replay_buffer_of, run_with_expert
from ding.entry.serial.parts import EnvSetting
from ding.entry.serial_entry import InputConfig
from ding.entry.view.views import RunView
from ding.policy import Policy
from ding.utils.default_helper import map_nested


def serial_pipeline_r2d3(
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
    """Train R2D3 with demonstrations of a trained policy and return the new policy.

    The expert's config has ``policy.learn.expert_replay_buffer_size`` (the number of demonstrations, each a sequence)
    and ``policy.collect.model_path``, its checkpoint; the agent's may have them instead. The agent's has
    ``policy.learn.per_train_iter_k`` (updates from the demonstrations alone) and ``policy.collect.pho`` (the share of
    demonstrations in a batch). The expert's policy is ``r2d3`` itself or ``r2d2_collect_traj``, both with the weights
    of R2D2, or ``offppo_collect_traj`` with those of PPO; its sequences are as long as the agent's.

    Args:
        expert_cfg: Path of the expert's config, or its pair of configs; not changed. Its envs are those of the agent.
        expert_model: The expert's network; the policy's default when not given.

    Other arguments, what a run leaves behind, and how it ends are those of
    `ding.entry.serial_entry.serial_pipeline`.

    Raises:
        ConfigError: A config is wrong, or there is no such checkpoint.
    """
    return run_with_expert(
        _mix, _model_path, "serial_r2d3", input_cfg, expert_cfg, seed, env_setting, model, expert_model,
        max_train_iter, max_env_step, view, strict, callbacks,
    )  # fmt: skip


def _model_path(cfg: EasyDict, expert: EasyDict) -> str | None:
    return expert.policy.collect.get("model_path") or cfg.policy.collect.get("model_path")


def _mix(cfg: EasyDict, expert: EasyDict) -> Mix:
    """``learn.expert_replay_buffer_size`` demonstrations, by the expert's config where that has it."""
    learns = (expert.policy.learn, cfg.policy.learn)
    count, alone = (_first(learns, key) for key in ("expert_replay_buffer_size", "per_train_iter_k"))
    return Mix(
        mark_expert,
        random_share(cfg.policy.collect.pho),
        replay_buffer_of(cfg, count),
        first_count=count,
        lone_updates=alone,
        completed=_completed,
    )


def _completed(samples: Samples, agent: Policy) -> Samples:
    """Sequences of an expert without memory, with empty states of the agent's kind."""
    if not len(samples) or "prev_state" in samples[0]:
        return samples
    rows = [stacked_sequence(sample) for sample in samples]
    output: Any = agent.collect_mode.forward({0: rows[0]["obs"][0]}, eps=0.0)
    agent.collect_mode.reset(data_id=[0])
    state = map_nested(torch.zeros_like, output[0]["prev_state"])
    return [{**row, "prev_state": state, "null": np.zeros(len(row["done"]), dtype=np.bool_)} for row in rows]


def _first(sections: Sequence[Mapping[str, Any]], key: str) -> int:
    return int(next((section[key] for section in sections if section.get(key)), 0))
