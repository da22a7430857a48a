"""What the Q models share: an encoder by the shape of the observation, a head, and the forms of an observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import ConvEncoder, DictEncoder, FCEncoder, IMPALAConvEncoder, encode
from ding.model.common.head import MultiHead
from ding.model.common.shapes import Observation, ObsShape, as_shape, output_sizes

OBSERVATION, ACTION_MASK = "observation", "action_mask"
DEFAULT_HIDDEN_SIZES = (128, 128, 64)
_IMPALA_CHANNELS = (16, 32, 32)


def make_encoder(
    obs_shape: ObsShape,
    hidden_size_list: Sequence[int],
    activation: nn.Module | None,
    norm_type: str | None,
    dropout: float | None = None,
    impala_width: int | None = None,
) -> nn.Module:
    """Return the encoder of ``obs_shape``: ``FCEncoder`` for one axis, ``ConvEncoder`` for three, ``DictEncoder`` for a
    mapping; with ``impala_width`` an ``IMPALAConvEncoder`` of so many times its channels, for three.

    Raises:
        RuntimeError: another number of axes.
        ValueError: ``impala_width`` is not positive, or the observation is no image.
    """
    if impala_width is not None:
        if impala_width < 1 or isinstance(obs_shape, (int, Mapping)):
            raise ValueError(
                f"impala_width must be at least 1 and needs images (C, H, W), got {impala_width!r} and "
                f"obs_shape={obs_shape!r}"
            )
        channels = [impala_width * size for size in _IMPALA_CHANNELS]
        return IMPALAConvEncoder(obs_shape, channels, hidden_size_list[-1], scale_ob=1.0)
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
    """Return the head over the last of ``hidden_size_list``; a ``MultiHead`` for several ``action_shape`` entries.

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
        """Features of an observation without its mask, as :func:`encode` makes them."""
        return encode(observation, self.encoder)

    def split_observation(self, x: Observation) -> tuple[Any, torch.Tensor | None]:
        """:func:`split_observation` for this model."""
        return split_observation(x, self.encoder, type(self).__name__)


def split_observation(x: Observation, encoder: nn.Module, model_name: str) -> tuple[Any, torch.Tensor | None]:
    """Return the observation and the action mask (None without one) of ``x``.

    Raises:
        TypeError: ``x`` is neither a tensor nor a mapping.
        KeyError: a mapping without the key ``observation`` for an encoder of ours that takes tensors. An encoder of the
            user's gets such a mapping as it is.
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
    if not type(encoder).__module__.startswith("ding."):
        return x, None
    raise KeyError(
        f"{model_name} was built for a tensor observation; a dict must hold it under {OBSERVATION!r} "
        f"(and may hold {ACTION_MASK!r}), got the keys {sorted(x)}"
    )
