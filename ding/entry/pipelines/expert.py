"""Pipelines that learn from an expert as well: demonstrations in a separate buffer, mixed into each batch."""

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

    The agent's config has ``policy.learn.expert_replay_buffer_size`` (number of demonstrations; 0: none),
    ``policy.learn.per_train_iter_k``, ``policy.collect.pho`` (fraction of demonstrations in a batch) and
    ``policy.collect.model_path``, the expert's checkpoint. The expert's policy has the same type as the agent's, so
    that its samples have the same fields; its weights may come from any policy with the same network, such as a plain
    DQN.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.

    Args:
        expert_cfg: Path of the expert's config, or its pair of configs; not modified. Its envs are those of the agent.
        expert_model: Network of the expert; by default the policy's own.

    Raises:
        ConfigError: A config is invalid, or the checkpoint does not exist.
    """
    return run_with_expert(arguments, "serial_dqfd", _dqfd_mix, _model_path)


def _model_path(cfg: EasyDict, expert: EasyDict) -> str | None:
    found: str | None = cfg.policy.collect.get("model_path") or expert.policy.collect.get("model_path")
    return found


def _dqfd_mix(cfg: EasyDict, expert: EasyDict) -> Mix:
    """Use ``learn.expert_replay_buffer_size`` demonstrations, alone in the first ``learn.per_train_iter_k`` updates."""
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

    The expert's config has ``policy.learn.expert_replay_buffer_size`` (number of demonstrations, each a sequence) and
    ``policy.collect.model_path``, its checkpoint; the agent's config may have them instead. The agent's config has
    ``policy.learn.per_train_iter_k`` (number of updates from demonstrations alone) and ``policy.collect.pho`` (fraction
    of demonstrations in a batch). The expert's policy is ``r2d3`` or ``r2d2_collect_traj``, both with the weights of
    R2D2, or ``offppo_collect_traj`` with those of PPO; its sequences are as long as the agent's.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.

    Args:
        expert_cfg: Path of the expert's config, or its pair of configs; not modified. Its envs are those of the agent.
        expert_model: Network of the expert; by default the policy's own.

    Raises:
        ConfigError: A config is invalid, or the checkpoint does not exist.
    """
    return run_with_expert(arguments, "serial_r2d3", _r2d3_mix, _r2d3_model_path)


def _r2d3_model_path(cfg: EasyDict, expert: EasyDict) -> str | None:
    found: str | None = expert.policy.collect.get("model_path") or cfg.policy.collect.get("model_path")
    return found


def _r2d3_mix(cfg: EasyDict, expert: EasyDict) -> Mix:
    """Use ``learn.expert_replay_buffer_size`` demonstrations, preferably by the expert's config."""
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
    """Train a policy to imitate a trained one without the rewards of the env, and return it.

    In each pass agent and expert collect ``policy.collect.n_sample`` samples each. The expert's samples get reward 1,
    the agent's reward 0, and half of each batch comes from each. The agent may use any algorithm with a replay buffer,
    usually soft Q-learning (``sql``), and the expert any policy whose samples have the same fields.
    ``policy.collect.model_path`` is the expert's checkpoint; ``policy.expert_random_collect_size`` samples of the
    expert are collected before the first pass.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.

    Args:
        expert_cfg: Path of the expert's config, or its pair of configs; not modified. Its envs are those of the agent.
        expert_model: Network of the expert; by default the policy's own.

    Raises:
        ConfigError: A config is invalid, or the checkpoint does not exist.
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
