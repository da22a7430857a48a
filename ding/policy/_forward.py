"""From columns of observations to a network and from its output back to columns."""

from typing import Any

import numpy as np
import torch

from ding.data import EnvBatch
from ding.utils.data import default_collate


def forward_columns(model: Any, data: EnvBatch, device: "torch.device | str", **kwargs: Any) -> EnvBatch:
    """Run ``model`` without gradients on the observations of N environments.

    Few rows of vector observations go through the model's array form where it has one: the same values up to rounding.

    Args:
        model: a (wrapped) network; ``forward(obs, **kwargs)`` gives a dict.
        data: observation columns, arrays or tensors of any dtype; the network sees float32 ``[N, ...]``.
        device: where the network is.
        kwargs: passed on, such as ``eps``.

    Returns:
        The outputs as columns on the CPU, ``action`` as ``[N, 1]`` for one discrete action.
    """
    columns = data.columns
    if type(columns) is np.ndarray and device == "cpu":
        array_forward = getattr(model, "array_forward", None)
        arrays = None if array_forward is None else array_forward(columns, **kwargs)
        if arrays is not None:
            return EnvBatch.unchecked(data.env_ids, {key: _array_column(value) for key, value in arrays.items()})
    with torch.no_grad():
        output = model.forward(float_columns(columns, device), **kwargs)
    return EnvBatch.unchecked(data.env_ids, {key: _output_column(value) for key, value in output.items()})


def float_columns(columns: Any, device: "torch.device | str") -> Any:
    """Observation columns as float32 tensors on ``device``; memory is shared where nothing has to change.

    Tuple observations become a list with one batch per entry, as `default_collate` makes it.
    """
    if isinstance(columns, dict):
        return {key: float_columns(value, device) for key, value in columns.items()}
    if isinstance(columns, np.ndarray):
        # torch warns about read-only memory, which an env manager may hand out.
        columns = torch.from_numpy(columns if columns.flags.writeable else columns.copy())
    elif isinstance(columns, list):
        if columns and isinstance(columns[0], tuple):
            columns = default_collate(columns)
        if _is_parts(columns):
            return [float_columns(part, device) for part in columns]
        columns = torch.as_tensor(np.asarray(columns, dtype=np.float32))
    if columns.dtype is torch.float32 and is_there(columns, device):
        return columns
    return columns.to(device=device, dtype=torch.float32)


def _is_parts(value: Any) -> bool:
    """Whether this is a collated tuple observation: a list of one batch of tensors per entry, not of one row each."""
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, dict) or (isinstance(value, torch.Tensor) and value.ndim > 0)


def is_there(tensor: torch.Tensor, device: "torch.device | str") -> bool:
    """Whether ``tensor`` is known to be on ``device``; cheaper than asking ``to`` to find out, which costs 1 us."""
    return device == "cpu" and tensor.is_cpu


def _array_column(value: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(value if value.ndim > 1 else value.reshape(-1, 1))


def _output_column(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if not value.is_cpu:
            value = value.cpu()
        return value.unsqueeze(1) if value.ndim == 1 else value
    if isinstance(value, dict):
        return {key: _output_column(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        # One tensor [N, ...] per head: a row is the list of what each head says.
        heads = [_output_column(head) for head in value]
        return [list(row) for row in zip(*(head.unbind(0) for head in heads))]
    return value
