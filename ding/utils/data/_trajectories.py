"""Data sets of trajectories: windows with returns-to-go, and padded episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import Dataset

from ding.utils.data._d4rl import D4RL_KEYS, d4rl_ends, d4rl_path, read_d4rl
from ding.utils.data._dataset_files import Arrays, check_columns, needed_key
from ding.utils.file_helper import read_file
from ding.utils.normalizer_helper import DatasetNormalizer
from ding.utils.registry_factory import DATASET_REGISTRY

Config = Mapping[str, Any]

# Number of axes of an array of states; images have more.
_VECTOR_AXES = 2


def split_episodes(steps: Arrays, ends: np.ndarray) -> Iterator[Arrays]:
    """Yield the episodes of consecutive steps, including an unfinished one at the end.

    Args:
        steps: key -> array ``[N, ...]``.
        ends: bool ``[N]``, whether a step is the last of its episode.
    """
    borders = (np.flatnonzero(np.asarray(ends).reshape(-1)) + 1).tolist()
    count = len(ends)
    for begin, end in zip([0, *borders], [*borders, count]):
        if begin < end:
            yield {key: array[begin:end] for key, array in steps.items()}


def with_returns_to_go(episode: Arrays, scale: float) -> Arrays:
    """Return the episode with undiscounted returns-to-go, divided by ``scale``."""
    sums = np.cumsum(episode["rewards"][::-1], dtype=np.float64)[::-1]
    return {**episode, "returns_to_go": (sums / scale).astype(np.float32)}


def window_of(episode: Arrays, start: int, length: int) -> tuple[np.ndarray, ...]:
    """Return ``(timesteps, states, actions, returns_to_go, mask)`` of ``length`` steps from ``start``, zero-padded."""
    parts = [np.asarray(episode[key][start : start + length]) for key in ("states", "actions", "returns_to_go")]
    found = len(parts[0])
    filled = [np.concatenate([one, np.zeros((length - found, *one.shape[1:]), one.dtype)]) for one in parts]
    mask = (np.arange(length) < found).astype(np.int64)
    return np.arange(start, start + length) * mask, *filled, mask


@DATASET_REGISTRY.register("d4rl_trajectory")
class D4RLTrajectoryDataset(Dataset[Any]):
    """Windows of the trajectories of a D4RL file, with returns-to-go (for decision transformers).

    Item i is a random window of K steps of trajectory i, or all of it filled up with zeros: tensors
    ``timesteps int64 [K], states float32 [K, d], actions [K, a] (float32, or int64 of discrete ones), returns_to_go
    float32 [K], mask int64 [K]``. The states are standardised over the whole data set; images ``[K, C, H, W]`` stay as
    they are, of any dtype.

    Args:
        cfg: config with ``dataset.data_dir_prefix`` (an HDF5 file of D4RL, or a list that ``naive_save`` wrote: of
            trajectories, which are dicts of arrays with the keys of D4RL, or of episodes, which are lists of
            transitions), ``dataset.rtg_scale``, ``dataset.context_len``.

    Raises:
        MissingExtraError: h5py is not installed.
        FileNotFoundError: there is no such file.
        DatasetError: the file is damaged, lacks a field, or holds NaN or infinity.
        NotImplementedError: ``dataset.env_type`` is ``atari``, whose logs need dopamine.
    """

    REF_MIN_SCORE: ClassVar = {"halfcheetah": -280.178953, "walker2d": 1.629008, "hopper": -20.272305}
    REF_MAX_SCORE: ClassVar = {"halfcheetah": 12135.0, "walker2d": 4592.3, "hopper": 3234.3}

    def __init__(self, cfg: Config) -> None:
        dataset = needed_key(cfg, "dataset")
        if dataset.get("env_type") == "atari":
            raise NotImplementedError("d4rl_trajectory reads no Atari logs; give trajectories with env_type='mujoco'")
        self.context_len = int(needed_key(cfg, "dataset.context_len"))
        path = needed_key(cfg, "dataset.data_dir_prefix")
        self.trajectories = _read_trajectories(path, float(needed_key(cfg, "dataset.rtg_scale")))
        self._mean, self._std = np.zeros(1), np.ones(1)
        if any(one["states"].ndim > _VECTOR_AXES for one in self.trajectories):
            return
        states = np.concatenate([one["states"] for one in self.trajectories])
        self._mean, self._std = states.mean(0), states.std(0) + 1e-6
        for one in self.trajectories:
            one["states"] = ((one["states"] - self._mean) / self._std).astype(np.float32)

    def get_state_stats(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and standard deviation of the states before standardisation."""
        return self._mean.copy(), self._std.copy()

    def __len__(self) -> int:
        return len(self.trajectories)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        episode = self.trajectories[index]
        last = max(0, len(episode["rewards"]) - self.context_len)
        start = int(torch.randint(last + 1, ()))
        return tuple(torch.from_numpy(part) for part in window_of(episode, start, self.context_len))


@DATASET_REGISTRY.register("d4rl_diffuser")
class D4RLDiffuserDataset(Dataset[Any]):
    """Windows of trajectories for diffusion policies: as `D4RLTrajectoryDataset`, but without standardised states.

    Args:
        dataset_path: a file as ``dataset.data_dir_prefix`` of `D4RLTrajectoryDataset`; or ``cfg``.
        context_len: steps of a window.
        rtg_scale: the returns-to-go are divided by it.
        cfg: config with ``dataset.data_dir_prefix``, ``dataset.context_len`` and ``dataset.rtg_scale``, instead of the
            three; ``create_dataset`` gives it.
    """

    def __init__(
        self,
        dataset_path: str | None = None,
        context_len: int | None = None,
        rtg_scale: float | None = None,
        cfg: Config | None = None,
    ) -> None:
        section = {} if cfg is None else cfg["dataset"]
        self.context_len = int(section["context_len"] if context_len is None else context_len)
        scale = float(section["rtg_scale"] if rtg_scale is None else rtg_scale)
        self.trajectories = _read_trajectories(
            section["data_dir_prefix"] if dataset_path is None else dataset_path, scale
        )

    def __len__(self) -> int:
        return len(self.trajectories)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        episode = self.trajectories[index]
        start = int(torch.randint(max(0, len(episode["rewards"]) - self.context_len) + 1, ()))
        return tuple(torch.from_numpy(part) for part in window_of(episode, start, self.context_len))


def _read_trajectories(path: str, rtg_scale: float) -> list[Arrays]:
    """Read trajectories with the keys ``states, actions, rewards, returns_to_go``."""
    if "hdf5" in path:
        arrays = read_d4rl(path)
        steps = {key: arrays[key] for key in ("observations", "actions", "rewards")}
        episodes: list[Any] = list(split_episodes(steps, d4rl_ends(arrays)))
    else:
        episodes = [_as_arrays(one) for one in read_file(path)]
    names = {"states": "observations", "actions": "actions", "rewards": "rewards"}
    found = []
    for number, one in enumerate(episodes):
        check_columns({key: one[key] for key in names.values() if key in one}, (*names.values(),), f"{path}[{number}]")
        arrays = {to: _number_array(one[key]) for to, key in names.items()}
        if np.ndim(one["observations"]) > _VECTOR_AXES:
            arrays["states"] = np.asarray(one["observations"])
        found.append(with_returns_to_go({**arrays, "rewards": arrays["rewards"].reshape(-1)}, rtg_scale))
    return found


def _number_array(values: Any) -> np.ndarray:
    """Return a float32 array, or int64 for integers, which are discrete actions."""
    array = np.asarray(values)
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float32)


def _as_arrays(episode: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Arrays:
    """Return a trajectory with the keys of D4RL, from such a dict or from a list of transitions."""
    if isinstance(episode, Mapping):
        return {key: np.asarray(value) for key, value in episode.items()}
    names = {"observations": "obs", "actions": "action", "rewards": "reward"}
    return {
        to: np.stack([np.asarray(step[key]) for step in episode])
        for to, key in names.items()
        if all(key in step for step in episode)
    }


@DATASET_REGISTRY.register("diffuser_traj")
class SequenceDataset(Dataset[Any]):
    """Windows of normalised actions and observations, for diffusion planners (Janner et al. 2022, arXiv:2205.09991).

    An item is a dict of arrays: ``trajectories`` float32 ``[H, a + o]`` (normalised actions, then observations),
    ``done`` ``[H, 1]``, ``action`` ``[H, a]`` (normalised), ``condition_id`` and ``condition_val`` (the steps whose
    normalised observation is given: the first one, in ``maze2d`` the last one, too), and with ``env.include_returns``
    ``returns`` ``[1]``: the discounted sum of the rewards from there on over ``env.returns_scale``, with ``env.normed``
    scaled to [-1, 1] over all windows.

    Args:
        cfg: config with ``policy.collect.data_path`` (an HDF5 file of D4RL, or the folder with that of
            ``env.env_id``); ``env.{env_id, returns_scale, horizon, max_path_length, use_padding, include_returns,
            termination_penalty, normed}``; ``policy.normalizer`` (see `DatasetNormalizer`) and
            ``policy.learn.discount_factor``.

    Attributes:
        fields: key -> float32 ``[E, max_path_length, d]``, padded with zeros; those of ``normed_*`` are normalised.
        indices: ``(episode, begin, end)`` of each window.
        n_episodes, observation_dim, action_dim: sizes.
        discounts: float32 ``[max_path_length, 1]``.
        vmin, vmax: of the returns of all windows, with ``normed``; else 0 and 1.
        normalizer: the `DatasetNormalizer`.

    Raises:
        DatasetError: the file is damaged, lacks a field, or holds NaN or infinity.
    """

    def __init__(self, cfg: Config) -> None:
        env = cfg["env"]
        self.env_id = str(env["env_id"])
        self.returns_scale, self.horizon = float(env["returns_scale"]), int(env["horizon"])
        self.max_path_length = int(env["max_path_length"])
        self.use_padding, self.include_returns = bool(env["use_padding"]), bool(env["include_returns"])
        self.normed = bool(env.get("normed", False))
        discount = float(cfg["policy"]["learn"]["discount_factor"])
        self.discounts = (discount ** np.arange(self.max_path_length, dtype=np.float64)[:, None]).astype(np.float32)
        arrays = read_d4rl(d4rl_path(needed_key(cfg, "policy.collect.data_path"), self.env_id))
        episodes = list(_whole_episodes(_sequence_steps(arrays), _sequence_ends(arrays, self.env_id)))
        for one in episodes:
            if one["terminals"].any() and env.get("termination_penalty") is not None:
                one["rewards"] = one["rewards"] + env["termination_penalty"] * one["terminals"]
        self.path_lengths = [min(len(one["rewards"]), self.max_path_length) for one in episodes]
        self.n_episodes = len(episodes)
        self.fields = {key: self._padded([one[key] for one in episodes]) for key in episodes[0]}
        self.normalizer = DatasetNormalizer(self.fields, cfg["policy"]["normalizer"], self.path_lengths)
        for key in ("observations", "actions"):
            self.fields[f"normed_{key}"] = np.asarray(self.normalizer(self.fields[key], key), np.float32)
        self.observation_dim = self.fields["observations"].shape[-1]
        self.action_dim = self.fields["actions"].shape[-1]
        self.indices = [window for number in range(self.n_episodes) for window in self._windows(number)]
        self._episode, self._begin, _ = np.array(self.indices, np.int64).reshape(-1, 3).T
        self.vmin, self.vmax = 0.0, 1.0
        self._returns = self._returns_to_go(discount)[self._episode, self._begin]
        if self.include_returns and self.normed and len(self):
            self.vmin, self.vmax = float(self._returns.min()), float(self._returns.max())
            self._returns = 2 * (self._returns - self.vmin) / max(self.vmax - self.vmin, 1e-8) - 1

    def _padded(self, episodes: Sequence[np.ndarray]) -> np.ndarray:
        padded = np.zeros((len(episodes), self.max_path_length, episodes[0].shape[1]), np.float32)
        for row, values in zip(padded, episodes):
            row[: len(values)] = values[: self.max_path_length]
        return padded

    def _windows(self, number: int) -> Iterator[tuple[int, int, int]]:
        length = self.path_lengths[number]
        last = min(length - 1, self.max_path_length - self.horizon)
        if not self.use_padding:
            last = min(last, length - self.horizon)
        for begin in range(last + 1):
            yield number, begin, begin + self.horizon

    def _returns_to_go(self, discount: float) -> np.ndarray:
        """Return the discounted sums of the rewards from each step on, over ``returns_scale``: ``[E,
        max_path_length]``.
        """
        sums = self.fields["rewards"][..., 0] / self.returns_scale
        for step in reversed(range(self.max_path_length - 1)):
            sums[:, step] += discount * sums[:, step + 1]
        return sums

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        return {key: column[0] for key, column in self.rows_at(np.array([index])).items()}

    def rows_at(self, places: np.ndarray) -> dict[str, np.ndarray]:
        """Return the windows at an int64 array of positions, as columns ``[B, ...]``."""
        episodes = self._episode[places, None]
        steps = self._begin[places, None] + np.arange(self.horizon)
        actions, observations, done = (
            self.fields[key][episodes, steps] for key in ("normed_actions", "normed_observations", "terminals")
        )
        given = [0, self.horizon - 1] if "maze2d" in self.env_id else [0]
        columns = {
            "trajectories": np.concatenate([actions, observations], axis=-1),
            "done": done,
            "action": actions,
            "condition_id": np.tile(np.array(given, np.int64), (len(places), 1)),
            "condition_val": observations[:, given],
        }
        if self.include_returns:
            columns["returns"] = self._returns[places, None].astype(np.float32)
        return columns


def _whole_episodes(steps: Arrays, ends: np.ndarray) -> Iterator[Arrays]:
    """Return the episodes without the unfinished one at the end, whose rewards would seem to stop."""
    count = int(np.flatnonzero(ends)[-1]) + 1 if ends.any() else len(ends)
    return split_episodes({key: array[:count] for key, array in steps.items()}, ends[:count])


def _sequence_steps(arrays: Arrays) -> Arrays:
    """Return the steps with a last axis for every field."""
    return {key: arrays[key].reshape(len(arrays[key]), -1).astype(np.float32) for key in D4RL_KEYS}


def _sequence_ends(arrays: Arrays, env_id: str) -> np.ndarray:
    """Return the ends of episodes. In ``maze2d``, whose envs continue past the goal, an episode ends at the goal."""
    if "maze2d" not in env_id:
        return d4rl_ends(arrays)
    reached = arrays["rewards"].reshape(-1) > 0
    values: np.ndarray = reached & ~np.append(reached[1:], False)
    return values
