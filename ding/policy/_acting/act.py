"""One call of a network that acts: observations of N environments to columns of outputs."""

from typing import Any

import numpy as np
import torch

from ding.data import EnvBatch
from ding.policy._acting.observations import network_columns, output_column
from ding.torch_utils.network.array_function import arrays_allowed

_FLOAT32 = np.dtype(np.float32)


def act(module: torch.nn.Module, model: Any, data: EnvBatch, device: torch.device | str, **kwargs: Any) -> EnvBatch:
    """Run ``model``, a wrapper around ``module`` or that itself, in evaluation mode and without gradients.

    Args:
        model: ``forward(obs, **kwargs)`` gives a dict.
        data: observation columns; the network gets them as :func:`network_columns` makes them.
        kwargs: passed on, such as ``eps``.

    Returns:
        The outputs as columns on the CPU, ``action`` as ``[N, 1]`` for one discrete action.
    """
    if module.training:
        module.eval()
    obs = data.columns
    context = arrays_allowed.set(type(obs) is np.ndarray and obs.dtype is _FLOAT32)
    try:
        with torch.no_grad():
            output = model.forward(network_columns(obs, device), **kwargs)
    finally:
        arrays_allowed.reset(context)
    return EnvBatch.unchecked(data.env_ids, {key: output_column(value) for key, value in output.items()})
