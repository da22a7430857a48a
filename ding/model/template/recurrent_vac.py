"""The network of actor-critic algorithms over histories of observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import encode
from ding.model.common.shapes import ObsShape
from ding.model.common.state_rows import StateRows
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES
from ding.model.template.vac import RELU, VAC, ActionShape, actor_output
from ding.torch_utils.network.rnn import get_lstm, run_with_restarts
from ding.utils import MODEL_REGISTRY

State = dict[str, torch.Tensor]


@MODEL_REGISTRY.register("recurrent_vac")
class RecurrentVAC(VAC):
    """:class:`VAC` with a recurrent layer behind each encoder, as wide as the features: an LSTM or a GRU.

    State: that of :class:`VAC`, and ``rnns``, one layer, or one of the actor and one of the critic unless they share
    their encoder.

    An input is a dict. Of one step it has ``obs`` ``[B, *obs_shape]`` and ``prev_state``: None or zeros where an
    episode begins, as columns ``{'h', 'c'}`` of ``[B, layers, 1, H]`` or as a list with an entry per row. Of sequences
    it has ``starts``, bool ``[B, T]``, and rows of all steps, sequence after sequence: ``obs`` ``[B * T, *obs_shape]``
    and ``prev_state`` as columns. A sequence begins with the state of its first row, and where ``starts`` is True it
    goes on with that of this row. Outputs have a row for each row of ``obs``; ``next_state`` is the state after it.

    Arguments:
        lstm_type: ``pytorch`` (an LSTM), ``normal`` (an LSTM with normalised gates) or ``gru``. Others as in
            :class:`VAC`.
    """

    is_recurrent = True

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "discrete",
        share_encoder: bool = True,
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        sigma_type: str = "independent",
        fixed_sigma_value: float = 0.3,
        bound_type: str | None = None,
        encoder: nn.Module | None = None,
        impala_cnn_encoder: bool = False,
        lstm_type: str = "pytorch",
    ) -> None:
        super().__init__(
            obs_shape,
            action_shape,
            action_space,
            share_encoder,
            encoder_hidden_size_list,
            actor_head_hidden_size,
            actor_head_layer_num,
            critic_head_hidden_size,
            critic_head_layer_num,
            activation,
            norm_type,
            sigma_type,
            fixed_sigma_value,
            bound_type,
            encoder,
            impala_cnn_encoder,
        )
        width = encoder_hidden_size_list[-1]
        count = 1 if share_encoder else 2
        self.rnns = nn.ModuleList([get_lstm(lstm_type, width, width) for _ in range(count)])
        self._state_shape = (count, 1, width)

    def compute_actor(self, x: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        """Observations and states to :func:`~ding.model.template.vac.actor_output` and ``next_state``."""
        return self._run(x, actor=True, critic=False)

    def compute_critic(self, x: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        """Map observations and states to ``value`` ``[rows]`` and ``next_state``."""
        return self._run(x, actor=False, critic=True)

    def compute_actor_critic(self, x: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        """Observations and states to the outputs of both."""
        return self._run(x, actor=True, critic=True)

    def _run(self, x: Mapping[str, Any], actor: bool, critic: bool) -> dict[str, Any]:
        observation, action_mask = self._split(x["obs"])
        state = self._columns(x["prev_state"], observation)
        starts = x.get("starts")
        features: list[torch.Tensor] = []
        after: list[State] = []
        wanted = [True] if self.share_encoder else [actor, critic]
        for index, encoder in enumerate((self.actor[0], self.critic[0])[: len(wanted)]):
            own = {key: value[:, index] for key, value in state.items()}
            if wanted[index]:
                seen = encode(observation, encoder)
                out, own = run_with_restarts(self.rnns[index], seen, own, starts)
                features.append(out)
            after.append(own)
        output = actor_output(self.actor_head, features[0], action_mask) if actor else {}
        if critic:
            output["value"] = self.critic_head(features[-1])["pred"]
        output["next_state"] = StateRows({key: torch.stack([one[key] for one in after], 1) for key in state})
        return output

    def _columns(self, state: Any, observation: Any) -> State:
        """States as columns ``[rows, layers, 1, H]``."""
        rows = StateRows.of(state)
        if rows is not None:
            return dict(rows.columns)
        if isinstance(state, Mapping):
            return dict(state)
        first = observation
        while isinstance(first, Mapping):
            first = next(iter(first.values()))
        zeros = next(self.rnns.parameters()).new_zeros(self._state_shape)
        entries = [None] * len(first) if state is None else state
        return {key: torch.stack([zeros if one is None else one[key] for one in entries]) for key in ("h", "c")}
