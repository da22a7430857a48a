"""``world_model.compile``: the training steps of an ensemble as compiled graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import nn

from ding.config import ConfigValueError
from ding.torch_utils.graph.compiled_graphs import CompiledGraphs, form_of
from ding.torch_utils.graph.flat_parameters import flatten_parameters
from ding.torch_utils.graph.recording import record
from ding.torch_utils.optimizer_helper import Adam

Batch = Mapping[str, torch.Tensor]


class Stepping(Protocol):
    """A network that makes its training steps itself."""

    optimizer: Adam

    def update(self, batch: Batch) -> Mapping[str, torch.Tensor]:
        """Make one step; returns numbers to log, 0-d tensors."""


class TrainingSteps:
    """Makes the steps of networks, by graphs where ``world_model.compile`` says so.

    Args:
        setting: ``False``, ``True``, ``'auto'`` or ``'record'``, see docs/compile.md.
        name: class of the world model, for the line that says why steps are eager.

    Raises:
        ConfigValueError: an unknown setting.
    """

    def __init__(self, setting: Any, name: str) -> None:
        #: What was compiled.
        self.graphs = CompiledGraphs("world_model.compile", setting, f"{name} learns", ConfigValueError)

    def prepare(self, network: Stepping) -> None:
        """Put the parameters side by side in which a graph finds them. The network must be on its device already."""
        if self.graphs.enabled:
            flatten_parameters(param for group in network.optimizer.param_groups for param in group["params"])

    def __call__(self, network: Any, batch: Batch, repeated: bool) -> Mapping[str, torch.Tensor]:
        """Make one step of ``network``; returns its numbers, 0-d tensors.

        Args:
            repeated: whether batches of this form come again and again, so that a graph is worth it.
        """
        compiled = None
        leaves = list(batch.values())
        if repeated and self.graphs.enabled:
            compiled = self.graphs.find((network, form_of(batch)), _recorder(network, batch), leaves)
        if compiled is not None:
            self.graphs.num_runs += 1
            (layout,) = compiled.graph.layout
            return dict(zip((name for name, _ in layout), compiled(leaves).unbind()))
        start = time.perf_counter()
        numbers: Mapping[str, torch.Tensor] = network.update(batch)
        self.graphs.eager_s += time.perf_counter() - start
        return numbers


def _recorder(network: Any, batch: Batch) -> Callable[[], Any]:
    modules: list[nn.Module] = [network]

    def batches(tensors: Any) -> list[Batch]:
        return [dict(zip(batch, tensors))]

    return lambda: record(network.update, modules, [network.optimizer], list(batch.values()), batches, [{}])
