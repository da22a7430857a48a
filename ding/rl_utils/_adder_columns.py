"""n-step data over columns: all segments of a batch at once, row by row equal to the classic list version."""

from typing import Any

import numpy as np
import torch

Column = torch.Tensor | np.ndarray | list[Any] | dict[str, Any]


def segment_ends(num_rows: int, lengths: np.ndarray | None) -> np.ndarray:
    """int64 ``[N]``: for every row the position after the last row of its segment (``lengths=None``: one segment)."""
    if lengths is None:
        return np.full(num_rows, num_rows, dtype=np.int64)
    return np.repeat(np.cumsum(lengths), lengths)


def gather(column: Column, index: np.ndarray) -> Any:
    """Rows ``index`` (any shape) of a column or of a nested dict of columns; lists take 1-D indices only."""
    if isinstance(column, dict):
        return {key: gather(value, index) for key, value in column.items()}
    if isinstance(column, torch.Tensor):
        flat = column.index_select(0, torch.from_numpy(index.reshape(-1)).to(column.device))
        return flat.view(*index.shape, *column.shape[1:])
    if isinstance(column, np.ndarray):
        return column.take(index, axis=0)
    return [column[i] for i in index.tolist()]


def _scatter(target: Column, source: Any, rows: np.ndarray) -> None:
    """Write ``source`` into the given rows of ``target``, a fresh column of the same nesting."""
    if isinstance(target, dict):
        for key, value in target.items():
            _scatter(value, source[key], rows)
    elif isinstance(target, torch.Tensor):
        target[torch.from_numpy(rows).to(target.device)] = source
    elif isinstance(target, np.ndarray):
        target[rows] = source
    else:
        for row, value in zip(rows.tolist(), source):
            target[row] = value


def _next_obs(columns: dict[str, Any], nstep: int, ends: np.ndarray) -> Any:
    """``obs`` n steps ahead where the segment has it, the last ``next_obs`` of the segment elsewhere."""
    ahead = np.arange(len(ends)) + nstep
    tail = np.flatnonzero(ahead >= ends)
    last = gather(columns["next_obs"], ends[tail] - 1)
    if len(tail) == len(ends):
        return last
    result = gather(columns["obs"], np.minimum(ahead, ends - 1))
    _scatter(result, last, tail)
    return result


def _window(reward: Column, offset: int, ends: np.ndarray) -> Any:
    """The reward ``offset`` rows ahead, zero past the end of the segment."""
    ahead = np.arange(len(ends)) + offset
    inside = ahead < ends
    rows = gather(reward, np.minimum(ahead, ends - 1))
    rows[~inside if isinstance(rows, np.ndarray) else torch.from_numpy(~inside).to(rows.device)] = 0
    return rows


def _rewards(reward: Column, nstep: int, ends: np.ndarray, cum_reward: bool, gamma: float) -> Any:
    if isinstance(reward, (dict, list)):
        raise TypeError(
            f"n-step returns need a reward column that is a tensor or an array, got {type(reward).__name__}"
        )
    windows = [_window(reward, offset, ends) for offset in range(nstep)]
    if cum_reward:
        total = windows[0]
        for offset in range(1, nstep):
            total = total + (gamma**offset) * windows[offset]
        return total
    if reward.ndim == 1:
        return torch.stack(windows, 1) if isinstance(reward, torch.Tensor) else np.stack(windows, 1)
    return torch.cat(windows, 1) if isinstance(reward, torch.Tensor) else np.concatenate(windows, 1)


def nstep_columns(
    columns: dict[str, Any],
    ends: np.ndarray,
    nstep: int,
    cum_reward: bool,
    gamma: float,
    tail_discount: np.ndarray | None,
) -> dict[str, Any]:
    """The columns that n-step data replaces or adds. ``tail_discount[k]`` is the discount with k steps left
    (``None``: no ``value_gamma`` is added).
    """
    result: dict[str, Any] = {}
    steps = np.minimum(ends - np.arange(len(ends)), nstep)
    if "next_obs" in columns:
        result["next_obs"] = _next_obs(columns, nstep, ends)
    result["reward"] = _rewards(columns["reward"], nstep, ends, cum_reward, gamma)
    result["done"] = gather(columns["done"], np.arange(len(ends)) + steps - 1)
    if tail_discount is not None:
        left = ends - np.arange(len(ends))
        result["value_gamma"] = tail_discount[np.minimum(left, nstep + 1)]
    return result
