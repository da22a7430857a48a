"""Pipelines that learn beside an expert: demonstrations in a buffer of their own, mixed into each batch."""

from collections.abc import Mapping, Sequence
from typing import Any

from easydict import EasyDict

from ding.entry.serial.arguments import RunArguments, called_as, learning_beside_expert
from ding.entry.serial.expert_path import Mix, mark_expert, random_share, replay_buffer_of, run_with_expert
from ding.policy import Policy, R2D3Policy
from ding.reward_model.sqil import with_rewards_of_imitation as with_rewards_of_imitation


@called_as(learning_beside_expert)
def serial_pipeline_dqfd(arguments: RunArguments) -> Policy:
    """Train DQfD with demonstrations of a trained policy and return the new policy.

    The agent's config has ``policy.learn.expert_replay_buffer_size`` (the number of demonstrations; 0: none),
    ``policy.learn.per_train_iter_k``, ``policy.collect.pho`` (the share of demonstrations in a batch) and
    ``policy.collect.model_path``, the expert's checkpoint. The expert's policy has the type of the agent's, so that its
    samples have the same fields; the weights may be those of any policy with the same network, as a plain DQN.

    Other arguments, what a run leaves behind, and how it ends are those of
    ``ding.entry.serial_entry.serial_pipeline``.

    Args:
        expert_cfg: path of the expert's config, or its pair of configs; not changed. Its envs are those of the agent.
        expert_model: the expert's network; the policy's default when not given.

    Raises:
        ConfigError: a config is wrong, or there is no such checkpoint.
    """
    return run_with_expert(arguments, "serial_dqfd", _dqfd_mix, _model_path)


def _model_path(cfg: EasyDict, expert: EasyDict) -> str | None:
    found: str | None = cfg.policy.collect.get("model_path") or expert.policy.collect.get("model_path")
    return found


def _dqfd_mix(cfg: EasyDict, expert: EasyDict) -> Mix:
    """``learn.expert_replay_buffer_size`` demonstrations, alone for the first ``learn.per_train_iter_k`` updates."""
    count = int(cfg.policy.learn.get("expert_replay_buffer_size", 0))
    return Mix(
        mark_expert,
        random_share(cfg.policy.collect.pho),
        replay_buffer_of(cfg, count),
        first_count=count,
        lone_updates=int(cfg.policy.learn.per_train_iter_k),
    )


@called_as(learning_beside_expert)
def serial_pipeline_r2d3(arguments: RunArguments) -> Policy:
    """Train R2D3 with demonstrations of a trained policy and return the new policy.

    The expert's config has ``policy.learn.expert_replay_buffer_size`` (the number of demonstrations, each a sequence)
    and ``policy.collect.model_path``, its checkpoint; the agent's may have them instead. The agent's has
    ``policy.learn.per_train_iter_k`` (updates from the demonstrations alone) and ``policy.collect.pho`` (the share of
    demonstrations in a batch). The expert's policy is ``r2d3`` itself or ``r2d2_collect_traj``, both with the weights
    of R2D2, or ``offppo_collect_traj`` with those of PPO; its sequences are as long as the agent's.

    Other arguments, what a run leaves behind, and how it ends are those of
    ``ding.entry.serial_entry.serial_pipeline``.

    Args:
        expert_cfg: path of the expert's config, or its pair of configs; not changed. Its envs are those of the agent.
        expert_model: the expert's network; the policy's default when not given.

    Raises:
        ConfigError: a config is wrong, or there is no such checkpoint.
    """
    return run_with_expert(arguments, "serial_r2d3", _r2d3_mix, _r2d3_model_path)


def _r2d3_model_path(cfg: EasyDict, expert: EasyDict) -> str | None:
    found: str | None = expert.policy.collect.get("model_path") or cfg.policy.collect.get("model_path")
    return found


def _r2d3_mix(cfg: EasyDict, expert: EasyDict) -> Mix:
    """``learn.expert_replay_buffer_size`` demonstrations, by the expert's config where that has it."""
    learns = (expert.policy.learn, cfg.policy.learn)
    count, alone = (_first_given(learns, key) for key in ("expert_replay_buffer_size", "per_train_iter_k"))
    return Mix(
        mark_expert,
        random_share(cfg.policy.collect.pho),
        replay_buffer_of(cfg, count),
        first_count=count,
        lone_updates=alone,
        completed=lambda samples, agent: agent.completed(samples) if isinstance(agent, R2D3Policy) else samples,
    )


def _first_given(sections: Sequence[Mapping[str, Any]], key: str) -> int:
    return int(next((section[key] for section in sections if section.get(key)), 0))


@called_as(learning_beside_expert)
def serial_pipeline_sqil(arguments: RunArguments) -> Policy:
    """Train a policy to do what a trained one does, without the rewards of the env, and return it.

    In each pass the agent and the expert collect ``policy.collect.n_sample`` samples each. Those of the expert get
    reward 1, those of the agent reward 0, and half of each batch comes from each. The agent's algorithm is any that
    learns from a replay buffer, usually soft Q-learning (``sql``), and the expert's policy one whose samples have the
    same fields. ``policy.collect.model_path`` is the expert's checkpoint; ``policy.expert_random_collect_size``
    samples of the expert come before the first pass.

    Other arguments, what a run leaves behind, and how it ends are those of
    ``ding.entry.serial_entry.serial_pipeline``.

    Args:
        expert_cfg: path of the expert's config, or its pair of configs; not changed. Its envs are those of the agent.
        expert_model: the expert's network; the policy's default when not given.

    Raises:
        ConfigError: a config is wrong, or there is no such checkpoint.
    """
    return run_with_expert(arguments, "serial_sqil", _sqil_mix, _model_path)


def _sqil_mix(cfg: EasyDict, expert: EasyDict) -> Mix:
    return Mix(
        with_rewards_of_imitation,
        lambda size: size // 2,
        replay_buffer_of(expert, expert.policy.other.replay_buffer.replay_buffer_size),
        first_count=int(cfg.policy.get("expert_random_collect_size", 0)),
        pass_count=int(cfg.policy.collect.n_sample),
    )
