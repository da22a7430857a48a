"""Files of D4RL (Fu et al. 2020, arXiv:2004.07219): where they are, what is in them, and their transitions."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from ding.utils.data._dataset_files import Arrays, DatasetError, check_columns, read_hdf5
from ding.utils.names import did_you_mean

_D4RL_EPISODE_STEPS = 1000
D4RL_KEYS = ("observations", "actions", "rewards", "terminals")


class UnknownRewardNormError(DatasetError, NotImplementedError):
    """A value of ``env.reward_norm`` that is not known."""


def d4rl_path(path: str, env_id: str | None) -> str:
    """Return the file of an env where ``path`` is a folder: ``hopper-medium-v2`` lies in ``hopper_medium-v2.hdf5``."""
    if not os.path.isdir(path):
        return path
    if env_id is None:
        raise FileNotFoundError(f"{path} is a folder; name the file, or the data set as env.env_id")
    name, _, version = env_id.rpartition("-")
    return os.path.join(path, f"{name.replace('-', '_')}-{version}.hdf5")


def read_d4rl(path: str) -> Arrays:
    """Return the arrays of a D4RL file that are used; raises like ``read_hdf5`` and ``check_columns``."""
    arrays = read_hdf5(path)
    used = {key: arrays[key] for key in (*D4RL_KEYS, "timeouts", "next_observations") if key in arrays}
    check_columns(used, D4RL_KEYS, path)
    return used


def d4rl_ends(arrays: Arrays) -> np.ndarray:
    """Which steps are the last of an episode, also by a time limit."""
    terminals = arrays["terminals"].astype(np.bool_)
    if "timeouts" in arrays:
        return terminals | arrays["timeouts"].astype(np.bool_)
    # Without time-outs an episode is cut after the usual number of steps.
    ends, begin = terminals.copy(), 0
    for step in range(len(ends)):
        ends[step] |= step - begin == _D4RL_EPISODE_STEPS - 1
        begin = step + 1 if ends[step] else begin
    return ends


def d4rl_transitions(arrays: Arrays, reward_norm: str | None = None) -> Arrays:
    """Return the transitions of a file, without the last step of an episode that ran into its time limit.

    Args:
        arrays: of :func:`read_d4rl`.
        reward_norm: see :func:`normalised_rewards`.
    """
    terminals = arrays["terminals"].astype(np.bool_)
    # The next observation of a step before a time limit is that of a new episode; so is that of the last step.
    usable = terminals | ~d4rl_ends(arrays)
    next_obs = arrays.get("next_observations")
    if next_obs is None:
        usable[-1] = False
        next_obs = np.concatenate([arrays["observations"][1:], arrays["observations"][-1:]])
    columns = {"obs": arrays["observations"], "next_obs": next_obs, "action": arrays["actions"]}
    result = {key: array[usable].astype(np.float32) for key, array in columns.items()}
    numbers = np.cumsum(np.concatenate([[False], d4rl_ends(arrays)[:-1]]))
    reward = normalised_rewards(arrays["rewards"][usable].astype(np.float32), numbers[usable], reward_norm)
    return {**result, "reward": reward, "done": terminals[usable]}


def normalised_rewards(reward: np.ndarray, episode: np.ndarray, kind: str | None) -> np.ndarray:
    """Return rewards on the scale that an algorithm wants.

    Args:
        reward: float32 ``[N]``.
        episode: int ``[N]``, the number of the episode of each step, in ascending order.
        kind: ``normalize`` to mean 0 and deviation 1; ``iql_locomotion``, divided by the range of the episodes'
            returns, times 1000; ``iql_antmaze``, ``cql_antmaze`` and ``antmaze``, shifts and scales of rewards 0 and 1;
            None for rewards as they are.

    Raises:
        UnknownRewardNormError: another ``kind``.
    """
    if kind is None:
        return reward
    if kind not in _REWARD_NORMS:
        raise UnknownRewardNormError(f"env.reward_norm: {kind!r} is unknown.{did_you_mean(str(kind), _REWARD_NORMS)}")
    scaled: np.ndarray = _REWARD_NORMS[kind](reward, episode).astype(np.float32)
    return scaled


def _over_range_of_returns(reward: np.ndarray, episode: np.ndarray) -> np.ndarray:
    begins = np.flatnonzero(np.concatenate([[True], episode[1:] != episode[:-1]]))
    returns = np.add.reduceat(reward.astype(np.float64), begins)
    spread = returns.max() - returns.min()
    if spread == 0:
        raise DatasetError("env.reward_norm='iql_locomotion': all episodes of the data set have the same return")
    scaled: np.ndarray = reward / spread * _D4RL_EPISODE_STEPS
    return scaled


_REWARD_NORMS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "normalize": lambda reward, episode: (reward - reward.mean()) / reward.std(),
    "iql_locomotion": _over_range_of_returns,
    "iql_antmaze": lambda reward, episode: reward - 1.0,
    "cql_antmaze": lambda reward, episode: (reward - 0.5) * 4.0,
    "antmaze": lambda reward, episode: (reward - 0.25) * 2.0,
}
