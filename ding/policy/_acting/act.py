"""One call of a network that acts: observations of N environments to columns of outputs."""

from typing import Any

import numpy as np
import torch

from ding.data import EnvBatch
from ding.model.wrapper.model_wrappers import IModelWrapper
from ding.policy._acting.observations import network_columns, output_column

_FLOAT32 = np.dtype(np.float32)


def act(module: torch.nn.Module, model: Any, data: EnvBatch, device: torch.device | str, **kwargs: Any) -> EnvBatch:
    """Run ``model``, a wrapper around ``module`` or that itself, in evaluation mode and without gradients.

    Args:
        model: ``forward(obs, **kwargs)`` gives a dict.
        data: observation columns; the network gets them as :func:`network_columns` makes them, or a float32 array as it
            is, where all wrappers of the model take it (:attr:`~ding.model.wrapper.IModelWrapper.takes_arrays`).
        kwargs: passed on, such as ``eps``.

    Returns:
        The outputs as columns on the CPU, ``action`` as ``[N, 1]`` for one discrete action.
    """
    if module.training:
        module.eval()
    obs = data.columns
    by_numpy = type(obs) is np.ndarray and obs.dtype is _FLOAT32 and device == "cpu"
    if by_numpy and isinstance(model, IModelWrapper) and model.acts_on_arrays():
        output = model.forward(obs, **kwargs)
    else:
        with torch.no_grad():
            output = model.forward(network_columns(obs, device), **kwargs)
    return EnvBatch.unchecked(data.env_ids, {key: output_column(value) for key, value in output.items()})
