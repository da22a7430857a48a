"""Decision transformer: a causal transformer over returns-to-go, states and actions (Chen et al. 2021,
arXiv:2106.01345).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from ding.utils import MODEL_REGISTRY


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
        self.q_net = nn.Linear(h_dim, h_dim)
        self.k_net = nn.Linear(h_dim, h_dim)
        self.v_net = nn.Linear(h_dim, h_dim)
        self.proj_net = nn.Linear(h_dim, h_dim)
        self.att_drop = nn.Dropout(drop_p)
        self.proj_drop = nn.Dropout(drop_p)
        # Part of the state, as in checkpoints of the original network.
        self.register_buffer("mask", torch.tril(torch.ones((max_T, max_T))).view(1, 1, max_T, max_T))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 ``[B, T, h_dim]`` -> the same."""
        batch, steps, width = x.shape
        heads = (batch, steps, self.n_heads, width // self.n_heads)
        query, key, value = (net(x).view(heads).transpose(1, 2) for net in (self.q_net, self.k_net, self.v_net))
        weights = query @ key.transpose(2, 3) / math.sqrt(key.shape[-1])
        weights = weights.masked_fill(self.mask[..., :steps, :steps] == 0, -torch.inf)
        attended = self.att_drop(F.softmax(weights, dim=-1) @ value)
        return self.proj_drop(self.proj_net(attended.transpose(1, 2).reshape(batch, steps, width)))


class Block(nn.Module):
    """Attention and a two-layer network, each added to its input and normalised after that.

    Arguments: those of :class:`MaskedCausalAttention`.
    """

    def __init__(self, h_dim: int, max_T: int, n_heads: int, drop_p: float) -> None:
        super().__init__()
        self.attention = MaskedCausalAttention(h_dim, max_T, n_heads, drop_p)
        self.mlp = nn.Sequential(
            nn.Linear(h_dim, 4 * h_dim), nn.GELU(), nn.Linear(4 * h_dim, h_dim), nn.Dropout(drop_p)
        )
        self.ln1 = nn.LayerNorm(h_dim)
        self.ln2 = nn.LayerNorm(h_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 ``[B, T, h_dim]`` -> the same."""
        x = self.ln1(x + self.attention(x))
        return self.ln2(x + self.mlp(x))


@MODEL_REGISTRY.register("dt")
class DecisionTransformer(nn.Module):
    """Predicts each action from the returns-to-go, states and actions up to there.

    Arguments:
        state_dim: dimensions of a state.
        act_dim: number of actions, or of dimensions of a continuous one.
        n_blocks, h_dim, n_heads, drop_p: number of blocks, width, heads and dropout of the transformer.
        context_len: longest sequence, in steps.
        max_timestep: number of time steps of an episode.
        state_encoder: not supported: the network of image observations is not built.
        continuous: whether actions are continuous, within [-1, 1].

    Raises:
        NotImplementedError: ``state_encoder`` was given.
    """

    def __init__(
        self,
        state_dim: int,
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
        if state_encoder is not None:
            raise NotImplementedError("a decision transformer of images (state_encoder) is not built in this version")
        self.state_dim, self.act_dim, self.h_dim = state_dim, act_dim, h_dim
        self.context_len, self.max_timestep, self.continuous = context_len, max_timestep, continuous
        tokens = 3 * context_len
        # Not used with states that are vectors; they are part of a checkpoint.
        self.pos_emb = nn.Parameter(torch.zeros(1, tokens + 1, h_dim))
        self.global_pos_emb = nn.Parameter(torch.zeros(1, max_timestep + 1, h_dim))
        self.transformer = nn.Sequential(*(Block(h_dim, tokens, n_heads, drop_p) for _ in range(n_blocks)))
        self.embed_ln = nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.embed_rtg = nn.Linear(1, h_dim)
        self.embed_state = nn.Linear(state_dim, h_dim)
        self.embed_action: nn.Module = nn.Linear(act_dim, h_dim) if continuous else nn.Embedding(act_dim, h_dim)
        self.predict_rtg = nn.Linear(h_dim, 1)
        self.predict_state = nn.Linear(h_dim, state_dim)
        squash = [nn.Tanh()] if continuous else []
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), *squash)

    def forward(
        self,
        timesteps: torch.Tensor,
        states: torch.Tensor,
        actions: torch.Tensor,
        returns_to_go: torch.Tensor,
        tar: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Predict over B sequences of T steps.

        Args:
            timesteps: int64 ``[B, T]``, steps since the begin of the episode.
            states: float32 ``[B, T, state_dim]``.
            actions: int64 ``[B, T]`` (or ``[B, T, 1]``), or float32 ``[B, T, act_dim]``. That of the last step is not
                seen by the prediction of it.
            returns_to_go: float32 ``[B, T]`` or ``[B, T, 1]``.
            tar: not used; scripts may give it.

        Returns:
            the next states ``[B, T, state_dim]``, the actions or their logits ``[B, T, act_dim]``, and the next
            returns-to-go ``[B, T, 1]``.
        """
        batch, steps = timesteps.shape
        time = self.embed_timestep(timesteps)
        given = actions if self.continuous else actions.reshape(batch, steps).long()
        returns = self.embed_rtg(returns_to_go.reshape(batch, steps, 1).float())
        tokens = torch.stack((returns + time, self.embed_state(states) + time, self.embed_action(given) + time), dim=2)
        hidden = self.transformer(self.embed_ln(tokens.reshape(batch, 3 * steps, self.h_dim)))
        # After a state follows the action; after that what it leads to.
        _, after_state, after_action = hidden.reshape(batch, steps, 3, self.h_dim).unbind(2)
        return self.predict_state(after_action), self.predict_action(after_state), self.predict_rtg(after_action)
