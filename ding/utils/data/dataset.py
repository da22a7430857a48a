"""Data sets for offline training: transitions, and windows of trajectories.

=================  =========================  ================================================================
data_type          class                      reads
=================  =========================  ================================================================
``naive``          `NaiveRLDataset`           a list of transitions, as ``naive_save`` wrote it
``hdf5``           `HDF5Dataset`              one HDF5 file with an array per key, as ``hdf5_save`` wrote it
``d4rl``           `D4RLDataset`              transitions of a D4RL file
``d4rl_trajectory``  `D4RLTrajectoryDataset`  trajectories of a D4RL file
``bco``            `BCODataset`               arrays in memory
=================  =========================  ================================================================

HDF5 files need the extra ``ding[hdf5]``. No pickle is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import Dataset

from ding.utils.default_helper import check_choice
from ding.utils.file_helper import atomic_write, read_file, save_file
from ding.utils.import_helper import import_module, require_extra
from ding.utils.registry_factory import DATASET_REGISTRY

Config = Mapping[str, Any]
Arrays = dict[str, np.ndarray]

_HDF5_KEYS = ("obs", "action", "reward", "done", "next_obs")
_D4RL_EPISODE_STEPS = 1000


@dataclass
class DatasetStatistics:
    """What some policies ask of their data set: ``mean, std`` of the observations, ``action_bounds`` ``[2, d]``."""

    mean: np.ndarray
    std: np.ndarray
    action_bounds: np.ndarray | None


def create_dataset(cfg: Config, **kwargs: Any) -> Dataset[Any]:
    """The data set of type ``cfg.policy.collect.data_type``; ``cfg.policy.collect.import_names`` are imported first.

    Raises:
        KeyError: the type is not registered.
    """
    collect = cfg["policy"]["collect"]
    import_module([*(cfg.get("import_names") or []), *(collect.get("import_names") or [])])
    return DATASET_REGISTRY.build(collect["data_type"], cfg=cfg, **kwargs)


@DATASET_REGISTRY.register("naive")
class NaiveRLDataset(Dataset[Any]):
    """Transitions held in memory.

    Args:
        cfg: a list of transitions, the path of a file that ``naive_save`` wrote, or a compiled config that has such a
            path as ``policy.collect.data_path``.
    """

    def __init__(self, cfg: list[Any] | str | Config) -> None:
        if isinstance(cfg, list):
            self._data = cfg
            return
        path = cfg if isinstance(cfg, str) else cfg["policy"]["collect"]["data_path"]
        data = read_file(path)
        if not isinstance(data, list):
            raise TypeError(f"{path} holds a {type(data).__name__}, expected a list of transitions")
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int | slice) -> Any:
        return self._data[index]


class ColumnDataset(Dataset[Any]):
    """Arrays with one row per item.

    Args:
        columns: key -> array ``[N, ...]``.

    Raises:
        ValueError: the arrays have different lengths.
    """

    def __init__(self, columns: Arrays) -> None:
        lengths = {key: len(array) for key, array in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the arrays of a data set must have one length, got {lengths}")
        self._columns = columns
        self._count = next(iter(lengths.values()), 0)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return {key: array[index] for key, array in self._columns.items()}

    def _standardize(self, cfg: Config, action_low: float, action_high: float) -> None:
        """Set the statistics; standardise the observations where the config asks for it."""
        obs, action = self._columns["obs"], self._columns["action"]
        self.mean = obs.mean(0)
        self.std = obs.std(0) + 1e-3
        self.action_bounds = _action_bounds(action, action_low, action_high)
        norm = cfg.get("env", {}).get("norm_obs", {})
        if norm.get("use_norm") and norm.get("offline_stats", {}).get("use_offline_stats"):
            for key in ("obs", "next_obs"):
                if key in self._columns:
                    self._columns[key] = ((self._columns[key] - self.mean) / self.std).astype(np.float32)

    @property
    def statistics(self) -> DatasetStatistics:
        """Mean and standard deviation of the observations before they were standardised, and the action bounds."""
        return DatasetStatistics(self.mean, self.std, self.action_bounds)


def _action_bounds(action: np.ndarray, low: float, high: float) -> np.ndarray | None:
    """Bounds ``[2, d]`` of continuous actions, widened by 5 % of their range within ``low`` and ``high``."""
    if action.dtype.kind != "f":
        return None
    smallest, largest = action.min(0), action.max(0)
    margin = 0.05 * (largest - smallest)
    return np.clip(np.stack([smallest - margin, largest + margin]), low, high).astype(np.float32)


@DATASET_REGISTRY.register("hdf5")
class HDF5Dataset(ColumnDataset):
    """The arrays of one HDF5 file: items are dicts of rows, or windows of trajectories.

    With ``dataset.context_len`` K > 0 an item is ``(timesteps int64 [K], states float32 [K, d], actions [K, ...],
    returns_to_go float32 [K], mask int64 [K])``. A window lies within one episode; one that is shorter than K is filled
    with zeros at its end, where the mask is 0. Time steps count from the begin of the episode.

    Args:
        cfg: config with ``policy.collect.data_path``; optional ``dataset.context_len``, ``dataset.rtg_scale``, and
            ``env.norm_obs`` (``use_norm`` and ``offline_stats.use_offline_stats``: observations are standardised).

    Attributes:
        mean, std: of the observations, ``[*obs_shape]``.
        action_bounds: ``[2, d]``; ``None`` for discrete actions.

    Raises:
        MissingExtraError: h5py is not installed.
        FileNotFoundError: there is no such file.
    """

    def __init__(self, cfg: Config) -> None:
        super().__init__(read_hdf5(cfg["policy"]["collect"]["data_path"]))
        self._standardize(cfg, -np.inf, np.inf)
        window = cfg.get("dataset", {})
        self.context_len = int(window.get("context_len", 0))
        self._episodes: list[Arrays] = []
        self._windows: list[tuple[int, int]] = []
        if self.context_len > 0:
            obs, action, reward, done = (self._columns[key] for key in ("obs", "action", "reward", "done"))
            states, rewards = obs.reshape(self._count, -1), reward.reshape(self._count, -1)[:, 0]
            steps = {"states": states, "actions": action, "rewards": rewards}
            scale = float(window.get("rtg_scale", 1))
            self._episodes = [_with_returns_to_go(one, scale) for one in split_episodes(steps, done)]
            for number, episode in enumerate(self._episodes):
                starts = max(1, len(episode["rewards"]) - self.context_len + 1)
                self._windows += [(number, start) for start in range(starts)]

    def __len__(self) -> int:
        return len(self._windows) if self.context_len > 0 else super().__len__()

    def __getitem__(self, index: int) -> Any:
        if self.context_len == 0:
            return super().__getitem__(index)
        episode, start = self._windows[index]
        return window_of(self._episodes[episode], start, self.context_len)


@DATASET_REGISTRY.register("d4rl")
class D4RLDataset(ColumnDataset):
    """The transitions of a D4RL file, without the last step of an episode that ran into its time limit.

    The file is read as it was published; neither the package d4rl nor its envs are needed.

    Args:
        cfg: config with ``policy.collect.data_path`` (the file, or the folder with the file of ``env.env_id``), and
            ``env.norm_obs`` as in :class:`HDF5Dataset`.

    Attributes:
        mean, std: of the observations.
        action_bounds: ``[2, d]``, within [-1, 1].

    Raises:
        MissingExtraError: h5py is not installed.
        FileNotFoundError: there is no such file.
    """

    def __init__(self, cfg: Config) -> None:
        path = _d4rl_path(cfg["policy"]["collect"]["data_path"], cfg.get("env", {}).get("env_id"))
        super().__init__(_d4rl_transitions(read_hdf5(path)))
        self._standardize(cfg, -1.0, 1.0)

    @property
    def data(self) -> Arrays:
        """The arrays by key."""
        return self._columns

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = super().__getitem__(index)
        done = row.pop("done")
        return {**{key: torch.as_tensor(value) for key, value in row.items()}, "done": done}


@DATASET_REGISTRY.register("d4rl_trajectory")
class D4RLTrajectoryDataset(Dataset[Any]):
    """Windows of the trajectories of a D4RL file, with returns-to-go (for decision transformers).

    Item i is a random window of K steps of trajectory i, or all of it filled up with zeros: tensors
    ``timesteps int64 [K], states float32 [K, d], actions float32 [K, a], returns_to_go float32 [K], mask int64 [K]``.
    The states are standardised over the whole data set.

    Args:
        cfg: config with ``dataset.data_dir_prefix`` (an HDF5 file, or a list of trajectories that ``naive_save``
            wrote), ``dataset.rtg_scale``, ``dataset.context_len``.

    Raises:
        MissingExtraError: h5py is not installed.
        FileNotFoundError: there is no such file.
        NotImplementedError: ``dataset.env_type`` is ``atari``, whose logs need dopamine.
    """

    REF_MIN_SCORE: ClassVar = {"halfcheetah": -280.178953, "walker2d": 1.629008, "hopper": -20.272305}
    REF_MAX_SCORE: ClassVar = {"halfcheetah": 12135.0, "walker2d": 4592.3, "hopper": 3234.3}

    def __init__(self, cfg: Config) -> None:
        dataset = cfg["dataset"]
        if dataset.get("env_type") == "atari":
            raise NotImplementedError("d4rl_trajectory reads no Atari logs; give trajectories with env_type='mujoco'")
        self.context_len = int(dataset["context_len"])
        path = dataset["data_dir_prefix"]
        self.trajectories = _read_trajectories(path, float(dataset["rtg_scale"]))
        states = np.concatenate([one["states"] for one in self.trajectories])
        self._mean, self._std = states.mean(0), states.std(0) + 1e-6
        for one in self.trajectories:
            one["states"] = ((one["states"] - self._mean) / self._std).astype(np.float32)

    def get_state_stats(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of the states, before they were standardised."""
        return self._mean.copy(), self._std.copy()

    def __len__(self) -> int:
        return len(self.trajectories)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        episode = self.trajectories[index]
        last = max(0, len(episode["rewards"]) - self.context_len)
        start = int(torch.randint(last + 1, ()))
        return tuple(torch.from_numpy(part) for part in window_of(episode, start, self.context_len))


@DATASET_REGISTRY.register("bco")
class BCODataset(ColumnDataset):
    """Arrays in memory, as imitation from observations uses them: ``create_dataset(cfg, data=...)``.

    Args:
        data: key -> array or tensor ``[N, ...]``, with ``obs`` and ``action``.
        cfg: not needed; ``create_dataset`` gives it.

    Raises:
        ValueError: ``data`` is None.
    """

    def __init__(self, data: Mapping[str, Any] | None = None, cfg: Config | None = None) -> None:
        if data is None:
            raise ValueError("BCODataset needs the arrays of its items, got None")
        super().__init__(dict(data))

    @property
    def obs(self) -> Any:
        """All observations."""
        return self._columns["obs"]

    @property
    def action(self) -> Any:
        """All actions."""
        return self._columns["action"]


class PCDataset(ColumnDataset):
    """Observations with the maps of a search before and after a step of it.

    Args:
        all_data: ``(obs, bfs_in, bfs_out)``, arrays ``[N, ...]``.
    """

    def __init__(self, all_data: tuple[Any, Any, Any]) -> None:
        super().__init__(dict(zip(("obs", "bfs_in", "bfs_out"), all_data)))


# Files.


def read_hdf5(path: str) -> Arrays:
    """Return all arrays of an HDF5 file; those of groups as ``group/name``.

    Raises:
        MissingExtraError: h5py is not installed.
        FileNotFoundError: there is no such file.
    """
    h5py = require_extra("h5py", "hdf5")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no data file {path}")
    arrays: Arrays = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None and item.dtype.kind in "biuf":
            arrays[name] = item[()]

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return arrays


def naive_save(exp_data: Sequence[Any], expert_data_path: str) -> None:
    """Write transitions to a file that ``NaiveRLDataset`` reads. Its folder must exist."""
    save_file(expert_data_path, list(exp_data))


def hdf5_save(exp_data: Sequence[Any], expert_data_path: str) -> None:
    """Write ``obs, action, reward, done, next_obs`` of transitions to ``<expert_data_path>_demos.hdf5``.

    Args:
        exp_data: N transitions with arrays, tensors or numbers.
        expert_data_path: a suffix ``.pkl`` is cut off. The folder must exist.

    Raises:
        MissingExtraError: h5py is not installed.
        TypeError: a value is no array of numbers (``data_type='naive'`` takes such transitions).
    """
    h5py = require_extra("h5py", "hdf5")
    arrays = {key: _stacked(exp_data, key) for key in _HDF5_KEYS}
    for key in ("obs", "next_obs", "reward"):
        arrays[key] = arrays[key].astype(np.float32)
    arrays["done"] = arrays["done"].astype(np.bool_).reshape(len(exp_data))
    path = f"{expert_data_path.removesuffix('.pkl')}_demos.hdf5"
    with atomic_write(path) as whole, h5py.File(whole, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array, compression="gzip")


def _stacked(transitions: Sequence[Any], key: str) -> np.ndarray:
    try:
        array = np.stack([np.asarray(one[key]) for one in transitions])
    except ValueError as error:
        raise TypeError(f"hdf5 stores transitions of one shape; {key!r} has several ({error})") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"hdf5 stores arrays of numbers; {key!r} is none: save these with data_type='naive'")
    return array


_SAVERS = {"naive": naive_save, "hdf5": hdf5_save}


def offline_data_save_type(exp_data: Sequence[Any], expert_data_path: str, data_type: str = "naive") -> None:
    """Write transitions in the format ``data_type``.

    Raises:
        KeyError: no such format.
    """
    check_choice("data_type", data_type, _SAVERS, KeyError)
    _SAVERS[data_type](exp_data, expert_data_path)


# Episodes.


def split_episodes(steps: Arrays, ends: np.ndarray) -> Iterator[Arrays]:
    """Yield the episodes of consecutive steps; what follows the last end is one, too.

    Args:
        steps: key -> array ``[N, ...]``.
        ends: bool ``[N]``, whether a step is the last of its episode.
    """
    borders = (np.flatnonzero(np.asarray(ends).reshape(-1)) + 1).tolist()
    count = len(ends)
    for begin, end in zip([0, *borders], [*borders, count]):
        if begin < end:
            yield {key: array[begin:end] for key, array in steps.items()}


def _with_returns_to_go(episode: Arrays, scale: float) -> Arrays:
    """The episode with the sums of the rewards from each step on, undiscounted, divided by ``scale``."""
    sums = np.cumsum(episode["rewards"][::-1], dtype=np.float64)[::-1]
    return {**episode, "returns_to_go": (sums / scale).astype(np.float32)}


def window_of(episode: Arrays, start: int, length: int) -> tuple[np.ndarray, ...]:
    """``(timesteps, states, actions, returns_to_go, mask)`` of ``length`` steps from ``start``, filled with zeros."""
    parts = [np.asarray(episode[key][start : start + length]) for key in ("states", "actions", "returns_to_go")]
    found = len(parts[0])
    filled = [np.concatenate([one, np.zeros((length - found, *one.shape[1:]), one.dtype)]) for one in parts]
    mask = (np.arange(length) < found).astype(np.int64)
    return np.arange(start, start + length) * mask, *filled, mask


def _d4rl_path(path: str, env_id: str | None) -> str:
    """The file of an env where ``path`` is a folder: ``hopper-medium-v2`` lies in ``hopper_medium-v2.hdf5``."""
    if not os.path.isdir(path):
        return path
    if env_id is None:
        raise FileNotFoundError(f"{path} is a folder; name the file, or the data set as env.env_id")
    name, _, version = env_id.rpartition("-")
    return os.path.join(path, f"{name.replace('-', '_')}-{version}.hdf5")


def _d4rl_ends(arrays: Arrays) -> np.ndarray:
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


def _d4rl_transitions(arrays: Arrays) -> Arrays:
    terminals = arrays["terminals"].astype(np.bool_)
    # The next observation of a step before a time limit is that of a new episode; so is that of the last step.
    usable = terminals | ~_d4rl_ends(arrays)
    next_obs = arrays.get("next_observations")
    if next_obs is None:
        usable[-1] = False
        next_obs = np.concatenate([arrays["observations"][1:], arrays["observations"][-1:]])
    columns = {"obs": arrays["observations"], "next_obs": next_obs, "action": arrays["actions"]}
    result = {key: array[usable].astype(np.float32) for key, array in columns.items()}
    return {**result, "reward": arrays["rewards"][usable].astype(np.float32), "done": terminals[usable]}


def _read_trajectories(path: str, rtg_scale: float) -> list[Arrays]:
    """Trajectories with ``states, actions, rewards, returns_to_go``."""
    if "hdf5" in path:
        arrays = read_hdf5(path)
        steps = {key: arrays[key] for key in ("observations", "actions", "rewards")}
        episodes: Sequence[Any] = list(split_episodes(steps, _d4rl_ends(arrays)))
    else:
        episodes = NaiveRLDataset(path)[:]
    names = {"states": "observations", "actions": "actions", "rewards": "rewards"}
    return [
        _with_returns_to_go({to: np.asarray(one[key], np.float32) for to, key in names.items()}, rtg_scale)
        for one in episodes
    ]
