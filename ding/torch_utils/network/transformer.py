"""A transformer encoder over sets of entities (arXiv:1706.03762)."""

import itertools
import math

import torch
from torch import nn

from ding.torch_utils.network.nn_module import fc_block


class ScaledDotProductAttention(nn.Module):
    """``softmax(q k^T / sqrt(d_k)) v``.

    Arguments:
        d_k: features per head of queries and keys.
    """

    def __init__(self, d_k: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_k = d_k
        self.dropout: nn.Module = nn.Dropout(dropout)

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``q``, ``k``, ``v``: ``[B, heads, N, d]``; ``mask``: bool ``[B, 1 or heads, N, N]``, False where a query
        must not look.
        """
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return torch.matmul(self.dropout(scores.softmax(dim=-1)), v)


class Attention(nn.Module):
    """Multi-head self-attention: ``[B, N, input_dim]`` to ``[B, N, output_dim]``.

    Arguments:
        dropout: a module, or a ratio.
    """

    def __init__(
        self, input_dim: int, head_dim: int, output_dim: int, head_num: int, dropout: nn.Module | float
    ) -> None:
        super().__init__()
        self.head_num = head_num
        self.head_dim = head_dim
        self.attend = ScaledDotProductAttention(head_dim)
        self.attend.dropout = _module(dropout)
        self.attention_pre = fc_block(input_dim, head_dim * head_num * 3)
        self.project = fc_block(head_dim * head_num, output_dim)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """``mask``: bool, broadcast to ``[B, heads, N, N]``; False where a query must not look."""
        batch, number = x.shape[:2]
        qkv = self.attention_pre(x).reshape(batch, number, 3, self.head_num, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = self.attend(q, k, v, mask)
        output: torch.Tensor = self.project(mixed.transpose(1, 2).reshape(batch, number, -1))
        return output


class TransformerLayer(nn.Module):
    """Attention and a feed-forward block, each followed by the sum with its input and a layer norm.

    Arguments:
        dropout: a module, or a ratio.
    """

    def __init__(
        self,
        input_dim: int,
        head_dim: int,
        hidden_dim: int,
        output_dim: int,
        head_num: int,
        mlp_num: int,
        dropout: nn.Module | float,
        activation: nn.Module,
    ) -> None:
        super().__init__()
        self.attention = Attention(input_dim, head_dim, output_dim, head_num, dropout)
        self.layernorm1 = nn.LayerNorm(output_dim)
        self.dropout = _module(dropout)
        widths = [output_dim, *[hidden_dim] * (mlp_num - 1), output_dim]
        layers: list[nn.Module] = []
        for width_in, width_out in itertools.pairwise(widths):
            layers += [fc_block(width_in, width_out, activation=activation), self.dropout]
        self.mlp = nn.Sequential(*layers)
        self.layernorm2 = nn.LayerNorm(output_dim)

    def forward(
        self, x: torch.Tensor | tuple[torch.Tensor, torch.Tensor | None], mask: torch.Tensor | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor | None]:
        """``[B, N, input_dim]`` to ``[B, N, output_dim]``; the pair ``(x, mask)``, as layers in a ``Sequential`` take
        it, to the pair of the result and the mask.
        """
        tokens, mask = x if isinstance(x, tuple) else (x, mask)
        tokens = self.layernorm1(tokens + self.dropout(self.attention(tokens, mask)))
        tokens = self.layernorm2(tokens + self.mlp(tokens))
        return (tokens, mask) if isinstance(x, tuple) else tokens


def _module(dropout: nn.Module | float) -> nn.Module:
    return dropout if isinstance(dropout, nn.Module) else nn.Dropout(dropout)


class Transformer(nn.Module):
    """Embed entities and let them look at each other.

    Arguments:
        input_dim: features of an entity.
        head_dim, head_num: width and number of attention heads.
        hidden_dim, mlp_num: width and number of the layers of the feed-forward block.
        output_dim: features of the result.
        layer_num: number of transformer layers.
    """

    def __init__(
        self,
        input_dim: int,
        head_dim: int = 128,
        hidden_dim: int = 1024,
        output_dim: int = 256,
        head_num: int = 2,
        mlp_num: int = 2,
        layer_num: int = 3,
        dropout_ratio: float = 0.0,
        activation: nn.Module = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
    ) -> None:
        super().__init__()
        self.embedding = fc_block(input_dim, output_dim, activation=activation)
        self.act = activation
        self.dropout = nn.Dropout(dropout_ratio)
        self.main = nn.ModuleList(
            TransformerLayer(output_dim, head_dim, hidden_dim, output_dim, head_num, mlp_num, dropout_ratio, activation)
            for _ in range(layer_num)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Entities ``[B, N, input_dim]`` to ``[B, N, output_dim]``; ``mask``: bool ``[B, N]``, False for padding (its
        rows come out unspecified).
        """
        pairs = None if mask is None else mask.bool()[:, None, None, :].expand(-1, 1, mask.shape[1], -1)
        x = self.dropout(self.embedding(x))
        for layer in self.main:
            x = layer(x, pairs)
        return x
