"""Data sets for offline training: transitions, and windows of trajectories.

===================  =======================  ==================================================================
data_type            class                    reads
===================  =======================  ==================================================================
``naive``            `NaiveRLDataset`         a list of transitions, as ``naive_save`` wrote it
``hdf5``             `HDF5Dataset`            one HDF5 file with an array per key, as ``hdf5_save`` wrote it
``columns``          `ColumnFileDataset`      columnar files that stay on the disk, as ``columns_save`` wrote them
``d4rl``             `D4RLDataset`            transitions of a D4RL file
``minari``           `MinariDataset`          transitions of a local Minari data set
``d4rl_trajectory``  `D4RLTrajectoryDataset`  trajectories of a D4RL file, or of a list of episodes
``d4rl_diffuser``    `D4RLDiffuserDataset`    the same, not standardised
``diffuser_traj``    `SequenceDataset`        trajectories of a D4RL file, padded
``bco``              `BCODataset`             arrays in memory
===================  =======================  ==================================================================

Not registered as a type: `FixedReplayBuffer` samples logs of dopamine, `load_bfs_datasets` searches mazes.

HDF5 files need the extra ``ding[hdf5]``, Minari data sets ``ding[offline]``. No pickle is read. Invalid data sets raise
a `DatasetError`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike
from torch.utils.data import Dataset

from ding.utils.bfs_helper import Maze, get_vi_sequence
from ding.utils.data._d4rl import d4rl_path, d4rl_transitions, read_d4rl
from ding.utils.data._dataset_files import (
    Arrays,
    Column,
    DatasetError,
    DatasetFieldError,
    DatasetFileError,
    DatasetValueError,
    action_bounds,
    check_columns,
    grouped,
    hdf5_save,
    mean_and_std,
    naive_save,
    needed_key,
    offline_data_save_type,
    parts_of,
    read_hdf5,
)
from ding.utils.data._dopamine_logs import FixedReplayBuffer
from ding.utils.data._following import following_rows
from ding.utils.data._trajectories import (
    D4RLDiffuserDataset,
    D4RLTrajectoryDataset,
    SequenceDataset,
    split_episodes,
    window_of,
    with_returns_to_go,
)
from ding.utils.exports import register_lazily
from ding.utils.file_helper import FileRefusedError, read_file
from ding.utils.import_helper import import_module, require_extra
from ding.utils.registry_factory import DATASET_REGISTRY, ENV_REGISTRY

__all__ = [
    "BCODataset",
    "ColumnDataset",
    "D4RLDataset",
    "D4RLDiffuserDataset",
    "D4RLTrajectoryDataset",
    "DatasetError",
    "DatasetFieldError",
    "DatasetFileError",
    "DatasetStatistics",
    "DatasetValueError",
    "FixedReplayBuffer",
    "HDF5Dataset",
    "MinariDataset",
    "NaiveRLDataset",
    "PCDataset",
    "SequenceDataset",
    "create_dataset",
    "hdf5_save",
    "load_bfs_datasets",
    "naive_save",
    "offline_data_save_type",
]

Config = Mapping[str, Any]

register_lazily(DATASET_REGISTRY, "columns", "ding.data.column_file:ColumnFileDataset")


# Fields of a window of an HDF5 file; single rows need the first two.
_WINDOW_FIELDS = ("obs", "action", "reward", "done")


@dataclass
class DatasetStatistics:
    """Data set statistics used by some policies: ``mean, std`` of the observations, ``action_bounds`` ``[2, d]``."""

    mean: np.ndarray
    std: np.ndarray
    action_bounds: np.ndarray | None


def create_dataset(cfg: Config, **kwargs: Any) -> Dataset[Any]:
    """Return the data set of type ``cfg.policy.collect.data_type``; ``cfg.policy.collect.import_names`` are imported
    first.

    Raises:
        KeyError: the type is not registered.
        DatasetError: The config has no type.
    """
    collect = cfg["policy"]["collect"]
    if "data_type" not in collect:
        raise DatasetError(f"policy.collect.data_type is missing: one of {', '.join(sorted(DATASET_REGISTRY))}")
    import_module([*(cfg.get("import_names") or []), *(collect.get("import_names") or [])])
    dataset: Dataset[Any] = DATASET_REGISTRY.build(collect["data_type"], cfg=cfg, **kwargs)
    return dataset


@DATASET_REGISTRY.register("naive")
class NaiveRLDataset(Dataset[Any]):
    """Transitions held in memory.

    Args:
        cfg: a list of transitions, the path of a file that ``naive_save`` wrote, or a compiled config that has such a
            path as ``policy.collect.data_path``.

    Raises:
        DatasetKeyError: no path is given.
        DatasetFileError: the file is damaged, or was not written by ``naive_save``.
        TypeError: it holds something else than a list.
    """

    def __init__(self, cfg: list[Any] | str | Config) -> None:
        if isinstance(cfg, list):
            self._data = cfg
            return
        path = cfg if isinstance(cfg, str) else needed_key(cfg, "policy.collect.data_path")
        try:
            data = read_file(path)
        except FileRefusedError as error:
            raise DatasetFileError(f"{error}; data sets of other kinds need policy.collect.data_type") from error
        if not isinstance(data, list):
            raise TypeError(f"{path} holds a {type(data).__name__}, expected a list of transitions")
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int | slice) -> Any:
        return self._data[index]


class ColumnDataset(Dataset[Any]):
    """Arrays with one row per item.

    A field ``group/name`` is ``name`` in the dict ``group`` of an item.

    Args:
        columns: field -> array ``[N, ...]``.
        needed: Required fields.
        where: File or kind of the data set, for messages.

    Attributes:
        mean, std: Statistics of the observations, float32 ``[*obs_shape]``, if these are one numeric array.
        action_bounds: float32 ``[2, d]``; ``None`` for discrete actions.

    Raises:
        DatasetFieldError: a needed field is missing, or the arrays have different lengths.
        DatasetValueError: a field holds NaN or infinity.
    """

    def __init__(self, columns: Mapping[str, Column], needed: Sequence[str] = (), where: str = "the data set") -> None:
        self._count = check_columns(columns, needed, where)
        self._columns = dict(columns)
        self._standardised: tuple[str, ...] = ()
        self._grouped = any("/" in name for name in columns)
        self.action_bounds: np.ndarray | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return self.rows_at(index)

    def fields_at(self, *names: str) -> dict[str, np.ndarray]:
        """Return all rows of these fields as arrays in memory."""
        return {name: np.asarray(self._columns[name][:]) for name in names}

    def following_rows(self) -> np.ndarray:
        """Return the successor of each row, int64 ``[N]``; -1 where the data set has none."""
        return following_rows(self._columns)

    def add_fields(self, fields: Mapping[str, np.ndarray]) -> None:
        """Add fields, arrays ``[N, ...]`` in memory.

        Raises:
            DatasetFieldError: An array has another number of rows.
            DatasetValueError: An array holds NaN or infinity.
        """
        columns = {**self._columns, **fields}
        check_columns({next(iter(self._columns)): next(iter(self._columns.values())), **fields}, (), "the data set")
        self._columns = columns

    @property
    def row_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return field -> row shape."""
        return {name: tuple(column.shape[1:]) for name, column in self._columns.items()}

    def rows_at(self, places: Any) -> dict[str, Any]:
        """Return the rows of a slice or an int64 array as columns ``[B, ...]``; of one position, that row."""
        rows = {name: column[places] for name, column in self._columns.items()}
        for name in self._standardised:
            rows[name] = ((rows[name] - self.mean) / self.std).astype(np.float32)
        return grouped(rows) if self._grouped else rows

    def _set_statistics(self, cfg: Config, action_low: ArrayLike = -np.inf, action_high: ArrayLike = np.inf) -> None:
        """Compute the statistics, and standardise the observations if the config says so."""
        if "obs" in self._columns:
            self.mean, std = mean_and_std(self._columns["obs"])
            self.std = std + np.float32(1e-3)
        if "action" in self._columns:
            self.action_bounds = action_bounds(self._columns["action"], action_low, action_high)
        norm = cfg.get("env", {}).get("norm_obs", {})
        if norm.get("use_norm") and norm.get("offline_stats", {}).get("use_offline_stats"):
            self._standardised = tuple(name for name in ("obs", "next_obs") if name in self._columns)

    @property
    def standardises_obs(self) -> bool:
        """Whether samples hold standardised observations, ``(obs - mean) / std``."""
        return "obs" in self._standardised

    @property
    def statistics(self) -> DatasetStatistics:
        """Mean and standard deviation of the observations before standardisation, and the action bounds."""
        return DatasetStatistics(self.mean, self.std, self.action_bounds)

    @property
    def action_range(self) -> tuple[Any, Any]:
        """Return the smallest and the largest of all actions."""
        ends = [(rows.min(), rows.max()) for _, rows in parts_of(self._columns["action"])]
        return min(one for one, _ in ends), max(one for _, one in ends)


@DATASET_REGISTRY.register("hdf5")
class HDF5Dataset(ColumnDataset):
    """The arrays of one HDF5 file: items are dicts of rows, or windows of trajectories.

    With ``dataset.context_len`` K > 0 an item is ``(timesteps int64 [K], states float32 [K, d], actions [K, ...],
    returns_to_go float32 [K], mask int64 [K])``. A window lies within one episode; one that is shorter than K is filled
    with zeros at its end, where the mask is 0. Time steps count from the begin of the episode.

    Args:
        cfg: config with ``policy.collect.data_path``; optional ``dataset.context_len``, ``dataset.rtg_scale``, and
            ``env.norm_obs`` (``use_norm`` and ``offline_stats.use_offline_stats``: observations are standardised).

    Raises:
        MissingExtraError: h5py is not installed.
        FileNotFoundError: there is no such file.
        DatasetError: the file is damaged, lacks a field, or holds NaN or infinity.
    """

    def __init__(self, cfg: Config) -> None:
        path = needed_key(cfg, "policy.collect.data_path")
        window = cfg.get("dataset", {})
        arrays = read_hdf5(path)
        self.context_len = int(window.get("context_len", 0))
        super().__init__(arrays, _WINDOW_FIELDS if self.context_len else _WINDOW_FIELDS[:2], path)
        self._set_statistics(cfg)
        self._episodes: list[Arrays] = []
        self._windows: list[tuple[int, int]] = []
        if self.context_len > 0:
            obs, action, reward, done = (arrays[key] for key in _WINDOW_FIELDS)
            states, rewards = obs.reshape(self._count, -1), reward.reshape(self._count, -1)[:, 0]
            steps = {"states": states, "actions": action, "rewards": rewards}
            scale = float(window.get("rtg_scale", 1))
            self._episodes = [with_returns_to_go(one, scale) for one in split_episodes(steps, done)]
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
            ``env.norm_obs`` as in :class:`HDF5Dataset`. ``env.reward_norm`` is ``normalize``, ``iql_locomotion``,
            ``iql_antmaze``, ``cql_antmaze``, ``antmaze``, or not there for rewards as they are.

    The action bounds are within [-1, 1].

    Raises:
        MissingExtraError: h5py is not installed.
        NotImplementedError: another ``env.reward_norm``; it is a ``DatasetError``, too.
        FileNotFoundError: there is no such file.
        DatasetError: the file is damaged, lacks a field, or holds NaN or infinity.
    """

    def __init__(self, cfg: Config) -> None:
        path = d4rl_path(needed_key(cfg, "policy.collect.data_path"), cfg.get("env", {}).get("env_id"))
        super().__init__(d4rl_transitions(read_d4rl(path), cfg.get("env", {}).get("reward_norm")), where=path)
        self._set_statistics(cfg, -1.0, 1.0)

    @cached_property
    def data(self) -> Sequence[dict[str, Any]]:
        """The transitions as a :class:`~ding.data.TransitionBatch`: rows of tensors and the bool ``done``. Writes to a
        row persist.
        """
        rows = self.rows_at(slice(None))
        tensors = {key: torch.as_tensor(column) for key, column in rows.items() if key != "done"}
        batch = importlib.import_module("ding.data").TransitionBatch  # defined in a higher layer
        result: Sequence[dict[str, Any]] = batch({**tensors, "done": rows["done"]})
        return result

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = super().__getitem__(index)
        done = row.pop("done")
        return {**{key: torch.as_tensor(value) for key, value in row.items()}, "done": done}


@DATASET_REGISTRY.register("minari")
class MinariDataset(ColumnDataset):
    """The transitions of a Minari data set of this machine (``minari download`` fetches published ones).

    Items are dicts of ``obs, next_obs, action, reward, done``; dict and tuple observations are flattened to one array.
    Steps truncated by a time limit are not ``done``.

    Args:
        cfg: config with ``policy.collect.data_path`` (the id, as ``D4RL/pen/human-v2``), and ``env.norm_obs`` as in
            :class:`HDF5Dataset`.

    Raises:
        MissingExtraError: minari is not installed.
        FileNotFoundError: there is no such data set.
        DatasetError: the data set holds NaN or infinity.
    """

    def __init__(self, cfg: Config) -> None:
        minari = require_extra("minari", "offline")
        name = needed_key(cfg, "policy.collect.data_path")
        try:
            source = minari.load_dataset(name)
        except OSError as error:
            raise FileNotFoundError(f"there is no Minari data set {name!r} on this machine: {error}") from error
        super().__init__(_minari_transitions(source), where=name)
        space = source.action_space
        bounds = (space.low, space.high) if isinstance(space, spaces.Box) else (-np.inf, np.inf)
        self._set_statistics(cfg, *bounds)


def _minari_transitions(source: Any) -> Arrays:
    """Return one array per field, filled episode by episode."""
    count, space, action_space = int(source.total_steps), source.observation_space, source.action_space
    if action_space.shape is None:
        raise DatasetFieldError(f"the actions of a Minari data set must be one array, they are {action_space}")
    box: Any = space if isinstance(space, spaces.Box) else spaces.flatten_space(space)
    obs = np.empty((count, *box.shape), np.float32)
    action_shape = (1,) if isinstance(action_space, spaces.Discrete) else action_space.shape
    columns: Arrays = {
        "obs": obs,
        "next_obs": np.empty_like(obs),
        "action": np.empty((count, *action_shape), np.float32 if action_space.dtype.kind == "f" else np.int64),
        "reward": np.empty((count, 1), np.float32),
        "done": np.empty(count, np.bool_),
    }
    begin = 0
    for episode in source.iterate_episodes():
        end = begin + len(episode.rewards)
        states = _minari_states(space, episode.observations, end - begin + 1)
        columns["obs"][begin:end], columns["next_obs"][begin:end] = states[:-1], states[1:]
        columns["action"][begin:end] = np.asarray(episode.actions).reshape(end - begin, *action_shape)
        columns["reward"][begin:end, 0] = episode.rewards
        columns["done"][begin:end] = episode.terminations
        begin = end
    return columns


def _minari_states(space: spaces.Space[Any], observations: Any, count: int) -> np.ndarray:
    """Return the ``count`` observations of an episode ``[count, ...]``; nested spaces are flattened."""
    if isinstance(space, spaces.Box):
        return np.asarray(observations)
    flat = [spaces.flatten(space, _at(observations, step)) for step in range(count)]
    return np.asarray(flat, np.float32)


def _at(observations: Any, step: int) -> object:
    if isinstance(observations, Mapping):
        return {key: _at(value, step) for key, value in observations.items()}
    return tuple(_at(value, step) for value in observations) if isinstance(observations, tuple) else observations[step]


@DATASET_REGISTRY.register("bco")
class BCODataset(ColumnDataset):
    """Arrays in memory, as imitation from observations uses them: ``create_dataset(cfg, data=...)``.

    Args:
        data: key -> array or tensor ``[N, ...]``, with ``obs`` and ``action``.
        cfg: Ignored; passed by ``create_dataset``.

    Raises:
        ValueError: ``data`` is None.
    """

    def __init__(self, data: Mapping[str, Any] | None = None, cfg: Config | None = None) -> None:
        if data is None:
            raise ValueError("BCODataset needs the arrays of its items, got None")
        super().__init__(data, where="BCODataset")

    @property
    def obs(self) -> Column:
        """All observations."""
        return self._columns["obs"]

    @property
    def action(self) -> Column:
        """All actions."""
        return self._columns["action"]


class PCDataset(ColumnDataset):
    """Observations with the search maps before and after one step of the search.

    Args:
        all_data: ``(obs, bfs_in, bfs_out)``, arrays ``[N, ...]``.
    """

    def __init__(self, all_data: tuple[Any, Any, Any]) -> None:
        super().__init__(dict(zip(("obs", "bfs_in", "bfs_out"), all_data)), where="PCDataset")


def load_bfs_datasets(
    train_seeds: int = 1, test_seeds: int = 5, *, size: int = 16, wall_type: str = "tunnel"
) -> tuple[PCDataset, PCDataset]:
    """Return data sets of maze searches for procedure cloning (Yang et al. 2022, arXiv:2205.10816).

    The mazes are those of the seeds from 0 on, first ``train_seeds``, then ``test_seeds``. An item is a step of the
    search from the goal to an agent in one of the cells of the best path: ``obs`` float32 ``[W, W, 3]`` (walls, goal,
    agent), ``bfs_in`` int64 and ``bfs_out`` int32 ``[W, W]``: the best action of each cell before and after the step,
    4 where it is not known.

    Args:
        size: W, cells along an axis.
        wall_type: the kind of mazes, see :class:`ding.envs.zoo.maze_env.Maze`.

    Returns:
        The training set and the test set.

    Raises:
        ValueError: a number of seeds is below 1, or there are no such mazes.
    """
    if min(train_seeds, test_seeds) < 1:
        raise ValueError(f"train_seeds and test_seeds are at least 1, got {train_seeds} and {test_seeds}")
    # Referenced by name, because envs belong to a higher layer.
    import_module(["ding.envs.zoo.maze_env"])
    maze = ENV_REGISTRY.build("maze", {"size": size, "wall_type": wall_type})
    searches = []
    for seed in range(train_seeds + test_seeds):
        maze.seed(seed, dynamic_seed=False)
        searches.append(_maze_searches(maze, maze.reset()))
    return _searches_dataset(searches[:train_seeds]), _searches_dataset(searches[train_seeds:])


def _searches_dataset(searches: Sequence[tuple[np.ndarray, ...]]) -> PCDataset:
    obs, bfs_in, bfs_out = (np.concatenate(field) for field in zip(*searches))
    return PCDataset((obs, bfs_in, bfs_out))


def _maze_searches(maze: Maze, first_obs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return ``(obs, bfs_in, bfs_out)`` ``[N, ...]`` of the searches to an agent in each cell of a maze's best path."""
    maps, path = get_vi_sequence(maze, first_obs)
    before = np.concatenate([np.full((1, *maps.shape[1:]), maze.n_action), maps[:-1]])
    # The search to a cell of the path is a prefix of the search to the first cell.
    steps = np.concatenate([np.arange(count) for count in range(len(path), 0, -1)] or [np.arange(0)])
    cells = np.repeat(np.arange(len(path)), np.arange(len(path), 0, -1))
    obs = np.stack([one.numpy() for one, _ in path] or [np.zeros(first_obs.shape, np.float32)])
    return obs[cells], before[steps].astype(np.int64), maps[steps]
