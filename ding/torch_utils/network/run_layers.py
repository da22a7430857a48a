"""Run small, plain networks with less overhead than one ``nn.Module.__call__`` per layer.

For the small networks of reinforcement learning the cost of a forward pass is the Python around the kernels.

* ``run_layers``, for learning, calls the kernel of a plain linear or activation layer directly and every other layer as
  usual, so the numbers are the same, bit for bit, and hooks, normalisation, dropout and noise layers keep working.
  Parameters are read from the layers at each call. It gives 8 % of a serial CartPole run with 3 updates per pass
  (9 rounds in turns, CPU time) and 13 % with one (5 rounds). The plain form is ``for layer in layers: x = layer(x)``,
  which it takes itself where hooks for all modules are registered.
* ``ArrayForm``, for acting, runs a whole network by numpy. It gives 10 to 25 % of a CartPole run by PPO, or by DQN
  with 80 env steps and 3 updates per pass, and nothing that shows with 8 and 5. The plain form is the forward pass of
  the model, which a policy takes where there is no array form.
"""

import weakref
from collections.abc import Callable, Iterable
from itertools import chain
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as _module

_ACTIVATIONS: dict[type, Callable[[torch.Tensor], torch.Tensor]] = {
    nn.ReLU: torch.relu,
    nn.Tanh: torch.tanh,
    nn.Sigmoid: torch.sigmoid,
}
# The same in the place of their input, for the output of a linear layer, which no gradient needs.
_IN_PLACE: dict[type, Callable[[torch.Tensor], torch.Tensor]] = {
    nn.ReLU: torch.relu_,
    nn.Tanh: torch.tanh_,
    nn.Sigmoid: torch.sigmoid_,
}
# Layers that take floats of their own dtype only, whatever the numbers are.
_OF_FLOATS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_LINEAR, _SEQUENTIAL, _linear = nn.Linear, nn.Sequential, F.linear  # each attribute look-up counts here

# Larger products are left to torch: numpy's BLAS would share them among threads, which is not worth it at this size.
_MAX_MACS = 2**18
# A network without an array form is looked at again after so many calls: hooks may have been removed.
_CALLS_BETWEEN_TRIES = 1000
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_ZERO, _HALF = np.zeros((), np.float32), np.full((), 0.5, np.float32)


def run_layers(layers: Iterable[nn.Module], x: torch.Tensor) -> torch.Tensor:
    """Feed ``x`` through ``layers`` one after the other; equal to calling them in turn.

    Arguments:
        layers: modules of one tensor in, one tensor out. A plain ``nn.Sequential`` among them is entered.
        x: ``[..., in_features]``; integers and bools get the dtype of the first layer, if that is one of torch.
    """
    if not x.is_floating_point():
        layers = list(layers)
        x = _cast(x, layers)
    plain = not (
        _module._global_forward_hooks
        or _module._global_forward_pre_hooks
        or _module._global_backward_hooks
        or _module._global_backward_pre_hooks
    )
    after_linear = False
    for layer in layers:
        kind = type(layer)
        state = layer.__dict__
        if (
            not plain
            or state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
            or "forward" in state
        ):
            x = layer(x)
        elif kind is _LINEAR:
            parameters = state["_parameters"]
            x = _linear(x, parameters["weight"], parameters["bias"])
            after_linear = True
            continue
        elif kind is _SEQUENTIAL:
            x = run_layers(state["_modules"].values(), x)
        elif kind in _ACTIVATIONS and not state.get("inplace"):
            x = (_IN_PLACE if after_linear else _ACTIVATIONS)[kind](x)
        else:
            x = layer(x)
        after_linear = False
    return x


def _cast(x: torch.Tensor, layers: Iterable[nn.Module]) -> torch.Tensor:
    """Integers and bools in the dtype of the first layer that has parameters, if it is one of ``_OF_FLOATS``."""
    for layer in layers:
        weight = next(layer.parameters(), None)
        if weight is None:
            continue
        if type(layer) is _SEQUENTIAL:
            return _cast(x, layer)
        return x.to(weight.dtype) if isinstance(layer, _OF_FLOATS) else x
    return x


class NotPlain(Exception):
    """A part of the network that has no array form."""


class _ArrayLayer(NamedTuple):
    """A linear layer and the activation behind it; the arrays are views of the parameters."""

    matrix: np.ndarray
    bias: np.ndarray | None
    activation: type | None = None


class ArrayForm:
    """A small, plain network over arrays as stacks of layers, and what it was made from.

    For the observations of a few environments a torch kernel costs less than the way to it; numpy has a shorter way.
    What changes the parameters in place (an optimiser, ``load_state_dict``) is seen at once; what
    else could make a difference is looked for by :meth:`holds`. Values differ from the module's by the rounding of
    float32 sums. Hooks for all modules of the process are not called.
    """

    def __init__(self, owners: Iterable[nn.Module], stacks: Iterable[Iterable[nn.Module]]) -> None:
        self._calls_left = _CALLS_BETWEEN_TRIES
        # The modules and parameters that were found, and the dicts in which they stand.
        self._places: list[dict[str, Any]] = []
        self._found: list[object] = []
        self._hooks: list[dict[int, Any]] = []
        self._tensors: list[torch.Tensor] = []
        # The layers of each stack; without them there is no array form.
        self.stacks: list[list[_ArrayLayer]] = []
        try:
            for module in owners:
                self._watch(module)
            found = [self._layers(stack) for stack in stacks]
        except NotPlain:
            return
        if any(self._hooks) or not found or not found[0]:
            return
        self._pointers = [tensor.data_ptr() for tensor in self._tensors]
        self.max_rows = _MAX_MACS // max(tensor.numel() for tensor in self._tensors)
        self.stacks = found

    def holds(self) -> bool:
        """Whether the model is still what this was made from."""
        if not self.stacks:
            self._calls_left -= 1
            return self._calls_left > 0
        found = list(chain.from_iterable(map(dict.values, self._places)))
        return (
            len(found) == len(self._found)
            and all(map(is_, found, self._found))
            and [tensor.data_ptr() for tensor in self._tensors] == self._pointers
            and not any(self._hooks)
        )

    def run(self, stack: int, x: np.ndarray) -> np.ndarray:
        """Run one stack of layers on ``x`` ``[N, features]``."""
        for matrix, bias, activation in self.stacks[stack]:
            # Not ``@``: that looks for warnings, of which torch gives none.
            x = np.dot(x, matrix)
            if bias is not None:
                x += bias
            if activation is nn.ReLU:
                np.maximum(x, _ZERO, out=x)
            elif activation is nn.Tanh:
                np.tanh(x, out=x)
            elif activation is nn.Sigmoid:
                # By way of tanh, which does not overflow for large negative numbers.
                x = _HALF * np.tanh(_HALF * x) + _HALF
        return x

    def _watch(self, module: nn.Module) -> None:
        state = vars(module)
        if "forward" in state:
            raise NotPlain
        self._hooks += [state[name] for name in _HOOKS]
        # What stands in a dict that is empty now would not be part of the forward pass.
        for entries in filter(None, (state["_modules"], state["_parameters"])):
            self._places.append(entries)
            self._found += entries.values()

    def _layers(self, modules: Iterable[nn.Module]) -> list[_ArrayLayer]:
        layers: list[_ArrayLayer] = []
        for module in modules:
            self._watch(module)
            kind = type(module)
            if kind is nn.Sequential:
                # Not ``children()``, which skips an activation that stands twice.
                layers += self._layers(module)  # type: ignore[arg-type]
            elif kind is nn.Linear:
                matrix, bias = self._array(module.weight), self._array(module.bias)  # type: ignore[arg-type]
                assert matrix is not None
                layers.append(_ArrayLayer(matrix.T, bias))
            elif kind in _ACTIVATIONS and layers and layers[-1].activation is None:
                layers[-1] = layers[-1]._replace(activation=kind)
            elif kind is not nn.Identity:
                raise NotPlain
        return layers

    def _array(self, parameter: nn.Parameter | None) -> np.ndarray | None:
        if parameter is None:
            return None
        plain = type(parameter) is nn.Parameter and parameter.is_cpu and parameter.dtype is torch.float32
        if not plain or not parameter.is_contiguous():
            raise NotPlain
        self._tensors.append(parameter)
        return parameter.detach().numpy()


Parts = tuple[Iterable[nn.Module], Iterable[Iterable[nn.Module]]]
_forms: weakref.WeakKeyDictionary[nn.Module, ArrayForm] = weakref.WeakKeyDictionary()


def array_form(model: nn.Module, parts: Callable[[], Parts], obs: object) -> ArrayForm | None:
    """The array form of ``model`` as it is now, for observations ``obs``.

    Args:
        parts: returns the modules whose attributes matter, and the stacks of layers; raises ``NotPlain`` for a model
            that has no such form.

    Returns:
        ``None`` where there is none, or ``obs`` is not float32 ``[N, features]`` of the first stack, or has too many
        rows.
    """
    if type(obs) is not np.ndarray or obs.ndim != 2 or obs.dtype != np.float32:
        return None
    form = _forms.get(model)
    if form is None or not form.holds():
        try:
            form = ArrayForm(*parts())
        except NotPlain:
            form = ArrayForm((), ())
        _forms[model] = form
    fits = bool(form.stacks) and obs.shape[1] == len(form.stacks[0][0].matrix) and len(obs) <= form.max_rows
    return form if fits else None
