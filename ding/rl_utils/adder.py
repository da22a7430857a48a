"""Convert collected transitions to train samples: n-step data, advantages, unrolled sequences.

Each function takes a list of transition dicts, which it modifies in place and returns, or a batch with ``columns`` and
``lengths`` (:class:`ding.data.TransitionBatch`), for which it returns a new batch that shares unchanged columns.
``lengths`` are the lengths of the trajectory segments in the batch.
"""

import copy
from collections.abc import Mapping, MutableSequence, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch

from ding.rl_utils.gae import gae, gae_data
from ding.utils.names import check_choice
from ding.utils.nested import map_nested
from ding.utils.rows import put, take

Transition = dict[str, Any]
Column = torch.Tensor | np.ndarray | list[Any] | dict[str, Any]

Steps = TypeVar("Steps", bound=Any)
"""A list of transitions, or a batch of them; the functions return the same type."""

_LAST_FN_TYPES = ("last", "drop", "null_padding")
# Nested data of one step: not converted to a dict of lists.
_UNSPLIT_KEYS = ("prev_state",)


def is_columnar(data: object) -> bool:
    """Return whether ``data`` is a batch of columns and not a list of transitions."""
    return hasattr(data, "columns") and hasattr(data, "lengths")


def _discounts(gamma: float, nstep: int, reference_tail: bool) -> np.ndarray:
    """Return float64 ``[n + 2]``: the discount of the bootstrap value for 0..n steps left, and for more than n."""
    discounts = np.full(nstep + 2, gamma**nstep)
    for left in range(1, nstep + 1):
        discounts[left] = gamma ** (left - 1 if reference_tail else left)
    return discounts


def get_nstep_return_data(
    data: Steps,
    nstep: int,
    cum_reward: bool = False,
    correct_terminate_gamma: bool = True,
    gamma: float = 0.99,
    reference_tail: bool = False,
) -> Steps:
    """Add n-step targets to every transition; ``nstep=1`` returns ``data`` unchanged.

    Transition i of a segment of ``len`` gets ``next_obs`` = obs of i + n, ``reward`` = the n rewards concatenated
    ``(n,)`` (``cum_reward``: their discounted sum), ``done`` of i + n - 1 and ``value_gamma`` = ``gamma^n``. Where
    fewer than n steps follow: next_obs and done of the last one, rewards padded with zeros and ``value_gamma =
    gamma^(len - i)``, the discount of the bootstrap value that far ahead. With ``correct_terminate_gamma=False``,
    ``value_gamma`` is omitted and losses use ``gamma^n`` throughout.

    Args:
        data: list of transitions of one segment with ``obs``, ``reward``, ``done`` (and ``next_obs``), or a batch.
        reference_tail: Whether to use DI-engine's ``gamma^(len - i - 1)`` for the last n transitions of a segment.

    Raises ``ValueError`` for ``nstep < 1``.
    """
    if nstep < 1:
        raise ValueError(f"nstep must be at least 1, got {nstep}")
    if nstep == 1 or not len(data):
        return data
    discounts = _discounts(gamma, nstep, reference_tail) if correct_terminate_gamma else None
    if is_columnar(data):
        columns = data.columns
        ends = segment_ends(len(data), data.lengths)
        changed = nstep_columns(columns, ends, nstep, cum_reward, gamma, discounts)
        return cast(Steps, type(data)({**columns, **changed}, lengths=data.lengths))
    rewards = _row_rewards([item["reward"] for item in data], nstep, cum_reward, gamma)
    dones = [item["done"] for item in data]
    last_next_obs = data[-1].get("next_obs")
    length = len(data)
    for i, item in enumerate(data):
        if "next_obs" in item:
            item["next_obs"] = data[i + nstep]["obs"] if i + nstep < length else last_next_obs
        item["reward"] = rewards[i]
        item["done"] = dones[min(i + nstep, length) - 1]
        if discounts is not None:
            item["value_gamma"] = float(discounts[min(length - i, nstep + 1)])
    return data


def _row_rewards(rewards: list[Any], nstep: int, cum_reward: bool, gamma: float) -> list[Any]:
    """Return for each row its next n rewards, joined or summed, padded with zeros at the end."""
    column = torch.stack(rewards) if isinstance(rewards[0], torch.Tensor) else np.stack(rewards)
    looked_ahead = _rewards(column, nstep, segment_ends(len(rewards), None), cum_reward, gamma)
    return looked_ahead.tolist() if cum_reward and isinstance(rewards[0], (int, float)) else list(looked_ahead)


def get_gae(data: Steps, last_value: torch.Tensor, gamma: float, gae_lambda: float, cuda: bool) -> Steps:
    """Add ``adv`` (see :func:`ding.rl_utils.gae.gae`, without a done mask inside the segment) to every transition.

    Args:
        data: list of transitions of one segment with ``value`` and ``reward`` tensors, or a batch.
        last_value: value of the state after the last transition, of the shape of one ``value``; for a batch one per
            segment, ``[S, ...]``.
        cuda: Whether to compute on the GPU. The advantages are returned on the CPU.
    """
    if is_columnar(data):
        columns = data.columns
        adv = _segment_gae(columns["value"], columns["reward"], data.lengths, last_value, gamma, gae_lambda, cuda)
        return cast(Steps, type(data)({**columns, "adv": adv}, lengths=data.lengths))
    value = torch.stack([torch.as_tensor(item["value"]) for item in data])
    reward = torch.stack([torch.as_tensor(item["reward"]) for item in data])
    last_value = torch.as_tensor(last_value).reshape(1, *value.shape[1:])
    adv = _segment_gae(value, reward, None, last_value, gamma, gae_lambda, cuda)
    for item, advantage in zip(data, adv.unbind(0)):
        item["adv"] = advantage
    return data


def _segment_gae(
    value: torch.Tensor,
    reward: torch.Tensor,
    lengths: np.ndarray | None,
    last_value: torch.Tensor,
    gamma: float,
    gae_lambda: float,
    cuda: bool,
) -> torch.Tensor:
    last_rows = np.unique(segment_ends(len(value), lengths)) - 1
    next_value = torch.roll(value, -1, 0)
    next_value[torch.from_numpy(last_rows)] = torch.as_tensor(last_value, dtype=value.dtype).reshape(
        len(last_rows), *value.shape[1:]
    )
    if reward.dim() == value.dim() + 1:
        reward = reward.squeeze(-1)
    flag = torch.zeros_like(reward)
    flag[torch.from_numpy(last_rows)] = 1
    if cuda:
        value, next_value, reward, flag = (tensor.cuda() for tensor in (value, next_value, reward, flag))
    return gae(gae_data(value, next_value, reward, None, flag), gamma, gae_lambda).cpu()


def get_gae_with_default_last_value(
    data: MutableSequence[Transition], done: bool, gamma: float, gae_lambda: float, cuda: bool
) -> MutableSequence[Transition]:
    """Apply :func:`get_gae` to a list or deque of one segment that includes its last value.

    If the segment is ``done``, the last value is zero; otherwise the last transition is removed from ``data`` and its
    value is used.
    """
    last_value = torch.zeros_like(data[-1]["value"]) if done else data.pop()["value"]
    return get_gae(data, last_value, gamma, gae_lambda, cuda)


def get_train_sample(
    data: Steps,
    unroll_len: int,
    last_fn_type: str = "last",
    null_transition: Steps | Transition | None = None,
    overlap: int = 0,
) -> Steps:
    """Cut each segment into sequences of ``unroll_len`` steps; ``unroll_len=1`` returns ``data`` unchanged.

    Each sequence begins with the last ``overlap`` steps of the one before it.

    ``last_fn_type`` completes the remainder of a segment: ``'last'`` with the preceding steps (with padding if the
    whole segment is too short), ``'null_padding'`` with copies that have ``null=True``, ``done=True``, zero ``obs``,
    ``action``, ``reward`` and ``value_gamma`` (or with ``null_transition``), ``'drop'`` discards it.

    Returns a list of dicts of lists (nested dicts too, except ``prev_state``). For a batch, a batch of sequences as
    columns ``[S, T, ...]``, of ``prev_state`` the one before the first step ``[S, ...]``; its ``lengths`` are the
    numbers of sequences of the segments (None when a segment gave none), and ``null_transition`` may be a batch with a
    row for each segment. Raises ``ValueError`` for ``unroll_len < 1``, for another ``last_fn_type`` and for an
    ``overlap`` below 0 or not below ``unroll_len``.
    """
    if last_fn_type not in _LAST_FN_TYPES:
        check_choice("last_fn_type", last_fn_type, _LAST_FN_TYPES)
    if unroll_len < 1:
        raise ValueError(f"unroll_len must be at least 1, got {unroll_len}")
    if not 0 <= overlap < unroll_len:
        raise ValueError(f"overlap must be at least 0 and below unroll_len={unroll_len}, got {overlap}")
    if unroll_len == 1:
        return data
    if is_columnar(data):
        return cast(Steps, _unroll_columns(data, unroll_len, last_fn_type, null_transition, overlap))
    return cast(Steps, _unroll(list(data), unroll_len, last_fn_type, null_transition, overlap))


def _num_sequences(num_steps: int | np.ndarray, unroll_len: int, overlap: int, drops_rest: bool) -> np.ndarray:
    """Return the number of sequences of a segment of so many steps, an int or int64 ``[S]``."""
    new = num_steps - overlap
    count = new // (unroll_len - overlap) if drops_rest else -(-new // (unroll_len - overlap))
    # A short segment has no step beyond the overlap, but still gives a padded sequence.
    return np.maximum(count, 0 if drops_rest else np.minimum(num_steps, 1))


def _unroll_columns(data: Any, unroll_len: int, last_fn_type: str, null_transition: Any, overlap: int) -> Any:
    num_rows = len(data)
    lengths = np.array([num_rows]) if data.lengths is None else np.asarray(data.lengths)
    counts = _num_sequences(lengths, unroll_len, overlap, last_fn_type == "drop")
    if not counts.sum():
        return type(data).from_rows([])
    # Per sequence: its segment, and its first step there.
    segment = np.repeat(np.arange(len(lengths)), counts)
    start = (np.arange(len(segment)) - np.repeat(np.cumsum(counts) - counts, counts)) * (unroll_len - overlap)
    if last_fn_type == "last":
        start = np.maximum(np.minimum(start, lengths[segment] - unroll_len), 0)
    step = start[:, None] + np.arange(unroll_len)
    real = step < lengths[segment, None]
    index = step + (np.cumsum(lengths) - lengths)[segment, None]
    short = np.flatnonzero(~real[:, -1])
    if len(short):
        # One row per short sequence, after all others, stands for its missing steps.
        filling = _filling(data, null_transition, index[short, 0], segment[short])
        data = type(data).concat([data, filling])
        index[short] = np.where(real[short], index[short], np.arange(num_rows, len(data))[:, None])
    columns = {
        key: take(column, index[:, 0] if key in _UNSPLIT_KEYS else index) for key, column in data.columns.items()
    }
    return type(data)(columns, lengths=counts if counts.all() else None)


def _filling(data: Any, null_transition: Any, rows: np.ndarray, segments: np.ndarray) -> Any:
    """Return a batch of padding steps with the fields of ``data``.

    Args:
        null_transition: A step, or a batch with one per segment; ``None``: zeros.
        rows, segments: int64 ``[P]``, row of the first step of each sequence, and its segment.
    """
    if is_columnar(null_transition):
        return null_transition[segments]
    if null_transition is not None:
        return type(data).from_rows([null_transition] * len(rows))
    columns = take(data.columns, rows)
    flags = {key: np.ones(len(rows), dtype=np.bool_) for key in ("null", "done") if key in columns}
    zeros = {key: _zeros_like(columns[key]) for key in ("obs", "action", "reward", "value_gamma") if key in columns}
    return type(data)({**columns, **flags, **zeros})


def _unroll(
    data: list[Transition], unroll_len: int, last_fn_type: str, null_transition: Transition | None, overlap: int
) -> list[Transition]:
    segments: list[list[Transition]] = []
    end = 0
    for number in range(_num_sequences(len(data), unroll_len, overlap, last_fn_type == "drop")):
        start = number * (unroll_len - overlap)
        if last_fn_type == "last":
            start = max(min(start, len(data) - unroll_len), 0)
        # Copies, because samples must not share a step.
        steps = [*copy.deepcopy(data[start:end]), *data[max(start, end) : start + unroll_len]]
        end = start + unroll_len
        missing = unroll_len - len(steps)
        if missing:
            template = _null_like(steps[0]) if null_transition is None else null_transition
            steps += [copy.deepcopy(template) for _ in range(missing)]
        segments.append(steps)
    return [_time_lists(segment) for segment in segments]


def _null_like(transition: Transition) -> Transition:
    null = {**transition, "null": True, "done": True}
    for key in ("obs", "action", "reward"):
        if key in transition:
            null[key] = _zeros_like(transition[key])
    if "value_gamma" in transition:
        null["value_gamma"] = 0.0
    return null


def _zeros_like(value: object) -> object:
    return map_nested(_zero, value)


def _zero(leaf: Any) -> object:
    if isinstance(leaf, torch.Tensor):
        return torch.zeros_like(leaf)
    return np.zeros_like(leaf) if isinstance(leaf, np.ndarray) else leaf * 0


def _time_lists(steps: Sequence[Mapping[str, Any]]) -> Transition:
    """Convert a list of dicts to a dict of lists, by the keys of the first step."""
    result: Transition = {}
    for key, first in steps[0].items():
        values = [step[key] for step in steps]
        nested = isinstance(first, Mapping) and key not in _UNSPLIT_KEYS
        result[key] = _time_lists(values) if nested else values
    return result


# n-step data over columns: all segments of a batch at once.


def segment_ends(num_rows: int, lengths: np.ndarray | None) -> np.ndarray:
    """Return for every row the end of its segment, int64 ``[N]`` (``lengths=None``: one segment)."""
    if lengths is None:
        return np.full(num_rows, num_rows, dtype=np.int64)
    return np.repeat(np.cumsum(lengths), lengths)


def _next_obs(columns: dict[str, Any], nstep: int, ends: np.ndarray) -> object:
    """Return ``obs`` n steps ahead within the segment, elsewhere the last ``next_obs`` of the segment."""
    ahead = np.arange(len(ends)) + nstep
    tail = np.flatnonzero(ahead >= ends)
    last = take(columns["next_obs"], ends[tail] - 1)
    if len(tail) == len(ends):
        return last
    result = take(columns["obs"], np.minimum(ahead, ends - 1))
    put(result, tail, last)
    return result


def _window(reward: Column, offset: int, ends: np.ndarray) -> Any:
    """Return the reward ``offset`` rows ahead, zero past the end of the segment."""
    ahead = np.arange(len(ends)) + offset
    inside = ahead < ends
    rows = take(reward, np.minimum(ahead, ends - 1))
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
    """Return the columns that n-step data replaces or adds. ``tail_discount[k]`` is the discount with k steps left
    (``None``: no ``value_gamma``).
    """
    result: dict[str, Any] = {}
    steps = np.minimum(ends - np.arange(len(ends)), nstep)
    if "next_obs" in columns:
        result["next_obs"] = _next_obs(columns, nstep, ends)
    result["reward"] = _rewards(columns["reward"], nstep, ends, cum_reward, gamma)
    result["done"] = take(columns["done"], np.arange(len(ends)) + steps - 1)
    if tail_discount is not None:
        left = ends - np.arange(len(ends))
        result["value_gamma"] = tail_discount[np.minimum(left, nstep + 1)]
    return result


class Adder:
    """The functions of this module under DI-engine's class name."""

    get_gae = staticmethod(get_gae)
    get_gae_with_default_last_value = staticmethod(get_gae_with_default_last_value)
    get_nstep_return_data = staticmethod(get_nstep_return_data)
    get_train_sample = staticmethod(get_train_sample)
