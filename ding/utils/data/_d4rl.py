"""Files of D4RL (Fu et al. 2020, arXiv:2004.07219): paths, contents and transitions."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from ding.utils.data._dataset_files import Arrays, DatasetError, check_columns, read_hdf5
from ding.utils.names import did_you_mean

_D4RL_EPISODE_STEPS = 1000
D4RL_KEYS = ("observations", "actions", "rewards", "terminals")


class UnknownRewardNormError(DatasetError, NotImplementedError):
    """The value of ``env.reward_norm`` is unknown."""


def d4rl_path(path: str, env_id: str | None) -> str:
    """Return the file of an env where ``path`` is a folder: ``hopper-medium-v2`` is stored in
    ``hopper_medium-v2.hdf5``."""
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
    """Return which steps end an episode, time limits included."""
    terminals = arrays["terminals"].astype(np.bool_)
    if "timeouts" in arrays:
        return terminals | arrays["timeouts"].astype(np.bool_)
    # Without recorded time-outs, episodes are cut after the usual number of steps.
    ends, begin = terminals.copy(), 0
    for step in range(len(ends)):
        ends[step] |= step - begin == _D4RL_EPISODE_STEPS - 1
        begin = step + 1 if ends[step] else begin
    return ends


def d4rl_transitions(arrays: Arrays, reward_norm: str | None = None) -> Arrays:
    """Return the transitions of a file, without the last step of each episode that hit its time limit.

    Args:
        arrays: Arrays from :func:`read_d4rl`.
        reward_norm: See :func:`normalised_rewards`.
    """
    terminals = arrays["terminals"].astype(np.bool_)
    # The next observation of a step before a time limit, and of the last step, belongs to a new episode.
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
    """Return rewards rescaled for an algorithm.

    Args:
        reward: float32 ``[N]``.
        episode: int ``[N]``, episode number of each step, ascending.
        kind: ``normalize`` for mean 0 and standard deviation 1; ``iql_locomotion`` divides by the range of episode
            returns and multiplies by 1000; ``iql_antmaze``, ``cql_antmaze`` and ``antmaze`` shift and scale rewards of
            0 and 1; None keeps the rewards.

    Raises:
        UnknownRewardNormError: ``kind`` is none of these.
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
