"""Run small stacks of linear layers in numpy, on the memory of their torch parameters.

For a handful of rows a torch kernel costs less than the way to it: dispatch, autograd bookkeeping and the allocator
take most of the time of a forward pass over the observations of a few environments. numpy has a shorter way. The arrays
used here are views of the parameters, so whatever changes these in place (an optimizer, ``load_state_dict``) is seen at
once; everything else that could make a difference is looked for before each use by :class:`Watch`. Results differ from
those of torch by the rounding of float32 sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

# Larger products are left to torch: numpy's BLAS would share them among threads, which is not worth it at this size.
MAX_MACS = 2**18
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_data_ptr = torch.Tensor.data_ptr


def _relu(x: np.ndarray) -> None:
    np.maximum(x, 0, out=x)


def _tanh(x: np.ndarray) -> None:
    np.tanh(x, out=x)


def _sigmoid(x: np.ndarray) -> None:
    # By way of tanh, which does not overflow for large negative numbers.
    x *= 0.5
    np.tanh(x, out=x)
    x += 1
    x *= 0.5


_ACTIVATIONS: dict[type, tuple[Callable[[np.ndarray], None], Callable[[torch.Tensor], torch.Tensor]]] = {
    nn.ReLU: (_relu, torch.relu_),
    nn.Tanh: (_tanh, torch.tanh_),
    nn.Sigmoid: (_sigmoid, torch.sigmoid_),
}


class ArrayLinear(NamedTuple):
    """A linear layer and the activation behind it, for both ways; the activations work in place.

    The tensors are detached views of the parameters: with them no gradients have to be switched off.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    tensor_activation: Callable[[torch.Tensor], torch.Tensor] | None
    matrix: np.ndarray
    offset: np.ndarray | None
    array_activation: Callable[[np.ndarray], None] | None


class Watch:
    """What a plan was made from, and whether it still is what it was.

    Notices another parameter, buffer or child under a known name, a parameter with other memory (moved, cast, shared),
    children that were added or removed, hooks, and attributes that were added to an instance (such as a ``forward`` of
    its own).
    """

    def __init__(self) -> None:
        self._dicts: list[dict[str, Any]] = []
        self._names: list[str] = []
        self._values: list[Any] = []
        self._sized: list[Any] = []
        self._sizes: list[int] = []
        self._hooks: list[Any] = []
        self._tensors: list[torch.Tensor] = []
        self._pointers: list[int] = []

    def add(self, module: nn.Module, root: bool = False) -> None:
        """Watch ``module``, not its children. Of a ``root`` the own attributes are not held, which would be a cycle."""
        state = module.__dict__
        self._hooks += [state[name] for name in _HOOKS]
        for field in ("_modules", "_parameters", "_buffers"):
            entries = state[field]
            for name, value in entries.items():
                self._dicts.append(entries)
                self._names.append(name)
                self._values.append(value)
            self._sized.append(entries)
            self._sizes.append(len(entries))
        if not root:
            self._sized.append(state)
            self._sizes.append(len(state))
        for parameter in state["_parameters"].values():
            if parameter is not None:
                self._tensors.append(parameter)
                self._pointers.append(parameter.data_ptr())

    def unchanged(self) -> bool:
        """Whether nothing of the above happened."""
        # All loops run inside of C functions: this is asked at each forward pass.
        return (
            list(map(_data_ptr, self._tensors)) == self._pointers
            and all(map(is_, map(dict.get, self._dicts, self._names), self._values))
            and list(map(len, self._sized)) == self._sizes
            and not any(self._hooks)
        )


def plan_layers(layers: Iterable[nn.Module], watch: Watch) -> list[ArrayLinear] | None:
    """The layers as a list of linear steps; ``None`` when there is something else among them.

    Arguments:
        layers: modules that are run one after the other. Plain ``nn.Sequential`` s are entered.
        watch: told about every module.
    """
    steps: list[ArrayLinear] = []
    for layer in _flat(layers, watch):
        kind = type(layer)
        if kind is nn.Linear:
            step = _linear(layer)  # type: ignore[arg-type]
            if step is None:
                return None
            steps.append(step)
        elif kind in _ACTIVATIONS and steps and steps[-1].array_activation is None:
            on_array, on_tensor = _ACTIVATIONS[kind]
            steps[-1] = steps[-1]._replace(array_activation=on_array, tensor_activation=on_tensor)
        elif kind is not nn.Identity:
            return None
    return steps if steps and not _has_hooks(layers) else None


def _flat(layers: Iterable[nn.Module], watch: Watch) -> list[nn.Module]:
    found: list[nn.Module] = []
    for layer in layers:
        watch.add(layer)
        # Not ``children()``, which leaves out the second place of an activation that stands in two.
        found += _flat(layer._modules.values(), watch) if type(layer) is nn.Sequential else [layer]
    return found


def _has_hooks(layers: Iterable[nn.Module]) -> bool:
    return any(
        "forward" in module.__dict__ or any(module.__dict__[name] for name in _HOOKS)
        for layer in layers
        for module in layer.modules()
    )


def _linear(layer: nn.Linear) -> ArrayLinear | None:
    tensors = [tensor for tensor in (layer.weight, layer.bias) if tensor is not None]
    if any(
        type(tensor) is not nn.Parameter
        or not tensor.is_cpu
        or tensor.dtype is not torch.float32
        or not tensor.is_contiguous()
        for tensor in tensors
    ):
        return None
    weight, *bias = (tensor.detach() for tensor in tensors)
    offset = bias[0] if bias else None
    return ArrayLinear(weight, offset, None, weight.numpy().T, None if offset is None else offset.numpy(), None)


def run_arrays(steps: list[ArrayLinear], x: np.ndarray) -> np.ndarray:
    """float32 ``[N, in]`` to float32 ``[N, out]``; ``x`` is not changed."""
    for _, _, _, matrix, offset, activation in steps:
        # Not ``@``: that looks for warnings, of which torch gives none.
        x = np.dot(x, matrix)
        if offset is not None:
            x += offset
        if activation is not None:
            activation(x)
    return x


def run_tensors(steps: list[ArrayLinear], x: torch.Tensor) -> torch.Tensor:
    """The same by torch: bit for bit what the modules give, without gradients."""
    for weight, bias, activation, _, _, _ in steps:
        x = F.linear(x, weight, bias)
        if activation is not None:
            x = activation(x)
    return x


def max_rows(steps: Iterable[ArrayLinear]) -> int:
    """The largest number of rows for which :func:`run_arrays` is meant."""
    return MAX_MACS // max(1, *(step.matrix.size for step in steps))
