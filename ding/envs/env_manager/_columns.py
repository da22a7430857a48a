"""Columns of one vector step: actions sent, observations and rewards received, with checks."""

import logging
from collections.abc import Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from ding.data import EnvBatch, SchemaError
from ding.data.columns import Columns, row_at, row_list, stack_rows
from ding.envs.contract import (
    DataProblem,
    converted,
    copied,
    fits_reward_space,
    obs_reader,
    reward_array,
    reward_misfit,
)
from ding.envs.env.action_parts import as_index
from ding.envs.env.spaces import tree_of
from ding.utils.finite import FLOAT32_MAX, is_surely_finite, unfit_leaf
from ding.utils.nested import iter_leaves, map_leaves, map_nested, map_paths

logger = logging.getLogger(__name__)

Schema: TypeAlias = dict[str, tuple[tuple[int, ...], Any]]
"""Path of a leaf -> shape and dtype of a row."""

_FLOAT32 = np.dtype(np.float32)


class NumberCheck:
    """Checks values returned by envs for numbers that networks cannot process: NaN is an error, others a warning.

    Args:
        enabled: Whether to check.
    """

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._warned: set[str] = set()

    def nan_in(self, name: str, columns: Columns, env_ids: Sequence[int] | None = None) -> tuple[int, str] | None:
        """Return the position of a row that contains NaN, and a description such as "the observation at 'a'"; or None.

        The first number that is infinite, or beyond the float32 range, is logged as a warning.

        Args:
            name: Name of the columns, such as "the reward".
            env_ids: Env of each row; by default its position.
        """
        if not self._enabled or (isinstance(columns, np.ndarray) and is_surely_finite(columns)):
            return None
        found = unfit_leaf(iter_leaves(columns))
        if found is None:
            return None
        path, position, number = found
        where = f"{name} at {path!r}" if path else name
        if np.isnan(number):
            return position, where
        if where not in self._warned:
            self._warned.add(where)
            env_id = position if env_ids is None else env_ids[position]
            logger.warning(
                "env %d: %s holds %g; networks compute in float32, where numbers beyond %.2g are infinite and give "
                "NaN: scale or clip it, for example by a wrapper in env.env_wrapper", env_id, where, number, FLOAT32_MAX
            )  # fmt: skip
        return None


def action_rows(batch: EnvBatch, discrete: bool, as_given: bool = False) -> list[Any]:
    """Return one action per env: Python ints if ``discrete``, otherwise arrays (or the elements of a list column).

    Args:
        batch: Actions ``[N]``, ``[N, 1]`` or ``[N, d]``, as a tensor or an array; or dicts or lists of them.
        discrete: Whether the envs take plain ints.
        as_given: Whether the batch was built from single actions, which keep their form; tensors become arrays, also in
            dicts, lists and tuples. From columns ``[N]`` each env takes a 0-d array.
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
    # Each env gets an array, even for single numbers.
    return list(array) if array.ndim > 1 else [array[position, ...] for position in range(length)]


def _array_row(row: object) -> object:
    """Replace tensors in an action by arrays."""
    return map_nested(lambda leaf: leaf.numpy(force=True) if isinstance(leaf, torch.Tensor) else leaf, row)


def of_abnormal(obs: Any, reward: Any, last_obs: Any) -> tuple[Any, Any]:
    """Return observation and reward of an abnormal step; missing or NaN values become the last observation and 0."""
    if obs is None or _holds_nan(stack_rows([obs])):
        obs = last_obs
    paid = np.asarray(0.0 if reward is None else reward)
    if reward is None or (paid.dtype.kind == "f" and np.isnan(paid).any()):
        reward = np.zeros(paid.shape or (1,), dtype=np.float32)
    return obs, reward


def _holds_nan(columns: Columns) -> bool:
    found = unfit_leaf(iter_leaves(columns))
    return found is not None and bool(np.isnan(found[2]))


def reward_rows(
    rewards: Sequence[object],
    env_ids: Sequence[int],
    check: NumberCheck,
    shape: "tuple[int, ...] | None",
    are_own: bool = False,
) -> np.ndarray:
    """Return rewards as float64 ``[N]`` if each is one number, else ``[N, ...]``.

    Args:
        rewards: One reward per env.
        env_ids: Ids of the envs.
        check: Checks the rewards.
        shape: Required shape of several numbers; ``None``: any shape that all envs share.
        are_own: See :func:`~ding.envs.contract.fits_reward_space`.

    Raises:
        DataProblem: A reward is not a number, is NaN or has a wrong shape.
    """
    try:
        array = np.array(rewards)
    except (TypeError, ValueError):
        array = np.array(None)
    # With a dtype, NumPy would also parse numbers from strings and objects.
    if array.dtype.kind in "fiub":
        array = array.astype(np.float64, copy=False)
    else:
        array = _unlike_rewards(rewards, env_ids, shape, are_own)
    if array.ndim > 1 and array.size == len(rewards):
        array = array.reshape(-1)
    elif array.ndim > 1 and not fits_reward_space(array.shape[1:], shape, are_own):
        raise DataProblem(reward_misfit(array.shape[1:], shape or (1,)), env_ids[0])
    nan = check.nan_in("the reward", array, env_ids)
    if nan is not None:
        raise DataProblem(f"NaN in {nan[1]}", env_ids[nan[0]])
    return array


def _unlike_rewards(
    rewards: Sequence[object], env_ids: Sequence[int], shape: "tuple[int, ...] | None", are_own: bool
) -> np.ndarray:
    arrays = []
    for env_id, reward in zip(env_ids, rewards):
        try:
            arrays.append(reward_array(reward))
        except DataProblem as problem:
            raise DataProblem(str(problem), env_id) from problem
    expected = max(arrays, key=np.size).shape if shape is None else shape
    for env_id, array in zip(env_ids, arrays):
        if array.size != 1 and not fits_reward_space(array.shape, expected, are_own):
            raise DataProblem(reward_misfit(array.shape, expected), env_id)
    if all(array.size == 1 for array in arrays):
        return np.array([array.item() for array in arrays], dtype=np.float64)
    # A number among arrays: the reward of a failed step.
    return np.array(np.broadcast_arrays(*arrays), dtype=np.float64)


def reward_shape(space: "gymnasium.Space[Any] | None") -> "tuple[int, ...] | None":
    """Return the shape of rewards of several numbers that a reward space allows; ``None`` without a reward space."""
    shape = getattr(space, "shape", None)
    return None if shape is None else tuple(shape) or (1,)


def given_rewards(rewards: list[Any]) -> "list[Any] | None":
    """Return the rewards in the form of the envs, copied; ``None`` if all are rows of a column, float32 ``(1,)``."""
    for reward in rewards:
        if type(reward) is not np.ndarray or reward.dtype is not _FLOAT32 or not reward.ndim:
            return [copied(one) for one in rewards]
    return None


def given_numbers(columns: Columns, rows: Sequence[Any]) -> "Columns | None":
    """Replace arrays ``[N]`` of the columns by lists in the form of the envs; ``None`` if both give the same rows."""
    if isinstance(columns, dict):
        parts = {
            key: given_numbers(column, [row[key] for row in rows])
            for key, column in columns.items()
            if isinstance(column, dict) or (isinstance(column, np.ndarray) and column.ndim == 1)
        }
        found = {key: part for key, part in parts.items() if part is not None}
        return {**columns, **found} if found else None
    if not isinstance(columns, np.ndarray) or columns.ndim > 1:
        return None
    if not any(isinstance(row, (np.generic, np.ndarray)) for row in rows):
        return None
    return [copied(row) for row in rows]


class DeclaredDtypes:
    """Converts observations to the dtypes declared by their space, from other dtypes of the same kind.

    Arrays with another shape than their Box, or that do not convert, are unchanged, as are values without a Box.

    Args:
        space: Observation space of one env: a Box, or a Dict of spaces; nothing is converted for other spaces.
    """

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._boxes = {path: leaf for path, leaf in iter_leaves(tree_of(space)) if isinstance(leaf, spaces.Box)}

    def columns(self, columns: Columns, path: str = "") -> Columns:
        """Convert the observations of N envs at ``path`` of the space."""
        result: Columns = map_paths(self._column, columns, path)
        return result

    def _column(self, path: str, columns: object) -> object:
        box = self._boxes.get(path)
        if box is None or not isinstance(columns, np.ndarray) or columns.shape[1:] != box.shape:
            return columns
        cast = converted(columns, box.dtype)
        return columns if cast is None else cast


class ObsStacker:
    """Stacks observations, one per env, into columns, and identifies the env of an invalid observation.

    A ``reliable`` space defines valid observations, see :mod:`ding.envs.contract`. Otherwise dtypes are converted if
    possible, and the envs are compared with the first observation. Values that are not arrays, or whose space has no
    shape, become a ``list`` column of copies if they do not stack.

    Args:
        space: Observation space of one env.
        reliable: Whether the envs are known to comply with their space.
        check: Checks the observations.
    """

    def __init__(self, space: gymnasium.Space[Any], reliable: bool, check: NumberCheck) -> None:
        self._check = check
        self._may_be_ragged = not isinstance(space, (spaces.Box, spaces.Dict))
        self._read = obs_reader(space, strict=reliable)
        self._declared = DeclaredDtypes(space)
        self._box = space if reliable and isinstance(space, spaces.Box) else None
        self._first: Schema | None = None

    def stack(self, obs: Sequence[Any], env_ids: Sequence[int]) -> Columns:
        """Return the observations as columns with one row per env.

        Raises:
            DataProblem: An observation is invalid.
        """
        if self._box is None:
            columns = self._stack_any(obs, env_ids)
        else:
            try:
                columns = np.array(obs)
            except ValueError:
                columns = np.empty(0)  # of different shapes
            if columns.shape[1:] != self._box.shape or columns.dtype != self._box.dtype:
                columns = np.stack(self._all_read(obs, env_ids))
        nan = self._check.nan_in("the observation", columns, env_ids)
        if nan is not None:
            raise DataProblem(f"NaN in {nan[1]}", env_ids[nan[0]])
        return columns

    def row(self, obs: object, env_id: int) -> object:
        """Return the observation of one env in stackable form, with numbers in their original form.

        Raises:
            DataProblem: An observation is invalid.
        """
        columns = self.stack([obs], [env_id])
        given = None if self._box is not None else given_numbers(columns, [obs])
        return row_at(columns if given is None else given, 0)

    def _all_read(self, obs: Sequence[Any], env_ids: Sequence[int]) -> list[Any]:
        rows = []
        for env_id, row in zip(env_ids, obs):
            try:
                rows.append(self._read(row))
            except DataProblem as problem:
                raise DataProblem(str(problem), env_id) from problem
        return rows

    def _stack_any(self, obs: Sequence[Any], env_ids: Sequence[int]) -> Columns:
        try:
            columns = stack_rows(obs)
            if self._first is not None:
                if _schema(columns) == self._first:
                    return columns
                columns = self._declared.columns(columns)
                if _schema(columns) == self._first:
                    return columns
        except SchemaError:
            pass
        rows = self._all_read(obs, env_ids)
        try:
            columns = stack_rows(rows)
        except SchemaError as error:
            if self._may_be_ragged:
                return [copied(row) for row in rows]
            self._name_odd_one(rows, env_ids)
            raise DataProblem(str(error), env_ids[0]) from error
        found = _schema(columns)
        if found is None:
            result: Columns = map_leaves(
                lambda leaf: [copied(row) for row in leaf] if isinstance(leaf, list) else leaf, columns
            )
            return result
        if self._first is None:
            self._first = found
        elif found != self._first and not self._may_be_ragged:
            self._name_odd_one(rows, env_ids)
        return columns

    def _name_odd_one(self, rows: Sequence[Any], env_ids: Sequence[int]) -> None:
        expected = self._first
        for env_id, value in zip(env_ids, rows):
            found = _schema(stack_rows([value]))
            expected = expected or found
            if found is not None and expected is not None and found != expected:
                raise DataProblem(schema_problem(found, expected), env_id)


def _schema(columns: Columns) -> Schema | None:
    """Return shapes and dtypes of the leaves; ``None`` if one of them is a list."""
    if isinstance(columns, np.ndarray):
        return {"": (columns.shape[1:], columns.dtype)}
    schema: Schema = {}
    for path, leaf in iter_leaves(columns):
        if isinstance(leaf, list):
            return None
        schema[path] = (tuple(leaf.shape[1:]), leaf.dtype)
    return schema


def schema_problem(found: Schema, expected: Schema) -> str:
    """Describe the difference between an observation and the first one."""
    if found.keys() != expected.keys():
        return f"observation with the keys {sorted(found)}, expected {sorted(expected)}"
    path = next(path for path in found if found[path] != expected[path])
    where = f" at {path!r}" if path else ""
    (shape, dtype), (first_shape, first_dtype) = found[path], expected[path]
    if shape != first_shape:
        return f"observation{where} of shape {shape}, expected {first_shape}"
    return f"observation{where} of dtype {dtype}, expected {first_dtype}"
