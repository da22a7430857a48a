"""The Q network over a gated transformer-XL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import ConvEncoder
from ding.model.common.head import DiscreteHead, DuelingHead
from ding.model.common.shapes import as_shape
from ding.model.template.q_model import make_head
from ding.torch_utils.network.gtrxl import GTrXL
from ding.utils import MODEL_REGISTRY
from ding.utils.nested import map_nested


@MODEL_REGISTRY.register("gtrxldqn")
class GTrXLDQN(nn.Module):
    """Q values over histories of observations by a gated transformer-XL (GTrXL, arXiv:1910.06764).

    State: ``core``, ``head``, and ``obs_encoder`` for images.

    Arguments:
        obs_shape: an int or ``(n,)``, or ``(C, H, W)`` for images, which ``ConvEncoder`` encodes.
        att_head_dim, att_head_num, att_mlp_num, att_layer_num, memory_len, dropout, gru_gating, gru_bias: of
            ``GTrXL``; ``hidden_size`` is its ``embedding_dim``.
        encoder_hidden_size_list, encoder_norm_type: of the encoder of images; the last size is ``hidden_size``.

    Raises:
        ValueError: the encoder of images gives another number of features than ``hidden_size``.
    """

    def __init__(
        self,
        obs_shape: int | Sequence[int],
        action_shape: int | Sequence[int],
        head_layer_num: int = 1,
        att_head_dim: int = 16,
        hidden_size: int = 16,
        att_head_num: int = 2,
        att_mlp_num: int = 2,
        att_layer_num: int = 3,
        memory_len: int = 64,
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        head_norm_type: str | None = None,
        dropout: float = 0.0,
        gru_gating: bool = True,
        gru_bias: float = 2.0,
        dueling: bool = True,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 256),
        encoder_norm_type: str | None = None,
    ) -> None:
        super().__init__()
        shape = as_shape(obs_shape, "obs_shape")
        image = not isinstance(shape, int)
        if image:
            if encoder_hidden_size_list[-1] != hidden_size:
                raise ValueError(
                    f"encoder_hidden_size_list must end with hidden_size={hidden_size}, "
                    f"got {list(encoder_hidden_size_list)}"
                )
            widths = list(encoder_hidden_size_list)
            self.obs_encoder = ConvEncoder(shape, widths, activation=activation, norm_type=encoder_norm_type)  # type: ignore[arg-type]
        activation = nn.Identity() if activation is None else activation
        self.core = GTrXL(
            hidden_size if image else shape,  # type: ignore[arg-type]
            att_head_dim,
            hidden_size,
            att_head_num,
            att_mlp_num,
            att_layer_num,
            memory_len,
            dropout,
            activation,
            gru_gating,
            gru_bias,
            use_embedding_layer=not image,
        )
        self.head = make_head(
            DuelingHead if dueling else DiscreteHead,
            action_shape,
            [hidden_size],
            None,
            layer_num=head_layer_num,
            activation=activation,
            norm_type=head_norm_type,
        )

    def forward(self, x: torch.Tensor | Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """Return the Q values of a segment.

        Arguments:
            x: observations ``[T, B, *obs_shape]``, which follow the memory that the network keeps; or ``{'obs',
                'prev_state'}`` as for :class:`DRQN`, which leaves that memory alone. A state is the memory ``[layers +
                1, M, B, hidden]``, or None at the beginning.
            inference: of the second form: one step, ``obs`` ``[B, *obs_shape]``, and a state per row, ``{'memory':
                [layers + 1, M, hidden]}`` or None.

        Returns:
            ``logit`` ``[T, B, N]`` and ``transformer_out`` ``[T, B, hidden]``; with them ``memory`` before the segment
            ``[B, layers + 1, M, hidden]``, or ``next_state`` in the form of ``prev_state``. ``[B, N]`` in inference.
        """
        if isinstance(x, torch.Tensor):
            core = self.core(self._features(x))
            output: dict[str, Any] = self._values(core["logit"])
            output.update(memory=core["memory"].permute(2, 0, 1, 3).contiguous(), transformer_out=core["logit"])
            return output
        obs, state = x["obs"], x["prev_state"]
        if inference:
            out, memory = self.core.attend(self._features(obs.unsqueeze(0)), self._joined(state))
            output = self.head(out.squeeze(0))
            output.update(transformer_out=out.squeeze(0), next_state=[{"memory": row} for row in memory.unbind(2)])
            return output
        out, memory = self.core.attend(self._features(obs), state)
        output = self._values(out)
        output.update(transformer_out=out, next_state=memory)
        return output

    def _features(self, obs: torch.Tensor) -> torch.Tensor:
        if self.core.use_embedding_layer:
            return obs
        output: torch.Tensor = self.obs_encoder(obs.flatten(0, 1)).unflatten(0, obs.shape[:2])
        return output

    def _values(self, out: torch.Tensor) -> dict[str, Any]:
        values = self.head(out.flatten(0, 1))
        unflattened: dict[str, Any] = map_nested(lambda value: value.unflatten(0, out.shape[:2]), values)
        return unflattened

    def _joined(self, states: Sequence[Mapping[str, torch.Tensor] | None]) -> torch.Tensor | None:
        """Return the states of rows as one memory; zeros where a row has none."""
        known = next((state["memory"] for state in states if state is not None), None)
        if known is None:
            return None
        zeros = torch.zeros_like(known)
        return torch.stack([zeros if state is None else state["memory"] for state in states], dim=2)

    def reset_memory(self, batch_size: int | None = None, state: torch.Tensor | None = None) -> None:
        """See :meth:`GTrXL.reset_memory`."""
        self.core.reset_memory(batch_size, state)

    def get_memory(self) -> torch.Tensor | None:
        """See :meth:`GTrXL.get_memory`."""
        return self.core.get_memory()
