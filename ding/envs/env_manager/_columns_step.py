"""One vector step over envs in the own process, with one Python call per env and array operations for the rest."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ding.data import SchemaError, TimestepBatch
from ding.data.columns import Columns, row_list
from ding.envs.env._actions import to_env_action
from ding.envs.env_manager._obs_check import Complaint, ObsStacker, has_nan

_DISCRETE = spaces.Discrete(1)


def action_rows(columns: Columns, size: int, discrete: bool) -> list[Any]:
    """One action per env: Python ints for a discrete action space, else arrays (or what a list column holds).

    Args:
        columns: ``[N]``, ``[N, 1]`` or ``[N, d]``, a tensor or an array; or a dict of such columns.
        size: N.
        discrete: whether the action space is ``Discrete``.
    """
    if isinstance(columns, (torch.Tensor, np.ndarray)):
        if discrete and columns.ndim <= 2:
            flat = columns.reshape(-1).tolist()
            if len(flat) == size:
                return flat
        if isinstance(columns, torch.Tensor):
            columns = columns.detach().cpu().numpy()
        return columns.tolist() if columns.ndim == 1 else list(columns)
    rows = [array_row(row) for row in row_list(columns, size)]
    return [to_env_action(row, _DISCRETE) for row in rows] if discrete else rows


def array_row(row: Any) -> Any:
    """A row of an action column as an env takes it: tensors as arrays."""
    if isinstance(row, torch.Tensor):
        return row.detach().cpu().numpy()
    if isinstance(row, dict):
        return {key: array_row(value) for key, value in row.items()}
    return row


def flags_at(positions: list[int], size: int) -> np.ndarray:
    """bool ``[size]``, True at these positions."""
    flags = np.zeros(size, dtype=np.bool_)
    if positions:
        flags[positions] = True
    return flags


def reward_array(rewards: Sequence[Any], env_ids: Sequence[int], check: bool, complain: Complaint) -> np.ndarray:
    """Rewards as float64 ``[N]``.

    Raises:
        Exception: what ``complain`` makes, for a reward that is no number, has several elements or is NaN.
    """
    try:
        array = np.array(rewards, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or len(array) != len(rewards):
        if array.size != len(rewards):
            _name_bad_reward(rewards, env_ids, complain)
        array = np.array([np.asarray(reward, dtype=np.float64).item() for reward in rewards])
    if check and has_nan(array):
        raise complain(list(env_ids)[int(np.flatnonzero(np.isnan(array))[0])], "NaN in the reward")
    return array


def _name_bad_reward(rewards: Sequence[Any], env_ids: Sequence[int], complain: Complaint) -> None:
    for env_id, reward in zip(env_ids, rewards):
        kind = np.asarray(reward)
        if kind.size != 1 or kind.dtype.kind not in "fiub":
            raise complain(env_id, f"reward {reward!r}, expected one number")


def timesteps_of(steps: dict[int, Any], stacker: ObsStacker, check: bool, complain: Complaint) -> TimestepBatch:
    """The batch of classic timesteps (objects with ``obs, reward, done, info``), keyed by env id.

    The timesteps themselves stay the rows of the batch.
    """
    env_ids = list(steps)
    obs = stacker.stack([step.obs for step in steps.values()], env_ids)
    try:
        batch = TimestepBatch.from_dict(steps)
    except SchemaError:
        # Ragged observations or rewards, which the stacker has let pass.
        infos = {i: step.info for i, step in enumerate(steps.values()) if step.info}
        done = np.array([bool(np.all(step.done)) for step in steps.values()], dtype=np.bool_)
        rewards = [step.reward for step in steps.values()]
        return TimestepBatch(np.array(env_ids), obs, rewards, done, np.zeros(len(done), np.bool_), infos)
    if check and isinstance(batch.reward, np.ndarray) and has_nan(batch.reward):
        bad = np.isnan(batch.reward).reshape(len(env_ids), -1).any(axis=1)
        raise complain(env_ids[int(np.flatnonzero(bad)[0])], "NaN in the reward")
    return batch
