"""What the Q models share: an encoder by the shape of the observation, a head, the forms of an observation, and a
forward pass over arrays for acting.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ding.model.common._shapes import Observation, ObsShape, as_shape, output_sizes
from ding.model.common.encoder import ConvEncoder, DictEncoder, FCEncoder
from ding.model.common.head import DiscreteHead, DuelingHead, MultiHead

OBSERVATION, ACTION_MASK = "observation", "action_mask"
DEFAULT_HIDDEN_SIZES = (128, 128, 64)


def make_encoder(
    obs_shape: ObsShape,
    hidden_size_list: Sequence[int],
    activation: nn.Module | None,
    norm_type: str | None,
    dropout: float | None = None,
) -> nn.Module:
    """The encoder of ``obs_shape``: ``FCEncoder`` for one axis, ``ConvEncoder`` for three, ``DictEncoder`` for a
    mapping.

    Raises:
        RuntimeError: another number of axes.
    """
    if isinstance(obs_shape, Mapping):
        return DictEncoder(obs_shape, hidden_size_list, activation, norm_type, dropout)
    shape = as_shape(obs_shape, "obs_shape")
    if isinstance(shape, int):
        return FCEncoder(shape, hidden_size_list, activation=activation, norm_type=norm_type, dropout=dropout)
    if len(shape) == 3:
        return ConvEncoder(shape, hidden_size_list, activation=activation, norm_type=norm_type)
    raise RuntimeError(
        f"no encoder for obs_shape={obs_shape!r}: one axis, three axes (C, H, W) or a mapping of such are supported; "
        "build a model of your own for others"
    )


def make_head(
    head_cls: Callable[..., nn.Module],
    action_shape: int | Sequence[int],
    hidden_size_list: Sequence[int],
    head_hidden_size: int | None,
    **head_kwargs: Any,
) -> nn.Module:
    """The head over the last of ``hidden_size_list``; a ``MultiHead`` for several ``action_shape`` entries.

    Raises:
        ValueError: ``head_hidden_size``, which is the width of what the head reads, is not the width of the encoder.
    """
    width = hidden_size_list[-1]
    if head_hidden_size is not None and head_hidden_size != width:
        raise ValueError(
            f"head_hidden_size must equal the last entry of encoder_hidden_size_list ({width}), which the head reads; "
            f"got head_hidden_size={head_hidden_size}, encoder_hidden_size_list={list(hidden_size_list)}"
        )
    sizes = output_sizes(action_shape)
    if isinstance(sizes, list):
        return MultiHead(head_cls, width, sizes, **head_kwargs)
    return head_cls(width, sizes, **head_kwargs)


class QModel(nn.Module):
    """Base of the Q models: ``forward`` encodes the observation and runs the head.

    An observation is a tensor, a dict ``{'observation': ..., 'action_mask': ...}`` whose mask is passed through to
    the output, or, for a model with a mapping as ``obs_shape``, a dict of its names (which may have an
    ``action_mask`` beside them).
    """

    encoder: nn.Module
    head: nn.Module

    def forward(self, x: Observation) -> dict[str, Any]:
        """Observation ``[B, *obs_shape]`` (or a dict as above) to the outputs of the head, and ``action_mask`` if
        there was one.
        """
        observation, action_mask = (x, None) if isinstance(x, torch.Tensor) else self.split_observation(x)
        output: dict[str, Any] = self.head(self.encode(observation))
        if action_mask is not None:
            output[ACTION_MASK] = action_mask
        return output

    def encode(self, observation: Observation) -> torch.Tensor:
        """Features of an observation without its mask. Integers (pixels) get the precision of the model."""
        return encode(observation, self.encoder)

    def array_logit(self, obs: object) -> np.ndarray | None:
        """The Q values by numpy and without gradients: float32 ``[N, features]`` to float32 ``[N, actions]``.

        Returns:
            ``None`` unless ``obs`` is such an array and the model an ``FCEncoder`` with a ``DiscreteHead`` or
            ``DuelingHead`` of plain linear layers and activations on the CPU, small enough for N rows.
        """
        if type(obs) is not np.ndarray or obs.ndim != 2 or obs.dtype != np.float32:
            return None
        form = _array_forms.get(self)
        if form is None or not form.holds():
            form = _array_forms[self] = _ArrayForm(self)
        if not form.streams or obs.shape[1] != len(form.streams[0][0].matrix) or len(obs) > form.max_rows:
            return None
        features = _run_arrays(form.streams[0], obs)
        q = _run_arrays(form.streams[1], features)
        return q if len(form.streams) == 2 else np.dot(q, form.centre) + _run_arrays(form.streams[2], features)

    def split_observation(self, x: Observation) -> tuple[Any, torch.Tensor | None]:
        """:func:`split_observation` for this model."""
        return split_observation(x, self.encoder, type(self).__name__)


def split_observation(x: Observation, encoder: nn.Module, model_name: str) -> tuple[Any, torch.Tensor | None]:
    """The observation and the action mask (None without one) of ``x``.

    Raises:
        TypeError: ``x`` is neither a tensor nor a mapping.
        KeyError: a mapping without the key ``observation`` for a model that takes tensors.
    """
    if isinstance(x, torch.Tensor):
        return x, None
    if not isinstance(x, Mapping):
        raise TypeError(f"{model_name} takes a tensor or a dict of tensors, got {type(x).__name__}")
    names = encoder.names if isinstance(encoder, DictEncoder) else []
    if OBSERVATION in x and OBSERVATION not in names:
        return x[OBSERVATION], x.get(ACTION_MASK)
    if names:
        return x, None if ACTION_MASK in names else x.get(ACTION_MASK)
    raise KeyError(
        f"{model_name} was built for a tensor observation; a dict must hold it under {OBSERVATION!r} "
        f"(and may hold {ACTION_MASK!r}), got the keys {sorted(x)}"
    )


def encode(observation: Observation, encoder: nn.Module) -> torch.Tensor:
    """Features of an observation without its mask. Integers (pixels) get the precision of the encoder."""
    if isinstance(observation, torch.Tensor) and not observation.is_floating_point():
        observation = observation.to(next(encoder.parameters()).dtype)
    return encoder(observation)


# Larger products are left to torch: numpy's BLAS would share them among threads, which is not worth it at this size.
_MAX_MACS = 2**18
# A network without an array form is looked at again after so many calls: hooks may have been removed.
_CALLS_BETWEEN_TRIES = 1000
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_STREAMS: dict[type, tuple[str, ...]] = {DiscreteHead: ("Q",), DuelingHead: ("A", "V")}
_ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid)
_ZERO, _HALF = np.zeros((), np.float32), np.full((), 0.5, np.float32)


class _NotPlain(Exception):
    """A part of the network that has no array form."""


class _ArrayLayer(NamedTuple):
    """A linear layer and the activation behind it; the arrays are views of the parameters."""

    matrix: np.ndarray
    bias: np.ndarray | None
    activation: type | None = None


class _ArrayForm:
    """A small, plain Q network over arrays, and what it was made from.

    For the observations of a few environments a torch kernel costs less than the way to it; numpy has a shorter way.
    That takes a fifth of the time off a collector of CartPole, and 15 % off a serial run with 80 env steps and 3
    updates per pass. What changes the parameters in place (an optimiser, ``load_state_dict``) is seen at once; what
    else could make a difference is looked for by :meth:`holds`. Values differ from the module's by the rounding of
    float32 sums. Hooks for all modules of the process are not called.

    Attributes:
        streams: the layers of the encoder and of each stream of the head; without them there is no array form.
        max_rows: the most observations at once.
        centre: takes the mean off the advantages of a row, float32 ``[actions, actions]``.
    """

    def __init__(self, model: QModel) -> None:
        self._calls_left = _CALLS_BETWEEN_TRIES
        # The modules and parameters that were found, and the dicts in which they stand.
        self._places: list[dict[str, Any]] = []
        self._found: list[object] = []
        self._hooks: list[dict[int, Any]] = []
        self._tensors: list[torch.Tensor] = []
        self.streams: list[list[_ArrayLayer]] = []
        kind, encoder, head = type(model), model.encoder, model.head
        own_forward = kind.forward is not QModel.forward or kind.encode is not QModel.encode
        if own_forward or type(encoder) is not FCEncoder or type(head) not in _STREAMS:
            return
        layers = [layer for layer in (encoder.init, encoder.init_norm, encoder.act, encoder.main) if layer is not None]
        try:
            for module in (model, encoder, head):
                self._watch(module)
            streams = [
                self._layers(part) for part in (layers, *([getattr(head, name)] for name in _STREAMS[type(head)]))
            ]
        except _NotPlain:
            return
        if any(self._hooks):
            return
        self._pointers = [tensor.data_ptr() for tensor in self._tensors]
        self.max_rows = _MAX_MACS // max(tensor.numel() for tensor in self._tensors)
        # One product: numpy's mean costs four times as much.
        actions = streams[1][-1].matrix.shape[1]
        self.centre = np.eye(actions, dtype=np.float32) - np.float32(1 / actions)
        self.streams = streams

    def holds(self) -> bool:
        """Whether the model is still what this was made from."""
        if not self.streams:
            self._calls_left -= 1
            return self._calls_left > 0
        found = list(chain.from_iterable(map(dict.values, self._places)))
        return (
            len(found) == len(self._found)
            and all(map(is_, found, self._found))
            and [tensor.data_ptr() for tensor in self._tensors] == self._pointers
            and not any(self._hooks)
        )

    def _watch(self, module: nn.Module) -> None:
        state = vars(module)
        if "forward" in state:
            raise _NotPlain
        self._hooks += [state[name] for name in _HOOKS]
        for entries in (state["_modules"], state["_parameters"]):
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
                raise _NotPlain
        return layers

    def _array(self, parameter: nn.Parameter | None) -> np.ndarray | None:
        if parameter is None:
            return None
        plain = type(parameter) is nn.Parameter and parameter.is_cpu and parameter.dtype is torch.float32
        if not plain or not parameter.is_contiguous():
            raise _NotPlain
        self._tensors.append(parameter)
        return parameter.detach().numpy()


_array_forms: weakref.WeakKeyDictionary[QModel, _ArrayForm] = weakref.WeakKeyDictionary()


def _run_arrays(layers: list[_ArrayLayer], x: np.ndarray) -> np.ndarray:
    for matrix, bias, activation in layers:
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
