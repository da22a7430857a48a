"""Decision transformer: a causal transformer over returns-to-go, states and actions (Chen et al. 2021,
arXiv:2106.01345).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.model.common.shapes import ObsShape
from ding.model.template.q_model import make_encoder
from ding.utils import MODEL_REGISTRY
from ding.utils.nested import map_nested

_CONV_SIZES = (32, 64, 64)
# How much wider the hidden layer of a block is than a token.
_WIDENING = 4
# Modules whose weights decay; biases, embeddings, norms and positions do not.
_DECAYING = (nn.Linear, nn.Conv2d)


class MaskedCausalAttention(nn.Module):
    """Multi-head self-attention in which a token sees itself and the tokens before it.

    Arguments:
        h_dim: width of a token.
        max_T: longest sequence.
        n_heads: number of heads; a divisor of ``h_dim``.
        drop_p: share of dropped weights and outputs.
    """

    mask: torch.Tensor

    def __init__(self, h_dim: int, max_T: int, n_heads: int, drop_p: float) -> None:
        super().__init__()
        self.n_heads, self.max_T = n_heads, max_T
        self.q_net, self.k_net, self.v_net, self.proj_net = (nn.Linear(h_dim, h_dim) for _ in range(4))
        self.att_drop, self.proj_drop = (nn.Dropout(drop_p) for _ in range(2))
        # Part of the state, as in DI-engine's checkpoints.
        self.register_buffer("mask", torch.ones(1, 1, max_T, max_T).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 ``[B, T, h_dim]`` -> the same."""
        batch, steps, width = x.shape
        heads = (batch, steps, self.n_heads, width // self.n_heads)
        query, key, value = (net(x).view(heads).transpose(1, 2) for net in (self.q_net, self.k_net, self.v_net))
        weights = query @ key.transpose(2, 3) / math.sqrt(key.shape[-1])
        weights = weights.masked_fill(self.mask[..., :steps, :steps] == 0, -torch.inf)
        attended = self.att_drop(F.softmax(weights, dim=-1) @ value)
        output: torch.Tensor = self.proj_drop(self.proj_net(attended.transpose(1, 2).reshape(batch, steps, width)))
        return output


class Block(nn.Module):
    """Attention and a two-layer network, each added to its input and normalised after that.

    Arguments: those of :class:`MaskedCausalAttention`.
    """

    def __init__(self, h_dim: int, max_T: int, n_heads: int, drop_p: float) -> None:
        super().__init__()
        self.attention = MaskedCausalAttention(h_dim, max_T, n_heads, drop_p)
        widen, narrow = nn.Linear(h_dim, _WIDENING * h_dim), nn.Linear(_WIDENING * h_dim, h_dim)
        self.mlp = nn.Sequential(widen, nn.GELU(), narrow, nn.Dropout(drop_p))
        self.ln1, self.ln2 = (nn.LayerNorm(h_dim) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 ``[B, T, h_dim]`` -> the same."""
        x = self.ln1(x + self.attention(x))
        output: torch.Tensor = self.ln2(x + self.mlp(x))
        return output


@MODEL_REGISTRY.register("dt")
class DecisionTransformer(nn.Module):
    """Predicts each action from the returns-to-go, states and actions up to there.

    Arguments:
        state_dim: dimensions of a state; ``(C, H, W)`` of images, or a shape for each name of states that are dicts.
        act_dim: number of actions, or of dimensions of a continuous one.
        n_blocks, h_dim, n_heads, drop_p: number of blocks, width, heads and dropout of the transformer.
        context_len: longest sequence, in steps.
        max_timestep: number of time steps of an episode.
        state_encoder: of images and dicts to ``h_dim`` features; made by ``state_dim`` where it is not given.
        continuous: whether actions are continuous, within [-1, 1].

    Raises:
        ValueError: continuous actions with a state encoder.
    """

    state_encoder: nn.Module | None
    embed_rtg: nn.Module
    embed_action: nn.Module

    def __init__(
        self,
        state_dim: ObsShape,
        act_dim: int,
        n_blocks: int,
        h_dim: int,
        context_len: int,
        n_heads: int,
        drop_p: float,
        max_timestep: int = 4096,
        state_encoder: nn.Module | None = None,
        continuous: bool = False,
    ) -> None:
        super().__init__()
        encodes = state_encoder is not None or not isinstance(state_dim, int)
        if encodes and continuous:
            raise ValueError("a decision transformer of images or dicts (state_encoder) has discrete actions only")
        self.state_dim, self.act_dim, self.h_dim = state_dim, act_dim, h_dim
        self.context_len, self.max_timestep, self.continuous = context_len, max_timestep, continuous
        # Names and sizes are those of DI-engine's network, whose checkpoints fit. `pos_emb` and `global_pos_emb` place
        # the tokens of encoded states, and `embed_timestep` those of vectors.
        tokens = 3 * context_len
        self.pos_emb, self.global_pos_emb = (
            nn.Parameter(torch.zeros(1, places + 1, h_dim)) for places in (tokens, max_timestep)
        )
        blocks = [Block(h_dim, tokens + int(encodes), n_heads, drop_p) for _ in range(n_blocks)]
        self.transformer, self.embed_ln = nn.Sequential(*blocks), nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        if encodes:
            self._add_encoded_ends(state_encoder or make_encoder(state_dim, [*_CONV_SIZES, h_dim], nn.ReLU(), None))
        else:
            assert isinstance(state_dim, int)
            self._add_vector_ends(state_dim)

    def _add_encoded_ends(self, encoder: nn.Module) -> None:
        """Add what makes tokens of encoded states, and the head for the logits of actions."""
        self.state_encoder = encoder
        returns = nn.Linear(1, self.h_dim)
        self.embed_rtg, self.head = nn.Sequential(returns, nn.Tanh()), nn.Linear(self.h_dim, self.act_dim, bias=False)
        self.embed_action = nn.Sequential(nn.Embedding(self.act_dim, self.h_dim), nn.Tanh())

    def _add_vector_ends(self, state_dim: int) -> None:
        """Add what makes tokens of vectors, and a prediction of each of the three kinds of tokens."""
        self.state_encoder = None
        self.embed_rtg, self.embed_state = (nn.Linear(features, self.h_dim) for features in (1, state_dim))
        action_kind = nn.Linear if self.continuous else nn.Embedding
        self.embed_action = action_kind(self.act_dim, self.h_dim)
        self.predict_rtg, self.predict_state = (nn.Linear(self.h_dim, features) for features in (1, state_dim))
        bounds = [nn.Tanh()] if self.continuous else []
        self.predict_action = nn.Sequential(nn.Linear(self.h_dim, self.act_dim), *bounds)

    def configure_optimizers(
        self, weight_decay: float, learning_rate: float, betas: tuple[float, float] = (0.9, 0.95)
    ) -> torch.optim.AdamW:
        """Return an AdamW over the groups of :func:`decay_groups`."""
        return torch.optim.AdamW(decay_groups(self, weight_decay), lr=learning_rate, betas=betas)

    def forward(
        self,
        timesteps: torch.Tensor,
        states: Any,
        actions: torch.Tensor,
        returns_to_go: torch.Tensor,
        tar: int | None = None,
    ) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor | None]:
        """Predict over B sequences of T steps.

        Args:
            timesteps: int64 ``[B, T]``, steps since the begin of the episode.
            states: float32 ``[B, T, state_dim]``; images of any dtype ``[B, T, C, H, W]``, whole numbers divided by
                255; or dicts of such.
            actions: int64 ``[B, T]`` (or ``[B, T, 1]``), or float32 ``[B, T, act_dim]``. That of the last step is not
                seen by the prediction of it.
            returns_to_go: float32 ``[B, T]`` or ``[B, T, 1]``.
            tar: not used; scripts may give it.

        Returns:
            the next states ``[B, T, state_dim]``, the actions or their logits ``[B, T, act_dim]``, and the next
            returns-to-go ``[B, T, 1]``; of states that are encoded the logits alone, between two ``None``.
        """
        if self.state_encoder is not None:
            return None, self._encoded_logits(self.state_encoder, timesteps, states, actions, returns_to_go), None
        batch, steps = timesteps.shape
        time = self.embed_timestep(timesteps)
        given = actions if self.continuous else actions.reshape(batch, steps).long()
        returns = self.embed_rtg(returns_to_go.reshape(batch, steps, 1).float())
        tokens = torch.stack((returns + time, self.embed_state(states) + time, self.embed_action(given) + time), dim=2)
        hidden = self.transformer(self.embed_ln(tokens.reshape(batch, 3 * steps, self.h_dim)))
        # After a state follows the action; after that what it leads to.
        _, after_state, after_action = hidden.reshape(batch, steps, 3, self.h_dim).unbind(2)
        return self.predict_state(after_action), self.predict_action(after_state), self.predict_rtg(after_action)

    def _encoded_logits(
        self,
        encoder: nn.Module,
        timesteps: torch.Tensor,
        states: Any,
        actions: torch.Tensor,
        returns_to_go: torch.Tensor,
    ) -> torch.Tensor:
        """Return the logits ``[B, T, act_dim]`` over states that are encoded. A token's place is that of its window in
        the episode and its own in the window.
        """
        batch, steps = actions.shape[:2]
        features = encoder(map_nested(lambda x: _as_float(x.flatten(0, 1)), states)).reshape(batch, steps, -1)
        returns = self.embed_rtg(returns_to_go.reshape(batch, steps, 1).float())
        given = self.embed_action(actions.reshape(batch, steps).long())
        tokens = torch.stack((returns, features, given), dim=2).reshape(batch, 3 * steps, self.h_dim)
        start = self.global_pos_emb[0, timesteps.reshape(batch, -1)[:, :1]]
        hidden = self.transformer(self.embed_ln(tokens + start + self.pos_emb[:, : 3 * steps]))
        output: torch.Tensor = self.head(hidden[:, 1::3])
        return output


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return two groups of parameters for an optimiser: the weights of linear layers and 2-D convolutions, with
    ``weight_decay``, and all others, without.
    """
    weights = {id(module.weight) for module in model.modules() if isinstance(module, _DECAYING)}
    groups: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
    for parameter in model.parameters():
        groups[id(parameter) not in weights].append(parameter)
    return [{"params": params, "weight_decay": decay} for params, decay in zip(groups, (weight_decay, 0.0))]


def _as_float(states: torch.Tensor) -> torch.Tensor:
    return states if states.is_floating_point() else states.float() / 255
