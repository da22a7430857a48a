"""Columns of one vector step: actions of a batch out, observations and rewards of many envs in, with their checks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from ding.data import EnvBatch, SchemaError
from ding.data.columns import Columns, iter_leaves, row_at, row_list, stack_rows
from ding.envs.env.action_parts import as_index

Complaint: TypeAlias = Callable[[int, str], Exception]
"""(env id, what is wrong) -> the exception to raise."""

Schema: TypeAlias = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Path of a leaf -> shape and dtype of a row of it."""


def has_nan(array: np.ndarray) -> bool:
    """Whether there is NaN in an array; infinities are no NaN, and other dtypes than floats hold none."""
    if array.dtype.kind != "f":
        return False
    squares = np.vdot(array, array)  # NaN when one of them is; the fastest look at a few numbers
    return bool(squares != squares)


def first_nan(columns: Columns) -> tuple[int, str] | None:
    """Position of a row that holds NaN and the path of its leaf, ``None`` without one."""
    for path, leaf in iter_leaves(columns):
        array = leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf
        if isinstance(array, np.ndarray) and has_nan(array):
            return int(np.isnan(array).reshape(len(array), -1).any(axis=1).argmax()), path
    return None


def action_rows(batch: EnvBatch, discrete: bool, as_given: bool = False) -> list[Any]:
    """One action per env: Python ints if ``discrete``, else arrays (or what a list column holds).

    Args:
        batch: actions ``[N]``, ``[N, 1]`` or ``[N, d]``, a tensor or an array; or dicts or lists of them.
        discrete: whether the envs take plain ints.
        as_given: whether the batch was made of single actions, which keep their form; tensors become arrays, also in
            dicts, lists and tuples. Of columns ``[N]`` each env takes a 0-d array.
    """
    if as_given and not discrete:
        return [_array_row(row) for row in batch.values()]
    try:
        columns = batch.columns
    except SchemaError:
        columns = list(batch.values())  # of different shapes
    return _int_rows(columns, len(batch)) if discrete else _array_rows(columns, len(batch))


def _int_rows(columns: Columns, length: int) -> list[Any]:
    if isinstance(columns, torch.Tensor):
        columns = columns.detach().cpu().numpy()
    if isinstance(columns, np.ndarray) and columns.size == length:
        return columns.reshape(-1).tolist()
    return [as_index(row) for row in row_list(columns, length)]


def _array_rows(columns: Columns, length: int) -> list[Any]:
    if isinstance(columns, dict):
        per_key = [_array_rows(column, length) for column in columns.values()]
        return [dict(zip(columns, values)) for values in zip(*per_key)] if columns else [{} for _ in range(length)]
    if isinstance(columns, list):
        return [_array_row(row) for row in columns]
    array = columns.detach().cpu().numpy() if isinstance(columns, torch.Tensor) else columns
    return [array[position, ...] for position in range(length)]


def _array_row(row: object) -> Any:
    """An action with arrays in place of tensors."""
    if isinstance(row, torch.Tensor):
        return row.detach().cpu().numpy()
    if type(row) is list:
        return [_array_row(value) for value in row]
    if type(row) is tuple:
        return tuple(map(_array_row, row))
    return {key: _array_row(value) for key, value in row.items()} if isinstance(row, dict) else row


def of_abnormal(obs: Any, reward: Any, last_obs: Any) -> tuple[Any, Any]:
    """Observation and reward of a step that collectors drop; what is missing, or NaN, is the one before, and 0."""
    if obs is None or first_nan(stack_rows([obs])) is not None:
        obs = last_obs
    paid = np.asarray(0.0 if reward is None else reward)
    if reward is None or (paid.dtype.kind == "f" and np.isnan(paid).any()):
        reward = np.zeros_like(paid) if paid.ndim else 0.0
    return obs, reward


def float32_reward(reward: object) -> Any:
    """A reward as managers hand it out: float32, ``(1,)`` of a number; what holds no numbers stays as it is."""
    try:
        array = np.asarray(reward)
    except ValueError:  # lists of different lengths
        return reward
    return np.atleast_1d(array.astype(np.float32)) if array.dtype.kind in "fiub" else reward


def reward_array(rewards: Sequence[object], env_ids: Sequence[int], check: bool, complain: Complaint) -> np.ndarray:
    """Rewards as float64 ``[N]`` where each is one number, else ``[N, ...]``.

    Raises:
        Exception: what ``complain`` makes, for a reward that is no number, is NaN or does not fit the others.
    """
    try:
        array = np.array(rewards, dtype=np.float64)
    except (TypeError, ValueError):
        array = _unlike_rewards(rewards, env_ids, complain)
    if array.ndim > 1 and array.size == len(rewards):
        array = array.reshape(-1)
    if check and has_nan(array):
        raise complain(env_ids[int(np.argwhere(np.isnan(array))[0][0])], "NaN in the reward")
    return array


def _unlike_rewards(rewards: Sequence[object], env_ids: Sequence[int], complain: Complaint) -> np.ndarray:
    arrays = [np.asarray(reward) for reward in rewards]
    for env_id, array, reward in zip(env_ids, arrays, rewards):
        if array.dtype.kind not in "fiub":
            raise complain(env_id, f"reward {reward!r}, expected a number")
    largest = max(arrays, key=np.size)
    for env_id, array in zip(env_ids, arrays):
        if array.size != 1 and array.shape != largest.shape:
            raise complain(env_id, f"reward of shape {array.shape}, expected {largest.shape}")
    # A number among arrays: the reward of a step that failed.
    return np.array(np.broadcast_arrays(*arrays), dtype=np.float64)


class DeclaredDtypes:
    """Observations in the dtypes that their space declares, whatever dtypes of the same kind an env returns.

    An array whose shape is not that of its Box, or that numpy does not convert within its kind, stays as it is; so does
    what no Box describes.

    Args:
        space: observation space of one env: a Box, or a Dict of spaces; of others nothing is converted.
    """

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._boxes = dict(_boxes(space))

    def columns(self, columns: Columns, path: str = "") -> Columns:
        """The observations of N envs, which lie at ``path`` of the space."""
        if isinstance(columns, dict):
            return {key: self.columns(one, f"{path}.{key}" if path else str(key)) for key, one in columns.items()}
        box = self._boxes.get(path)
        if box is None or not isinstance(columns, np.ndarray) or columns.shape[1:] != box.shape:
            return columns
        castable = np.can_cast(columns.dtype, box.dtype, "same_kind")
        return columns.astype(box.dtype, copy=False) if castable else columns

    def row(self, obs: object) -> Any:
        """The observation of one env."""
        return row_at(self.columns(stack_rows([obs])), 0) if self._boxes else obs


def _boxes(space: gymnasium.Space[Any], path: str = "") -> Iterator[tuple[str, spaces.Box]]:
    """The Boxes of a space by the paths of their leaves."""
    if isinstance(space, spaces.Box):
        yield path, space
    elif isinstance(space, spaces.Dict):
        for key, one in space.spaces.items():
            yield from _boxes(one, f"{path}.{key}" if path else str(key))


class ObsStacker:
    """Stacks observations, one per env, into columns, and names the env whose observation does not fit.

    A Box space that is ``reliable`` gives the shape and dtype (dtypes that convert within their kind are converted).
    Otherwise dtypes are converted where that is possible, see :class:`DeclaredDtypes`, and the envs are compared with
    the first observation seen. What is no array, or has a space that says nothing about shapes, becomes a ``list``
    column if it does not stack.

    Args:
        space: observation space of one env.
        reliable: whether envs are known to keep to their space.
        check: whether to look for NaN.
        complain: makes the exception for a bad observation.
    """

    def __init__(self, space: gymnasium.Space[Any], reliable: bool, check: bool, complain: Complaint) -> None:
        self._check = check
        self._complain = complain
        self._may_be_ragged = not isinstance(space, (spaces.Box, spaces.Dict))
        self._declared = DeclaredDtypes(space)
        self._box = space if reliable and isinstance(space, spaces.Box) else None
        self._first: Schema | None = None

    def stack(self, obs: Sequence[Any], env_ids: Sequence[int]) -> Columns:
        """Return the observations as columns with one row each.

        Raises:
            Exception: what ``complain`` makes.
        """
        if self._box is None:
            columns = self._stack_any(obs, env_ids)
        else:
            try:
                columns = np.array(obs)
            except ValueError:
                columns = np.empty(0)  # of different shapes
            if columns.shape[1:] != self._box.shape or columns.dtype != self._box.dtype:
                self._check_rows(obs, env_ids, self._box)
                columns = columns.astype(self._box.dtype)
        if self._check and (not isinstance(columns, np.ndarray) or has_nan(columns)):
            bad = first_nan(columns)
            if bad is not None:
                where = f" at {bad[1]!r}" if bad[1] else ""
                raise self._complain(env_ids[bad[0]], f"NaN in the observation{where}")
        return columns

    def _check_rows(self, obs: Sequence[Any], env_ids: Sequence[int], box: spaces.Box) -> None:
        for env_id, row in zip(env_ids, map(np.asarray, obs)):
            if row.shape != box.shape:
                raise self._complain(env_id, f"observation of shape {row.shape}, expected {box.shape}")
            if not np.can_cast(row.dtype, box.dtype, "same_kind"):
                raise self._complain(env_id, f"observation of dtype {row.dtype}, expected {box.dtype}")

    def _stack_any(self, obs: Sequence[Any], env_ids: Sequence[int]) -> Columns:
        try:
            columns = stack_rows(obs)
        except SchemaError as error:
            if self._may_be_ragged:
                return list(obs)
            try:
                columns = stack_rows([self._declared.row(row) for row in obs])
            except SchemaError:
                self._name_odd_one(obs, env_ids)
                raise self._complain(env_ids[0], str(error)) from error
        if not self._may_be_ragged and _schema(columns) != self._first:
            columns = self._declared.columns(columns)
            found = _schema(columns)
            if self._first is None:
                self._first = found
            elif found != self._first:
                self._name_odd_one(obs, env_ids)
        return columns

    def _name_odd_one(self, obs: Sequence[Any], env_ids: Sequence[int]) -> None:
        expected = self._first
        for env_id, value in zip(env_ids, obs):
            found = _schema(self._declared.columns(stack_rows([value])))
            expected = expected or found
            if found != expected:
                raise self._complain(env_id, f"observation {_schema_text(found)}, expected {_schema_text(expected)}")


def _schema(columns: Columns) -> Schema:
    arrays = [(path, leaf) for path, leaf in iter_leaves(columns) if isinstance(leaf, np.ndarray)]
    return {path: (leaf.shape[1:], leaf.dtype) for path, leaf in arrays}


def _schema_text(schema: Schema) -> str:
    parts = [f"{path}: " * bool(path) + f"shape {shape} dtype {dtype}" for path, (shape, dtype) in schema.items()]
    return "; ".join(parts) or "without arrays"
