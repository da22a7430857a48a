"""From trajectory segments to samples of on-policy algorithms, over columns."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, overload

import numpy as np
import torch

from ding.data import TransitionBatch
from ding.data.roles import Samples
from ding.rl_utils.adder import segment_ends
from ding.rl_utils.gae import backward_sums, gae, gae_data
from ding.utils.rows import split_data_generator


def as_given(samples: TransitionBatch, given: Samples) -> Samples:
    """``samples`` as columns or as a list of rows, as ``given`` is."""
    return samples if isinstance(given, TransitionBatch) else samples.rows()


def with_returns(batch: TransitionBatch, gamma: float) -> TransitionBatch:
    """The segments with ``return``, the discounted sum of the rewards from each step to the end of its segment: float32
    ``[N, 1]``.
    """
    reward = _flat(batch.columns["reward"])
    factor = gamma * (~_last_rows(batch)).float()
    return batch.with_columns(**{"return": backward_sums(reward, factor)})


def with_ends(batch: TransitionBatch) -> TransitionBatch:
    """The segments with ``traj_flag``, bool ``[N]``, which is True where an episode is done or a segment ends."""
    done = np.array(batch.columns["done"], dtype=bool)
    return batch.with_columns(traj_flag=done | _last_rows(batch).numpy())


def with_advantages(
    batch: TransitionBatch,
    values_after: Callable[[Mapping[str, Any], np.ndarray], torch.Tensor],
    gamma: float,
    lambda_: float,
    ignore_done: bool = False,
    value_scale: float = 1.0,
) -> TransitionBatch:
    """The segments with ``adv`` (generalised advantage estimation), in the shape of ``value``, and ``traj_flag``, which
    is true where a segment ends.

    The value after a segment that did not end with its episode is that of the last ``next_obs``.

    Args:
        batch: ``next_obs, value, reward, done``; segments with ``lengths``.
        values_after: the critic; all columns, and int64 ``[S]`` of them, to the values ``[S]`` of their ``next_obs``.
        ignore_done: bootstrap at the end of an episode too; ``done`` becomes False there.
        value_scale: the unit of the values; the advantages are in that of the rewards and so divided by it.
    """
    columns, flags = batch.columns, _last_rows(batch)
    rows = flags.nonzero().squeeze(1)
    value, reward = _flat(columns["value"]), _flat(columns["reward"])
    done = np.array(columns["done"], dtype=bool)
    traj_flag = done | flags.numpy()
    if ignore_done:
        done[rows.numpy()] = False
    next_value = torch.roll(value, -1, 0)
    next_value[rows] = values_after(columns, rows.numpy()).cpu()
    data = gae_data(value * value_scale, next_value * value_scale, reward, torch.from_numpy(done), flags)
    adv = gae(data, gamma, lambda_).reshape(columns["value"].shape)
    return batch.with_columns(done=done, traj_flag=traj_flag, adv=adv)


def minibatches(batch: Mapping[str, Any], fields: tuple[str, ...], batch_size: int) -> Iterator[dict[str, Any]]:
    """Cut the named fields of a batch into shuffled minibatches; a short rest is filled up with other samples."""
    return split_data_generator({key: batch[key] for key in fields if key in batch}, batch_size, shuffle=True)


def _last_rows(batch: TransitionBatch) -> torch.Tensor:
    """bool ``[N]``: whether a row is the last one of its segment."""
    flags = torch.zeros(len(batch), dtype=torch.bool)
    flags[torch.from_numpy(segment_ends(len(batch), batch.lengths)) - 1] = True
    return flags


def _flat(column: Any) -> torch.Tensor:
    """``[N, 1]`` -> ``[N]``, as float32 tensor; other shapes stay."""
    tensor = torch.as_tensor(column, dtype=torch.float32)
    return tensor.squeeze(1) if tensor.ndim == 2 and tensor.shape[1] == 1 else tensor


@overload
def marked_real(transitions: TransitionBatch) -> TransitionBatch: ...
@overload
def marked_real(transitions: Samples) -> Samples: ...
def marked_real(transitions: Samples) -> Samples:
    """The transitions with ``null`` False: what later fills a short sequence up has it True."""
    if isinstance(transitions, TransitionBatch):
        return transitions.with_columns(null=np.zeros(len(transitions), dtype=np.bool_))
    return [{**transition, "null": False} for transition in transitions]
