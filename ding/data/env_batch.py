"""Mappings from environment ids to rows of stacked arrays, and the marker of policy methods that use columns."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from ding.data.columns import Columns, SchemaError, check_rows, row_at, row_list, stack_rows
from ding.utils.nested import Tree
from ding.utils.rows import take

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "__ding_batched__"
_FORWARD_NAMES = frozenset({"_forward_collect", "_forward_eval", "forward"})


class BaseEnvTimestep(NamedTuple):
    """Result of one env step: observation, reward, ``done`` (terminated or truncated) and info dict."""

    obs: Any
    reward: Any
    done: bool
    info: dict[str, Any]


class EnvBatch(Mapping[int, Any]):
    """Values of N environments: ``batch[env_id]`` is a row of the columns.

    *Rows win*, as in :class:`~ding.data.TransitionBatch`: once dict rows have been handed out, they are authoritative
    and :attr:`columns` is rebuilt from them. Rows that are arrays or tensors share memory with the columns.

    Args:
        env_ids: int64 ``[N]``, distinct.
        columns: a column or a nested dict of columns with N rows each.

    Attributes:
        env_ids: int64 ``[N]``.
        given: Columns that rows are built from instead of :attr:`columns`, where envs returned numbers in a form that
            rows of arrays do not have: numpy scalars, arrays without an axis. ``None`` if there are none.

    Raises:
        SchemaError: A leaf's number of rows differs from the number of ids.
    """

    __slots__ = ("_columns", "_positions", "_rows", "env_ids", "given")

    def __init__(self, env_ids: "np.ndarray | Sequence[int]", columns: Columns) -> None:
        self.env_ids = np.asarray(env_ids, dtype=np.int64)
        check_rows(columns, len(self.env_ids))
        self._columns: Columns | None = columns
        self._rows: list[Any] | None = None
        self._positions: dict[int, int] | None = None
        self.given: Columns | None = None

    @classmethod
    def unchecked(cls, env_ids: np.ndarray, columns: Columns | None) -> "EnvBatch":
        """Wrap valid columns without checking them (for hot paths)."""
        batch = cls.__new__(cls)
        batch.env_ids = env_ids
        batch._columns = columns
        batch._rows = None
        batch._positions = None
        batch.given = None
        return batch

    @classmethod
    def from_dict(cls, mapping: Mapping[int, Any]) -> "EnvBatch":
        """Return a batch of the given values, in the order of the mapping.

        The values become columns when :attr:`columns` is first read.
        """
        if isinstance(mapping, EnvBatch):
            return mapping
        batch = EnvBatch.unchecked(_ids(mapping), None)
        batch._rows = list(mapping.values())
        return batch

    @property
    def columns(self) -> Columns:
        """Column or nested dict of columns.

        Raises:
            SchemaError: The rows do not match, or there are none.
        """
        if self._columns is not None:
            return self._columns
        assert self._rows is not None
        if not self._rows:
            raise SchemaError("an EnvBatch without environments has no columns")
        columns = stack_rows(self._rows)
        if not isinstance(columns, dict):
            self._columns = columns
        return columns

    @property
    def fields(self) -> dict[str, Any]:
        """Columns of a batch of dicts, by key.

        Raises:
            SchemaError: The rows are not dicts.
        """
        columns = self.columns
        if not isinstance(columns, dict):
            raise SchemaError(f"an EnvBatch of {type(columns).__name__} has no fields")
        return columns

    def with_columns(self, **columns: Any) -> "EnvBatch":
        """Return a batch of dicts with these columns added or replaced."""
        return EnvBatch.unchecked(self.env_ids, {**self.fields, **columns})

    def take(self, positions: np.ndarray) -> "EnvBatch":
        """Return the batch of the environments at these positions (not ids)."""
        if self._columns is None and self._rows is not None:
            return EnvBatch.from_dict({int(self.env_ids[p]): self._rows[p] for p in positions.tolist()})
        batch = EnvBatch.unchecked(self.env_ids[positions], take(self.columns, positions))
        if self.given is not None:
            batch.given = take(self.given, positions)
        return batch

    def position(self, env_id: int) -> int:
        """Return the row position of an environment. Raises ``KeyError`` if it is not in the batch."""
        if self._positions is None:
            self._positions = {int(env_id): i for i, env_id in enumerate(self.env_ids.tolist())}
        return self._positions[env_id]

    def to_dict(self) -> dict[int, Any]:
        """Return a plain dict env id -> row."""
        return dict(zip(self.env_ids.tolist(), self._all_rows()))

    def copy(self) -> dict[int, Any]:
        """Return a plain dict env id -> row, like ``dict.copy``; the rows are shared with the batch."""
        return self.to_dict()

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same ids with equal rows, in any order; arrays compare by value."""
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.keys() == other.keys() and all(equal_rows(row, other[env_id]) for env_id, row in self.items())

    def _all_rows(self) -> list[Any]:
        if self._rows is not None:
            return self._rows
        assert self._columns is not None
        rows = row_list(self._columns if self.given is None else self.given, len(self.env_ids))
        if isinstance(self._columns, dict):
            self._rows = rows
            self._columns = None
        return rows

    def __getitem__(self, env_id: int) -> Tree:
        position = self.position(env_id)
        if self._rows is None and not isinstance(self._columns, dict):
            assert self._columns is not None
            return row_at(self._columns if self.given is None else self.given, position)
        return self._all_rows()[position]

    def __iter__(self) -> Iterator[int]:
        return iter(self.env_ids.tolist())

    def __len__(self) -> int:
        return len(self.env_ids)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env_ids={self.env_ids.tolist()})"


class TimestepBatch(EnvBatch):
    """The timesteps of N environments: ``batch[env_id]`` is a :class:`BaseEnvTimestep`.

    Args:
        env_ids: int64 ``[N]``.
        obs: column(s) with N rows; after the end of an episode the final observation, not the one of the reset.
        reward: float32 ``[N, ...]``, usually ``[N, 1]``.
        done: bool ``[N]``, terminated or truncated.
        truncated: bool ``[N]``, ended by a time limit in a non-terminal state.
        infos: position -> info dict, for rows that have one.

    Attributes:
        given: see :class:`EnvBatch`, of the observations.
        given_reward: Rewards as returned by the envs, if their form differs from a row of ``reward``.
    """

    __slots__ = ("done", "given_reward", "infos", "obs", "reward", "truncated")

    def __init__(
        self,
        env_ids: "np.ndarray | Sequence[int]",
        obs: Columns,
        reward: Columns,
        done: np.ndarray,
        truncated: np.ndarray,
        infos: dict[int, dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(env_ids, {"obs": obs, "reward": reward, "done": done, "truncated": truncated})
        self._columns = None
        self.obs, self.reward, self.done, self.truncated = obs, reward, done, truncated
        self.infos = {} if infos is None else infos
        self.given_reward: list[Any] | None = None

    @classmethod
    def unchecked_timesteps(
        cls,
        env_ids: np.ndarray,
        obs: Columns,
        reward: Columns,
        done: np.ndarray,
        truncated: np.ndarray,
        infos: dict[int, dict[str, Any]],
    ) -> "TimestepBatch":
        """Wrap valid arrays without checking them (for hot paths)."""
        batch = cls.__new__(cls)
        batch.env_ids = env_ids
        batch._columns = batch._rows = batch._positions = batch.given = batch.given_reward = None
        batch.obs, batch.reward, batch.done, batch.truncated = obs, reward, done, truncated
        batch.infos = infos
        return batch

    @classmethod
    def from_dict(cls, mapping: Mapping[int, Any]) -> "TimestepBatch":
        """Columnise a dict env id -> timestep with the fields ``obs, reward, done, info`` (the classic form of an env
        manager).

        ``truncated`` is read from ``info['TimeLimit.truncated']`` of finished episodes. Rewards become float32;
        numbers, and lists or tuples of one, become ``[N, 1]``. The rows remain the given timesteps.

        Raises:
            SchemaError: The timesteps do not match, or there are none.
        """
        if isinstance(mapping, TimestepBatch):
            return mapping
        steps = list(mapping.values())
        if not steps:
            raise SchemaError("a TimestepBatch needs at least one environment")
        infos = {i: step.info for i, step in enumerate(steps) if step.info}
        batch = cls.unchecked_timesteps(
            _ids(mapping),
            _obs_column([step.obs for step in steps]),
            _reward_column([step.reward for step in steps]),
            np.array([bool(step.done) for step in steps], dtype=np.bool_),
            np.array([bool(step.done) and is_truncated(step.info) for step in steps], dtype=np.bool_),
            infos,
        )
        batch._rows = steps
        return batch

    @property
    def columns(self) -> Columns:
        """``{'obs', 'reward', 'done', 'truncated'}``."""
        return {"obs": self.obs, "reward": self.reward, "done": self.done, "truncated": self.truncated}

    def info_at(self, position: int) -> dict[str, Any]:
        """Return the info dict of a row; a row without one gets its own empty dict."""
        return self.infos.setdefault(position, {})

    def take(self, positions: np.ndarray) -> "TimestepBatch":
        """Return the timesteps at these positions (not ids)."""
        infos = {new: self.infos[old] for new, old in enumerate(positions.tolist()) if old in self.infos}
        part = self.unchecked_timesteps(
            self.env_ids[positions],
            take(self.obs, positions),
            take(self.reward, positions),
            self.done[positions],
            self.truncated[positions],
            infos,
        )
        part.given = None if self.given is None else take(self.given, positions)
        part.given_reward = None if self.given_reward is None else [self.given_reward[i] for i in positions.tolist()]
        return part

    def _all_rows(self) -> list[Any]:
        if self._rows is None:
            size = len(self.env_ids)
            obs = row_list(self.obs if self.given is None else self.given, size)
            rewards = row_list(self.reward, size) if self.given_reward is None else self.given_reward
            parts = zip(obs, rewards, self.done.tolist(), range(size))
            self._rows = [BaseEnvTimestep(obs, reward, done, self.info_at(i)) for obs, reward, done, i in parts]
        return self._rows

    def normalised(self) -> "TimestepBatch":
        """Return the timesteps with rows in the form of transitions: rewards and numbers as in the columns.

        For timesteps from :meth:`from_dict`, only rewards that are lists are replaced.
        """
        if self.given is not None or self.given_reward is not None:
            return self.unchecked_timesteps(self.env_ids, self.obs, self.reward, self.done, self.truncated, self.infos)
        if self._rows is None or not any(isinstance(step.reward, (list, tuple)) for step in self._rows):
            return self
        batch = self.take(np.arange(len(self.env_ids)))
        pairs = zip(self._rows, row_list(self.reward, len(self)))
        batch._rows = [BaseEnvTimestep(step.obs, reward, bool(step.done), step.info) for step, reward in pairs]
        return batch

    def __getitem__(self, env_id: int) -> BaseEnvTimestep:
        timestep: BaseEnvTimestep = self._all_rows()[self.position(env_id)]
        return timestep


def equal_rows(one: Any, other: Any) -> bool:
    """Return whether two rows are equal: containers of one kind, arrays and tensors of one shape with equal entries."""
    if isinstance(one, Mapping):
        return (
            isinstance(other, Mapping) and one.keys() == other.keys() and all(equal_rows(one[k], other[k]) for k in one)
        )
    if isinstance(one, (list, tuple)):
        return isinstance(other, (list, tuple)) and len(one) == len(other) and all(map(equal_rows, one, other))
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        both = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        return both and torch.equal(one, other)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _ids(mapping: Mapping[int, Any]) -> np.ndarray:
    return np.fromiter(mapping.keys(), dtype=np.int64, count=len(mapping))


def is_truncated(info: object) -> bool:
    """Return whether an info dict reports that a time limit, not a terminal state, ended the episode."""
    return bool(isinstance(info, Mapping) and info.get("TimeLimit.truncated", False))


def mark_truncated(info: object, truncated: bool) -> None:
    """Set whether a time limit ended the episode, overwriting the entry of the env.

    The infos of a game, a list with one per player, are unchanged.
    """
    if not isinstance(info, dict):
        return
    if truncated:
        info["TimeLimit.truncated"] = True
    elif info.get("TimeLimit.truncated", False):
        del info["TimeLimit.truncated"]


def is_abnormal(info: object) -> bool:
    """Return whether an info (of a game: that of any player) reports that the env broke and must be reset."""
    infos = info if isinstance(info, (list, tuple)) else (info,)
    return any(isinstance(one, Mapping) and one.get("abnormal", False) for one in infos)


def _obs_column(observations: list[Any]) -> Columns:
    """Return stacked observations; those of different shapes (graphs, sets) remain objects."""
    try:
        return stack_rows(observations, "obs")
    except SchemaError:
        return observations


def _is_numeric(reward: object) -> bool:
    if isinstance(reward, np.ndarray):
        return reward.dtype.kind in "biuf"
    if isinstance(reward, (list, tuple)):
        return all(map(_is_numeric, reward))
    return isinstance(reward, (int, float, np.number, np.bool_))


def _reward_column(rewards: list[Any]) -> Columns:
    if all(_is_numeric(reward) for reward in rewards):
        # Envs may mix ints and floats, or numbers and lists of one number.
        arrays = [np.asarray(reward, dtype=np.float32) for reward in rewards]
        rewards = [np.atleast_1d(array) for array in arrays] if any(array.ndim for array in arrays) else arrays
    column = stack_rows(rewards, "reward")
    if isinstance(column, np.ndarray):
        column = column.astype(np.float32, copy=False)
        return column[:, None] if column.ndim == 1 else column
    return column


def batched(method: Method) -> Method:
    """Mark a policy method that takes and returns columns.

    The mark belongs to the function, not to its name: a subclass that overrides the method without the mark receives
        classic calls (one dict per environment or transition).

    A forward method (``_forward_collect``, ``_forward_eval``, ``forward``) may still be called the classic way, with a
    plain dict ``{env_id: obs}``: it is then given an :class:`~ding.data.EnvBatch`, and its result is turned into a
    plain dict. Other methods are only marked; their bodies serve both forms.
    """
    if method.__name__ not in _FORWARD_NAMES:
        setattr(method, _MARK, True)
        return method

    @functools.wraps(method)
    def forward(self: object, data: Mapping[int, Any], *args: Any, **kwargs: Any) -> object:
        if isinstance(data, EnvBatch):
            return method(self, data, *args, **kwargs)
        return method(self, EnvBatch.from_dict(data), *args, **kwargs).to_dict()

    setattr(forward, _MARK, True)
    return forward  # type: ignore[return-value]


def is_batched(method: object) -> bool:
    """Return whether a function or bound method is marked with :func:`batched`."""
    return getattr(method, _MARK, False) is True  # a mock has every attribute
