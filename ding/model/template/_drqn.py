"""The recurrent Q network."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.head import DiscreteHead, DuelingHead
from ding.model.common.shapes import ObsShape
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES, make_encoder, make_head
from ding.torch_utils.network.rnn import get_lstm
from ding.utils import MODEL_REGISTRY
from ding.utils.nested import map_nested


@MODEL_REGISTRY.register("drqn")
class DRQN(nn.Module):
    """Q values over histories of observations (DRQN, arXiv:1507.06527; R2D2).

    State: ``encoder``, ``rnn``, ``head``.

    Arguments:
        lstm_type: ``normal``, ``pytorch`` or ``gru``, see ``get_lstm``.
        res_link: Whether to add the encoder features to the output of the recurrent layer.
        extra_width: Number of further input features of the recurrent layer. Other arguments as in ``DQN``.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        dueling: bool = True,
        head_hidden_size: int | None = None,
        head_layer_num: int = 1,
        lstm_type: str = "normal",
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        norm_type: str | None = None,
        res_link: bool = False,
        extra_width: int = 0,
    ) -> None:
        super().__init__()
        width = encoder_hidden_size_list[-1]
        self.encoder = make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)
        self.rnn = get_lstm(lstm_type, input_size=width + extra_width, hidden_size=width)
        self.res_link = res_link
        self.head = make_head(
            DuelingHead if dueling else DiscreteHead,
            action_shape,
            encoder_hidden_size_list,
            head_hidden_size,
            layer_num=head_layer_num,
            activation=activation,
            norm_type=norm_type,
        )

    def forward(
        self,
        inputs: Mapping[str, Any],
        inference: bool = False,
        saved_state_timesteps: Collection[int] | None = None,
    ) -> dict[str, Any]:
        """Return the Q values of one step (``inference``) or of a sequence.

        Arguments:
            inputs: ``obs`` ``[B, *obs_shape]`` in inference, else ``[T, B, *obs_shape]``; ``prev_state``: None, a
                pair or dict of ``h`` and ``c``, or a list of one state (None, dict or pair) per row.
            saved_state_timesteps: numbers of steps after which the state is wanted.

        Returns:
            ``logit`` ``[B, N]`` or ``[T, B, N]``; ``next_state``: a list of ``{'h', 'c'}``, each ``[1, 1, H]``, per
            row. For a sequence also ``hidden_state`` ``[T, B, H]`` (every h) and, if asked for, ``saved_state``, a
            list of such lists.
        """
        if inference:
            features = self.encoder(inputs["obs"])
            seen = _beside(features, self._extra(inputs, features.shape[:-1]))
            out, next_state = self.rnn(seen.unsqueeze(0), inputs["prev_state"])
            out = out.squeeze(0)
            output: dict[str, Any] = self.head(out + features if self.res_link else out)
            output["next_state"] = next_state
            return output
        extra = self._extra(inputs, _leading_axes(inputs["obs"]))
        output, state = self.unroll(inputs["obs"], inputs["prev_state"], saved_state_timesteps, extra)
        output["next_state"] = _per_row(state)
        return output

    def _extra(self, inputs: Mapping[str, Any], axes: tuple[int, ...]) -> torch.Tensor | None:
        """Return the further features that the recurrent layer reads, ``[*axes, extra_width]``; ``axes`` are ``(B,)``
        in inference, else ``(T, B)``.
        """
        return None

    def unroll(
        self,
        obs: Any,
        state: Any,
        saved_state_timesteps: Collection[int] | None = None,
        extra: torch.Tensor | None = None,
    ) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Return the Q values of a sequence, and the state after it.

        Arguments:
            obs: ``[T, B, *obs_shape]``.
            state: As ``prev_state`` of ``forward``; a dict of the whole batch is fastest.
            extra: Further features, ``[T, B, extra_width]``.

        Returns:
            The output of ``forward`` for a sequence but for ``next_state``, and ``{'h', 'c'}`` of ``[layers, B, H]``.
        """
        steps, batch_size = _leading_axes(obs)
        features = self.encoder(map_nested(lambda x: x.flatten(0, 1), obs)).reshape(steps, batch_size, -1)
        seen = _beside(features, extra)
        # One call if no intermediate state is needed.
        stride = steps if saved_state_timesteps is None else 1
        outputs, saved = [], []
        for step in range(0, steps, stride):
            out, state = self.rnn(seen[step : step + stride], state, list_next_state=False)
            outputs.append(out)
            if saved_state_timesteps is not None and step + 1 in saved_state_timesteps:
                saved.append(_per_row(state))
        # With one layer, the outputs are the hidden states.
        rnn_out = torch.cat(outputs)
        rows = (rnn_out + features if self.res_link else rnn_out).flatten(0, 1)
        output = {
            key: map_nested(lambda x: x.reshape(steps, batch_size, *x.shape[1:]), value)
            for key, value in self.head(rows).items()
        }
        output["hidden_state"] = rnn_out
        if saved_state_timesteps is not None:
            output["saved_state"] = saved
        return output, state


def _beside(features: torch.Tensor, extra: torch.Tensor | None) -> torch.Tensor:
    return features if extra is None else torch.cat([features, extra], dim=-1)


def _leading_axes(obs: Any) -> tuple[int, int]:
    first = obs
    while isinstance(first, Mapping):
        first = next(iter(first.values()))
    return first.shape[0], first.shape[1]


def _per_row(state: Mapping[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """One ``{'h', 'c'}`` per row of the batch from a state of ``[layers, B, H]``."""
    return [{"h": h, "c": c} for h, c in zip(state["h"].split(1, dim=1), state["c"].split(1, dim=1))]
