"""The network of CollaQ."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.state_rows import StateRows
from ding.model.template._agent_q import (
    AgentValues,
    agent_values,
    chosen,
    joint_output,
    state_columns,
    with_time,
)
from ding.model.template._drqn import DRQN
from ding.model.template.qmix import Mixer
from ding.model.template.vac import RELU
from ding.torch_utils.network.input_dtype import as_input
from ding.utils import MODEL_REGISTRY

_NORM_EPS = 1e-6


class CollaQMultiHeadAttention(nn.Module):
    """Attention of queries over keys, with normalised projections.

    State: ``w_qs``, ``w_ks``, ``w_vs``, ``fc1``, ``fc2``, ``layer_norm_q``, ``layer_norm_k``, ``layer_norm_v``.

    Arguments:
        n_head: number of heads.
        d_model_q, d_model_v: features of queries, and of keys and values.
        d_k, d_v: width of a head.
        d_out: features of the output.
        dropout: of the attention weights and of the output, in training.
    """

    def __init__(
        self,
        n_head: int,
        d_model_q: int,
        d_model_v: int,
        d_k: int,
        d_v: int,
        d_out: int,
        dropout: float = 0.0,
        activation: nn.Module = RELU,
    ) -> None:
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        # Of all heads side by side.
        keyed, valued = n_head * d_k, n_head * d_v
        self.w_qs = nn.Linear(d_model_q, keyed)
        self.w_ks, self.w_vs = (nn.Linear(d_model_v, width) for width in (keyed, valued))
        self.fc1, self.fc2 = (
            nn.Sequential(nn.Linear(valued, width), *after) for width, after in ((valued, [activation]), (d_out, []))
        )
        self.dropout = nn.Dropout(dropout)
        self.layer_norm_q, self.layer_norm_k, self.layer_norm_v = (
            nn.LayerNorm(width, eps=_NORM_EPS) for width in (keyed, keyed, valued)
        )

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """``q`` ``[B, Q, d_model_q]`` over ``k`` and ``v`` ``[B, K, d_model_v]``.

        Returns:
            What the queries found ``[B, Q, d_out]``, and the projected queries ``[B, Q, n_head * d_k]``.
        """
        projected, keys, values = (
            layer(as_input(x, layer)) for layer, x in ((self.w_qs, q), (self.w_ks, k), (self.w_vs, v))
        )
        normed = (self.layer_norm_q(projected), self.layer_norm_k(keys), self.layer_norm_v(values))
        query, key, value = (x.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for x in normed)
        weight = (query @ key.transpose(2, 3) / math.sqrt(self.d_k)).softmax(-1)
        found = (self.dropout(weight) @ value).transpose(1, 2).flatten(2)
        return self.dropout(self.fc2(self.fc1(found))), projected


class CollaQSMACAttentionModule(nn.Module):
    """Replaces, in what an agent sees, the features of itself and of its allies by what it finds in its allies.

    State: ``attention_layer``.

    Arguments:
        q_dim, v_dim: features of the agent itself, and of one ally.
        self_feature_range, ally_feature_range: ``[start, stop)`` of these features; the second follows the first.
        attention_size: features of each of the two parts of the result.
    """

    def __init__(
        self,
        q_dim: int,
        v_dim: int,
        self_feature_range: Sequence[int],
        ally_feature_range: Sequence[int],
        attention_size: int,
        activation: nn.Module = RELU,
    ) -> None:
        super().__init__()
        self.self_feature_range, self.ally_feature_range = tuple(self_feature_range), tuple(ally_feature_range)
        size = attention_size
        self.attention_layer = CollaQMultiHeadAttention(1, q_dim, v_dim, size, size, size, activation=activation)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map ``[T, B, A, O]`` to ``[T, B, A, O - own - ally features + 2 * attention_size]``."""
        (own_start, own_stop), (ally_start, ally_stop) = self.self_feature_range, self.ally_feature_range
        lead, agents = inputs.shape[:-1], inputs.shape[-2]
        own = inputs[..., own_start:own_stop].reshape(lead.numel(), 1, -1)
        allies = inputs[..., ally_start:ally_stop].reshape(lead.numel(), agents - 1, -1)
        found, projected = (part.reshape(*lead, -1) for part in self.attention_layer(own, allies, allies))
        return torch.cat([inputs[..., :own_start], found, projected, inputs[..., ally_stop:]], dim=-1)


@MODEL_REGISTRY.register("collaq")
class CollaQ(nn.Module):
    """The value of an agent as that of its own task and what the presence of others adds to it (CollaQ,
    arXiv:2010.08531).

    ``q = q_alone(alone) + q_colla(all) - q_colla(padded)``, where ``padded`` hides the others.

    State: ``_q_network``, ``_q_alone_network``, with ``mixer`` ``_mixer``, with ``attention`` ``_self_attention``.

    Arguments:
        obs_shape, alone_obs_shape: features of what an agent sees, and of the part of it that is about itself.
        attention: see :class:`CollaQSMACAttentionModule`, which needs both ranges. Others as in
            :class:`ding.model.QMix`.

    Raises:
        ValueError: ``attention`` without the ranges.
    """

    def __init__(
        self,
        agent_num: int,
        obs_shape: int,
        alone_obs_shape: int,
        global_obs_shape: int,
        action_shape: int,
        hidden_size_list: Sequence[int],
        attention: bool = False,
        self_feature_range: Sequence[int] | None = None,
        ally_feature_range: Sequence[int] | None = None,
        attention_size: int = 32,
        mixer: bool = True,
        lstm_type: str = "gru",
        activation: nn.Module = RELU,
        dueling: bool = False,
    ) -> None:
        super().__init__()
        self.attention, self.mixer = attention, mixer
        seen = obs_shape
        if attention:
            if self_feature_range is None or ally_feature_range is None:
                raise ValueError("CollaQ with attention=True needs self_feature_range and ally_feature_range")
            own = self_feature_range[1] - self_feature_range[0]
            allies = ally_feature_range[1] - ally_feature_range[0]
            self._self_attention = CollaQSMACAttentionModule(
                own, allies // (agent_num - 1), self_feature_range, ally_feature_range, attention_size, activation
            )
            seen = obs_shape - own - allies + 2 * attention_size

        def network(shape: int) -> DRQN:
            return DRQN(
                shape, action_shape, hidden_size_list, lstm_type=lstm_type, dueling=dueling, activation=activation
            )

        self._q_network, self._q_alone_network = network(seen), network(alone_obs_shape)
        if mixer:
            self._mixer = Mixer(agent_num, global_obs_shape, hidden_size_list[-1], activation=activation)

    def forward(self, data: Mapping[str, Any], single_step: bool = True) -> dict[str, Any]:
        """Input and output of :meth:`ding.model.QMix.forward`.

        ``obs`` has also ``agent_alone_state`` ``[(T,) B, A, alone_obs_shape]`` and ``agent_alone_padding_state``,
        shaped as ``agent_state``. The output has also ``agent_colla_alone_q`` ``[(T,) B, A, actions]``, the values of
        what is padded (0 where forbidden). The state of a row is a list of three of A agents: alone, all,
        padded.
        """
        obs, action = with_time(data, single_step)
        mask = obs.get("action_mask")
        seen, padded = (self._attended(obs[key]) for key in ("agent_state", "agent_alone_padding_state"))
        agents = seen.shape[2]
        state_alone, state_both = _split_state(data["prev_state"], agents)
        alone = agent_values(self._q_alone_network, obs["agent_alone_state"], state_alone)
        # One pass of the network over twice as many agents.
        both = agent_values(self._q_network, torch.cat([seen, padded], dim=2), state_both)
        q_colla, q_padded = both.q.chunk(2, dim=2)
        q, logit = chosen(alone.q + q_colla - q_padded, action, mask)
        total_q = self._mixer(q, obs["global_state"]) if self.mixer else q.sum(-1)
        states = (alone.next_state.columns, both.next_state.columns)
        parts = {key: torch.cat([state[key] for state in states], dim=1) for key in states[0]}
        next_state = StateRows({key: value.unflatten(1, (3, agents)) for key, value in parts.items()}, depth=3)
        values = AgentValues(logit, next_state, alone.hidden)
        more = {"agent_colla_alone_q": q_padded if mask is None else q_padded * mask}
        return joint_output(values, total_q, logit, obs, single_step, **more)

    def _attended(self, agent_state: torch.Tensor) -> torch.Tensor:
        return self._self_attention(agent_state) if self.attention else agent_state


def _split_state(prev_state: Any, agents: int) -> tuple[Any, Any]:
    """Return the states of the network for an agent alone, and those of the other one for ``2 A`` agents."""
    if prev_state is None:
        return None, None
    prev_state = state_columns(prev_state)
    if isinstance(prev_state, Mapping):
        return tuple(  # type: ignore[return-value]
            {key: value[:, part] for key, value in prev_state.items()} for part in (slice(agents), slice(agents, None))
        )
    parts = [(None, None) if state is None else _split_row(state, agents) for state in prev_state]
    return [alone for alone, _ in parts], [both for _, both in parts]


def _split_row(state: Any, agents: int) -> tuple[Any, Any]:
    if isinstance(state, Mapping):
        return {key: value[:agents] for key, value in state.items()}, {
            key: value[agents:] for key, value in state.items()
        }
    alone, seen, padded = state
    return list(alone), [*seen, *padded]
