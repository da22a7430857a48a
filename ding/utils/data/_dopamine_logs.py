"""Replay logs of dopamine: replay buffers saved by its agents, one checkpoint per training iteration."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ding.utils.data._dataset_files import DatasetFieldError, DatasetFileError

logger = logging.getLogger(__name__)

_STORED = ("observation", "action", "reward", "terminal")
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# Arguments of dopamine's buffer that follow from the files.
_NOT_NEEDED = frozenset(
    {"max_sample_attempts", "terminal_dtype", "action_shape", "action_dtype", "reward_shape", "reward_dtype"}
    | {"checkpoint_duration", "keep_every"}
)


class ReplayElement(NamedTuple):
    """Name, shape and dtype of one array of a batch."""

    name: str
    shape: tuple[int, ...]
    type: np.dtype[Any]


class FixedReplayBuffer:
    """Transitions of one logged replay buffer, or of several, as ``OutOfGraphReplayBuffer`` of dopamine draws them.

    A log is the folder ``replay_logs`` of a run, as those of the Atari DQN replay data set (Agarwal et al. 2020,
    arXiv:1907.04543): gzip'ed numpy files ``$store$_observation_ckpt.<suffix>.gz``, the same of ``action, reward,
    terminal``, and ``add_count_ckpt.<suffix>.gz``. Dopamine is not required, and no pickle is read: newer logs store
    episode ends without a terminal as a pickled set, which is ignored with a warning.

    Args:
        data_dir: the folder.
        replay_suffix: number of a checkpoint; None: all that the folder has, of which each batch draws one.
        observation_shape: of a frame, as ``(84, 84)``.
        stack_size: frames of a state; they are its last axis.
        replay_capacity: rows of a checkpoint that are read; None for all.
        batch_size: transitions of a batch.
        update_horizon: rewards of a transition, summed with the discount ``gamma``.
        observation_dtype: of the frames.
        not_needed: further arguments of dopamine's buffer, which follow from the files.

    Attributes:
        add_count: int64, transitions that had been added to the (first) buffer.

    Raises:
        FileNotFoundError: a file, or any checkpoint, is missing.
        DatasetFileError: a file is damaged, or no gzip'ed numpy array of numbers.
        DatasetFieldError: frames have another shape or dtype, or the files several numbers of rows.
        TypeError: an argument is none of dopamine's, or ``extra_storage_types``, which is not supported.
    """

    def __init__(
        self,
        data_dir: str,
        replay_suffix: int | None,
        observation_shape: Sequence[int] = (84, 84),
        stack_size: int = 4,
        replay_capacity: int | None = None,
        batch_size: int = 32,
        update_horizon: int = 1,
        gamma: float = 0.99,
        observation_dtype: Any = np.uint8,
        **not_needed: object,
    ) -> None:
        if unknown := sorted(not_needed.keys() - _NOT_NEEDED):
            raise TypeError(f"FixedReplayBuffer has no argument {unknown[0]!r}")
        if stack_size < 1 or update_horizon < 1:
            raise ValueError(f"stack_size and update_horizon are at least 1, got {stack_size} and {update_horizon}")
        self._folder, self._capacity = Path(data_dir), replay_capacity
        self._frame = (tuple(observation_shape), np.dtype(observation_dtype))
        self._stack, self._batch_size = stack_size, batch_size
        self._discounts = np.power(gamma, np.arange(update_horizon), dtype=np.float32)
        if replay_suffix is not None:
            self.load_single_buffer(replay_suffix)
            return
        names = [path.name.split(".") for path in self._folder.glob("add_count_ckpt.*.gz")]
        suffixes = sorted(int(name[1]) for name in names if name[1].isdigit())
        if not suffixes:
            raise FileNotFoundError(f"there is no checkpoint of a replay buffer in {data_dir}")
        self._logs = [self._read(suffix) for suffix in suffixes]
        self.add_count = self._logs[0].add_count

    def load_single_buffer(self, suffix: int) -> None:
        """Read one checkpoint, replacing the data read before. Raises the same errors as the constructor."""
        self._logs = [self._read(suffix)]
        self.add_count = self._logs[0].add_count

    def _read(self, suffix: int) -> _Log:
        log = _Log(self._folder, suffix, self._capacity)
        frames = log.rows["observation"]
        if (frames.shape[1:], frames.dtype) != self._frame:
            shape, dtype = self._frame
            raise DatasetFieldError(
                f"{self._folder}: frames of checkpoint {suffix} are {frames.dtype} {frames.shape[1:]}, expected "
                f"observation_dtype={dtype}, observation_shape={shape}"
            )
        return log

    def get_transition_elements(self, batch_size: int | None = None) -> list[ReplayElement]:
        """Return what :meth:`sample_transition_batch` returns, by name, shape and dtype."""
        count = self._batch_size if batch_size is None else batch_size
        rows = self._logs[0].rows
        names = {"state": "observation", "action": "action", "reward": "reward"}
        names |= {"next_state": "observation", "next_action": "action", "next_reward": "reward", "terminal": "terminal"}
        elements = []
        for name, stored in names.items():
            tail = (self._stack,) if stored == "observation" else ()
            elements.append(ReplayElement(name, (count, *rows[stored].shape[1:], *tail), rows[stored].dtype))
        return [*elements, ReplayElement("indices", (count,), np.dtype(np.int32))]

    def sample_transition_batch(
        self, batch_size: int | None = None, indices: Sequence[int] | None = None
    ) -> tuple[np.ndarray, ...]:
        """Return ``(state, action, reward, next_state, next_action, next_reward, terminal, indices)`` of B transitions.

        States are ``[B, *observation_shape, stack_size]``, the newest frame last. The reward is the discounted sum of
        ``update_horizon`` rewards, cut at the end of the episode, where the ``next_...`` arrays are undefined.

        Args:
            batch_size: B; the constructor's value by default.
            indices: rows of the transitions, not checked to lie in one episode; drawn from those that do by default.

        Raises:
            DatasetFieldError: The log holds no complete transition.
            IndexError: there is no such row.
            ValueError: ``batch_size`` is not the number of indices.
        """
        log = self._logs[int(np.random.randint(len(self._logs)))]
        if indices is None:
            valid = log.valid_rows(self._stack, len(self._discounts))
            if not len(valid):
                raise DatasetFieldError(f"{self._folder}: no episode is longer than {self._stack} frames")
            places = np.random.choice(valid, self._batch_size if batch_size is None else batch_size)
        else:
            places = np.asarray(indices, np.int64)
            if batch_size not in (None, len(places)):
                raise ValueError(f"batch_size is {batch_size}, but there are {len(places)} indices")
            if len(places) and not (places.min() >= 0 and places.max() < log.count):
                raise IndexError(f"indices are rows from 0 to {log.count - 1}, got {places.min()} to {places.max()}")
        return self._transitions(log, places)

    def _transitions(self, log: _Log, places: np.ndarray) -> tuple[np.ndarray, ...]:
        rows = log.rows
        ahead = (places[:, None] + np.arange(len(self._discounts))) % log.count
        ended = rows["terminal"][ahead].astype(bool)
        # A reward counts until a step ends the episode.
        counts = np.cumsum(ended, axis=1) - ended == 0
        weights = (self._discounts * counts).reshape(*counts.shape, *[1] * (rows["reward"].ndim - 1))
        reward = (rows["reward"][ahead] * weights).sum(1).astype(rows["reward"].dtype)
        following = (places + counts.sum(1)) % log.count
        return (
            self._states(log, places),
            rows["action"][places],
            reward,
            self._states(log, following),
            rows["action"][following],
            rows["reward"][following],
            ended.any(1).astype(rows["terminal"].dtype),
            places.astype(np.int32),
        )

    def _states(self, log: _Log, places: np.ndarray) -> np.ndarray:
        frames = (places[:, None] + np.arange(1 - self._stack, 1)) % log.count
        return np.moveaxis(log.rows["observation"][frames], 1, -1)


class _Log:
    """The rows of one checkpoint: the first ``capacity`` rows of a ring."""

    def __init__(self, folder: Path, suffix: int, capacity: int | None) -> None:
        self.add_count, _ = _read_array(folder / f"add_count_ckpt.{suffix}.gz")
        read = {name: _read_array(folder / f"$store$_{name}_ckpt.{suffix}.gz", capacity) for name in _STORED}
        lengths = {name: length for name, (_, length) in read.items()}
        if len(set(lengths.values())) > 1:
            raise DatasetFieldError(f"{folder}: the files of checkpoint {suffix} have several lengths: {lengths}")
        if (folder / f"episode_end_indices_ckpt.{suffix}.gz").exists():
            logger.warning("%s: episodes of checkpoint %d that end without a terminal are not known", folder, suffix)
        self.rows = {name: array for name, (array, _) in read.items()}
        self.count, self._ring = len(self.rows["terminal"]), lengths["terminal"]
        self._valid: dict[tuple[int, int], np.ndarray] = {}

    def valid_rows(self, stack: int, horizon: int) -> np.ndarray:
        """Return the rows whose ``stack`` frames belong to one episode and that ``horizon`` newer rows follow."""
        if (stack, horizon) not in self._valid:
            self._valid[stack, horizon] = self._whole(stack, horizon)
        return self._valid[stack, horizon]

    def _whole(self, stack: int, horizon: int) -> np.ndarray:
        rows, added = np.arange(self.count), int(self.add_count)
        # The oldest row of a full ring is the one to be overwritten next.
        age = (rows - added) % self._ring if added >= self._ring else rows
        whole = (age >= stack - 1) & (age + horizon < min(added, self._ring))
        if self.count < self._ring:
            whole &= (rows >= stack - 1) & (rows + horizon < self.count)
        ended = self.rows["terminal"].astype(bool)
        for back in range(1, stack):
            whole &= ~ended[rows - back]
        return np.flatnonzero(whole)


def _read_array(path: Path, num_rows: int | None = None) -> tuple[np.ndarray, int]:
    """Return the array of a gzip'ed numpy file, or its first rows, and the file's number of rows (1 for a scalar).

    Raises:
        FileNotFoundError: There is no such file.
        DatasetFileError: The file is damaged or not numeric.
    """
    try:
        with gzip.open(path) as file:
            read_header = _HEADERS[np.lib.format.read_magic(file)]
            shape, by_column, dtype = read_header(file)
            length = shape[0] if shape else 1
            kept = (length if num_rows is None else min(length, num_rows), *shape[1:])
            size = int(np.prod(kept, dtype=np.int64)) * dtype.itemsize
            data = b"" if dtype.hasobject else file.read(size)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"a file of a replay log is missing: {path}") from error
    except (OSError, EOFError, zlib.error, KeyError, ValueError) as error:
        raise DatasetFileError(f"{path} is truncated, damaged or no gzip'ed numpy file: {error}") from error
    if dtype.kind not in "biuf" or by_column:
        raise DatasetFileError(f"{path} holds {dtype} (by columns: {by_column}), expected rows of numbers")
    if len(data) < size:
        raise DatasetFileError(f"{path} is truncated: {len(data)} of {size} bytes are there")
    array = np.frombuffer(data, dtype)
    return array.reshape(kept if shape else ()), length
