"""HPT: a policy whose stem turns an observation of any width into a fixed number of tokens (Wang et al. 2024, "Scaling
Proprioceptive-Visual Learning with Heterogeneous Pre-trained Transformers", arXiv:2409.20537).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ding.model.common.encoder import encode
from ding.model.common.head import DuelingHead
from ding.utils import MODEL_REGISTRY

_TOKENS, _TOKEN_WIDTH = 16, 128
# Deviation of the tokens at the start.
_TOKEN_SCALE = 0.02


class CrossAttention(nn.Module):
    """Multi-head attention of queries to a context of the same width.

    State: ``to_q``, ``to_kv`` (without bias), ``to_out``.

    Arguments:
        query_dim: width of queries and context.
        heads: number of heads.
        dim_head: width of a head.
        dropout: share of the weights of the attention that are dropped in training.
    """

    def __init__(self, query_dim: int, heads: int = 8, dim_head: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.to_q = nn.Linear(query_dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(query_dim, 2 * heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, query_dim)

    def forward(self, x: torch.Tensor, context: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return what each query takes from the context.

        Arguments:
            x: queries, float32 ``[B, Q, query_dim]``.
            context: float32 ``[B, N, query_dim]``.
            mask: bool ``[B, N]``, False where the context is hidden.

        Returns:
            float32 ``[B, Q, query_dim]``.
        """
        key, value = self.to_kv(context).chunk(2, dim=-1)
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.to_q(x), key, value)
        )
        allowed = None if mask is None else mask.bool().flatten(1)[:, None, None]
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, dropout_p=dropout)
        output: torch.Tensor = self.to_out(mixed.transpose(1, 2).flatten(2))
        return output


class PolicyStem(nn.Module):
    """A linear layer over the features of an observation, and learned tokens that attend to its output.

    State: ``tokens`` ``[1, 16, token_dim]``, ``feature_extractor``, ``cross_attention``.

    Arguments:
        feature_dim: features of the observation.
        token_dim: width of a token.
    """

    def __init__(self, feature_dim: int = 8, token_dim: int = _TOKEN_WIDTH) -> None:
        super().__init__()
        self.feature_extractor = nn.Linear(feature_dim, token_dim)
        self.init_cross_attn()

    def init_cross_attn(self) -> None:
        """Make tokens and attention anew."""
        width = self.feature_extractor.out_features
        self.tokens = nn.Parameter(_TOKEN_SCALE * torch.randn(1, _TOKENS, width))
        self.cross_attention = CrossAttention(width, heads=8, dim_head=64, dropout=0.1)

    def compute_latent(self, x: torch.Tensor) -> torch.Tensor:
        """Map observations ``[B, *N, feature_dim]``, each a set of N vectors (one without the axis), to tokens
        ``[B, 16, token_dim]``.
        """
        features = encode(x, self.feature_extractor)
        context = features.reshape(features.shape[0], -1, features.shape[-1])
        output: torch.Tensor = self.cross_attention(self.tokens.expand(len(context), -1, -1), context)
        return output

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the same as :meth:`compute_latent`."""
        return self.compute_latent(x)


@MODEL_REGISTRY.register("hpt")
class HPT(nn.Module):
    """Q values from the tokens of a stem, for DQN: :class:`PolicyStem` and a ``DuelingHead`` over all tokens.

    State: ``policy_stem``, ``head``.

    Arguments:
        state_dim: features of the observation.
        action_dim: number of actions.
    """

    def __init__(self, state_dim: int, action_dim: int) -> None:
        super().__init__()
        self.policy_stem = PolicyStem(state_dim, _TOKEN_WIDTH)
        self.head = DuelingHead(_TOKENS * _TOKEN_WIDTH, action_dim)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Map observations ``[B, *N, state_dim]`` to ``logit`` ``[B, action_dim]``."""
        output: dict[str, torch.Tensor] = self.head(self.policy_stem.compute_latent(x).flatten(1))
        return output
