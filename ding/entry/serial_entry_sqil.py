"""`serial_pipeline_sqil`: soft Q imitation learning (Reddy et al. 2019, arXiv:1905.11108)."""

from collections.abc import Sequence

import torch
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.data.roles import Samples
from ding.entry.callbacks import RunCallback
from ding.entry.serial.expert_path import Mix, replay_buffer_of, run_with_expert
from ding.entry.serial.parts import EnvSetting
from ding.entry.serial_entry import InputConfig
from ding.entry.view.views import RunView
from ding.policy import Policy


def serial_pipeline_sqil(
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
    """Train a policy to do what a trained one does, without the rewards of the env, and return it.

    In each pass the agent and the expert collect ``policy.collect.n_sample`` samples each. Those of the expert get
    reward 1, those of the agent reward 0, and half of each batch comes from each. The agent's algorithm is any that
    learns from a replay buffer, usually soft Q-learning (``sql``), and the expert's policy one whose samples have the
    same fields. ``policy.collect.model_path`` is the expert's checkpoint; ``policy.expert_random_collect_size``
    samples of the expert come before the first pass.

    Args:
        expert_cfg: Path of the expert's config, or its pair of configs; not changed. Its envs are those of the agent.
        expert_model: The expert's network; the policy's default when not given.

    Other arguments, what a run leaves behind, and how it ends are those of
    `ding.entry.serial_entry.serial_pipeline`.

    Raises:
        ConfigError: A config is wrong, or there is no such checkpoint.
    """
    return run_with_expert(
        _mix, _model_path, "serial_sqil", input_cfg, expert_cfg, seed, env_setting, model, expert_model,
        max_train_iter, max_env_step, view, strict, callbacks,
    )  # fmt: skip


def _model_path(cfg: EasyDict, expert: EasyDict) -> str | None:
    return cfg.policy.collect.get("model_path") or expert.policy.collect.get("model_path")


def _mix(cfg: EasyDict, expert: EasyDict) -> Mix:
    return Mix(
        with_rewards_of_imitation,
        lambda size: size // 2,
        replay_buffer_of(expert, expert.policy.other.replay_buffer.replay_buffer_size),
        first_count=int(cfg.policy.get("expert_random_collect_size", 0)),
        pass_count=int(cfg.policy.collect.n_sample),
    )


def with_rewards_of_imitation(samples: Samples, is_expert: bool) -> Samples:
    """The samples with rewards 1 (the expert's) or 0 in the place of their own."""
    if isinstance(samples, TransitionBatch):
        return samples.with_columns(reward=samples.columns["reward"] * 0 + float(is_expert))
    return [{**sample, "reward": sample["reward"] * 0 + float(is_expert)} for sample in samples]
