"""One call of a network that acts: observations of N environments to columns of outputs."""

from typing import Any

import torch

from ding.data import EnvBatch
from ding.model import IModelWrapper
from ding.policy.common_utils import network_columns, output_column


def act(module: torch.nn.Module, model: Any, data: EnvBatch, device: torch.device | str, **kwargs: Any) -> EnvBatch:
    """Run ``model``, a wrapper around ``module`` or that itself, in evaluation mode and without gradients.

    Args:
        model: ``forward(obs, **kwargs)`` gives a dict.
        data: observation columns; the network gets them as :func:`network_columns` makes them.
        kwargs: passed on, such as ``eps``.

    Returns:
        The outputs as columns on the CPU, ``action`` as ``[N, 1]`` for one discrete action.
    """
    obs = data.columns
    arrays = model.array_forward(obs, **kwargs) if isinstance(model, IModelWrapper) else None
    if arrays is not None:
        columns = {key: torch.from_numpy(value[:, None] if value.ndim == 1 else value) for key, value in arrays.items()}
    else:
        if module.training:
            module.eval()
        with torch.no_grad():
            output = model.forward(network_columns(obs, device), **kwargs)
        columns = {key: output_column(value) for key, value in output.items()}
    return EnvBatch.unchecked(data.env_ids, columns)
