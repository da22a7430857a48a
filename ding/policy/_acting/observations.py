"""Observations as a network takes them, and its outputs as columns."""

import numpy as np
import torch

from ding.data.columns import num_rows, row_list
from ding.torch_utils.data_helper import network_input, network_tensor
from ding.utils.data import default_collate
from ding.utils.nested import Tree, is_ignored_key


def network_columns(columns: object, device: torch.device | str) -> Tree:
    """Return observation columns as a network takes them, to act and to learn: tensors ``[N, ...]`` on ``device``.

    Each becomes a tensor by the rule of :func:`~ding.torch_utils.network_tensor`: uint8 and float64 as float32, others
    of their dtype. A batch of dicts is a dict, one of lists or tuples a list with one batch per entry. Lists of numbers
    count as vectors. Texts, and the values of keys that begin with ``collate_ignore``, stay a list with a row per
    environment.

    Args:
        columns: an array, a tensor, a list of N rows, or a dict of such.
        device: where the network is.
    """
    if isinstance(columns, (torch.Tensor, np.ndarray)):
        return network_tensor(columns, device)
    if isinstance(columns, dict):
        return {
            key: row_list(value, num_rows(value)) if is_ignored_key(key) else network_columns(value, device)
            for key, value in columns.items()
        }
    assert isinstance(columns, list)
    if columns[0] is None:
        return columns
    batch = np.asarray(columns) if all(map(_is_vector, columns)) else default_collate(columns)
    return network_input(batch, device)


def _is_vector(row: object) -> bool:
    """Whether a row holds numbers only, in lists of any depth."""
    return all(map(_is_vector, row)) if isinstance(row, list) else isinstance(row, (int, float, np.number, np.bool_))


def output_column(value: object) -> Tree:
    """An output of a network for N environments as a column on the CPU, ``[N]`` as ``[N, 1]``; of several heads a list
    with a row per environment.
    """
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value[:, None] if value.ndim == 1 else value)
    if isinstance(value, torch.Tensor):
        value = value if value.is_cpu else value.cpu()
        return value.unsqueeze(1) if value.ndim == 1 else value
    if isinstance(value, dict):
        return {key: output_column(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (torch.Tensor, np.ndarray)):
        heads = [output_column(head) for head in value]
        return [list(row) for row in zip(*(head.unbind(0) for head in heads))]
    return value
