"""Gated transformer-XL (GTrXL, arXiv:1910.06764): attention over a memory of past steps, for reinforcement learning.

Axes: S steps of a segment, M steps of the memory, B batch, E features.
"""

import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ding.torch_utils.network.input_dtype import as_input
from ding.torch_utils.network.nn_module import fc_block

_RELU = nn.ReLU()


class PositionalEmbedding(nn.Module):
    """Sines and cosines of positions (arXiv:1706.03762).

    State: ``inv_freq`` ``[E / 2]``.
    """

    inv_freq: torch.Tensor

    def __init__(self, embedding_dim: int) -> None:
        super().__init__()
        self.embedding_dim = embedding_dim
        self.register_buffer("inv_freq", 10000 ** -(torch.arange(0.0, embedding_dim, 2.0) / embedding_dim))

    def forward(self, position: torch.Tensor) -> torch.Tensor:
        """Positions ``[S]`` to ``[S, 1, E]``."""
        angle = torch.outer(position.to(self.inv_freq.dtype), self.inv_freq)
        return torch.cat([angle.sin(), angle.cos()], dim=-1).unsqueeze(1)


class GRUGatingUnit(nn.Module):
    """Gates what a layer adds as a GRU gates its input.

    State: ``bg`` ``[input_dim]``; ``Wr``, ``Ur``, ``Wz``, ``Uz``, ``Wg``, ``Ug``, linear without bias.

    Arguments:
        bg: initial bias of the update gate; positive values begin with the identity.
    """

    def __init__(self, input_dim: int, bg: float = 2.0) -> None:
        super().__init__()

        def linear() -> nn.Linear:
            return nn.Linear(input_dim, input_dim, bias=False)

        self.Wr, self.Ur = linear(), linear()
        self.Wz, self.Uz = linear(), linear()
        self.Wg, self.Ug = linear(), linear()
        self.bg = nn.Parameter(torch.full([input_dim], float(bg)))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the stream ``x`` ``[..., E]`` and what the layer made of it, ``y``, to the new stream."""
        reset = torch.sigmoid(self.Wr(y) + self.Ur(x))
        update = torch.sigmoid(self.Wz(y) + self.Uz(x) - self.bg)
        candidate = torch.tanh(self.Wg(y) + self.Ug(reset * x))
        return (1 - update) * x + update * candidate


class Memory:
    """The inputs of each layer and the output, over the last ``memory_len`` steps: ``[layer_num + 1, M, B, E]``.

    Arguments:
        memory: what it starts from; zeros unless given.
    """

    def __init__(
        self,
        memory_len: int = 20,
        batch_size: int = 64,
        embedding_dim: int = 256,
        layer_num: int = 3,
        memory: torch.Tensor | None = None,
    ) -> None:
        self.memory_len = memory_len
        self.bs = batch_size
        self.embedding_dim = embedding_dim
        self.layer_num = layer_num
        self.memory: torch.Tensor | None = None
        self.init(memory)

    def init(self, memory: torch.Tensor | None = None) -> None:
        """Start from ``memory``, or from zeros.

        Raises:
            ValueError: it has another number of layers or features.
        """
        if memory is None:
            memory = torch.zeros(self.layer_num + 1, self.memory_len, self.bs, self.embedding_dim)
        layers, _, _, features = memory.shape
        if (layers, features) != (self.layer_num + 1, self.embedding_dim):
            raise ValueError(
                f"a memory must be [{self.layer_num + 1}, M, B, {self.embedding_dim}], found {tuple(memory.shape)}"
            )
        self.memory = memory
        self.memory_len, self.bs = memory.shape[1], memory.shape[2]

    def update(self, hidden_state: Sequence[torch.Tensor] | None) -> torch.Tensor:
        """Append the steps of ``hidden_state``, ``[S, B, E]`` per layer, without gradients; returns the new memory.

        Raises:
            ValueError: there is nothing to append, or nothing to append it to.
        """
        if self.memory is None or hidden_state is None:
            raise ValueError("a memory is updated from the hidden states of all layers, found None")
        self.memory = _appended(self.memory, hidden_state)
        return self.memory

    def get(self) -> torch.Tensor | None:
        """Return the memory as it is now."""
        return self.memory

    def to(self, device: torch.device | str = "cpu") -> None:
        """Move it to a device."""
        if self.memory is not None:
            self.memory = self.memory.to(device)


def _appended(memory: torch.Tensor, hidden_state: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the last M steps of the memory and the hidden states."""
    whole = torch.cat([memory, torch.stack(list(hidden_state))], dim=1).detach()
    return whole[:, whole.shape[1] - memory.shape[1] :]


class AttentionXL(nn.Module):
    """Multi-head attention with relative positions (transformer-XL, arXiv:1901.02860).

    Arguments:
        dropout: module, for the weights and the result.
    """

    def __init__(self, input_dim: int, head_dim: int, head_num: int, dropout: nn.Module) -> None:
        super().__init__()
        self.head_num, self.head_dim, self.dropout = head_num, head_dim, dropout
        inside = head_num * head_dim
        # Keys and values come from one product.
        self.attention_kv, self.attention_q = (fc_block(input_dim, width) for width in (2 * inside, inside))
        self.project, self.project_pos = fc_block(inside, input_dim), fc_block(input_dim, inside)

    def forward(
        self,
        inputs: torch.Tensor,
        pos_embedding: torch.Tensor,
        full_input: torch.Tensor,
        u: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Arguments:
            inputs: the steps that look, ``[S, B, E]``.
            pos_embedding: of the distances ``M + S - 1`` to 0, ``[M + S, 1, E]``.
            full_input: the memory and the steps that they look at, ``[M + S, B, E]``.
            u, v: biases of the content and of the position, ``[heads, head_dim]``.
            mask: bool ``[S, M + S, 1]``, or ``[S, M + S, B]`` with one for each row; True where a step must not look.

        Returns:
            ``[S, B, E]``.

        Raises:
            AssertionError: the mask has another shape.
        """
        heads = (self.head_num, self.head_dim)
        key, value = self.attention_kv(full_input).unflatten(-1, (2, *heads)).unbind(-3)
        query = self.attention_q(inputs).unflatten(-1, heads)
        position = self.project_pos(pos_embedding).unflatten(-1, heads).squeeze(1)
        content = torch.einsum("sbhd,fbhd->bhsf", query + u, key)
        relative = _relative_shift(torch.einsum("sbhd,fhd->bhsf", query + v, position))
        scores = (content + relative) / math.sqrt(self.head_dim)
        if mask is not None:
            _, _, steps, full = scores.shape
            if mask.shape[:2] != (steps, full) or mask.shape[2:] not in ((1,), (scores.shape[0],)):
                raise AssertionError(
                    f"mask must be [S, M + S, 1 or B] = [{steps}, {full}, 1 or {scores.shape[0]}], found "
                    f"{tuple(mask.shape)}"
                )
            scores = scores.masked_fill(mask.movedim(2, 0).unsqueeze(1), float("-inf"))
        weights = self.dropout(scores.softmax(dim=-1))
        mixed = torch.einsum("bhsf,fbhd->sbhd", weights, value)
        output: torch.Tensor = self.dropout(self.project(mixed.flatten(-2)))
        return output


def _relative_shift(scores: torch.Tensor) -> torch.Tensor:
    """Scores of distances, ``[B, heads, S, F]`` with the distance ``F - 1`` first, as scores of positions: row i moves
    left by ``S - 1 - i``. What comes in from the right lies in the future and is masked.
    """
    batch, heads, steps, full = scores.shape
    padded = nn.functional.pad(scores, (1, 0))
    return padded.reshape(batch, heads, full + 1, steps)[:, :, 1:].reshape(batch, heads, steps, full)


class GatedTransformerXLLayer(nn.Module):
    """Attention and a feed-forward block, each after a layer norm and before a gate.

    Arguments:
        dropout, activation: modules.
        gru_gating: gate by :class:`GRUGatingUnit`, and not by a sum.
    """

    def __init__(
        self,
        input_dim: int,
        head_dim: int,
        hidden_dim: int,
        head_num: int,
        mlp_num: int,
        dropout: nn.Module,
        activation: nn.Module,
        gru_gating: bool = True,
        gru_bias: float = 2.0,
    ) -> None:
        super().__init__()
        self.dropout, self.gating = dropout, gru_gating
        if gru_gating:
            self.gate1, self.gate2 = (GRUGatingUnit(input_dim, gru_bias) for _ in range(2))
        self.attention = AttentionXL(input_dim, head_dim, head_num, dropout)
        widths = [input_dim, *[hidden_dim] * (mlp_num - 1), input_dim]
        layers: list[nn.Module] = []
        for width_in, width_out in itertools.pairwise(widths):
            layers += [fc_block(width_in, width_out, activation=activation), dropout]
        self.mlp = nn.Sequential(*layers)
        self.layernorm1, self.layernorm2 = (nn.LayerNorm(input_dim) for _ in range(2))
        self.activation = activation

    def forward(
        self,
        inputs: torch.Tensor,
        pos_embedding: torch.Tensor,
        u: torch.Tensor,
        v: torch.Tensor,
        memory: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``inputs`` ``[S, B, E]`` and ``memory`` ``[M, B, E]`` of this layer to ``[S, B, E]``; others as in
        :class:`AttentionXL`.
        """
        full_input = self.layernorm1(torch.cat([memory, inputs]))
        attended = self.activation(self.dropout(self.attention(inputs, pos_embedding, full_input, u, v, mask)))
        out = self.gate1(inputs, attended) if self.gating else inputs + attended
        added = self.dropout(self.mlp(self.layernorm2(out)))
        output: torch.Tensor = self.gate2(out, added) if self.gating else out + added
        return output


class GTrXL(nn.Module):
    """Gated transformer-XL (arXiv:1910.06764) over the steps of a segment and a memory of those before.

    State: ``u``, ``v`` ``[head_num, head_dim]``, shared by all layers; ``embedding``, ``layers``.

    Arguments:
        input_dim: features of an observation.
        embedding_dim: features of a step inside, an even number.
        mlp_num: layers of the feed-forward blocks.
        memory_len: steps of the memory.
        gru_gating, gru_bias: see :class:`GatedTransformerXLLayer`.
        use_embedding_layer: whether observations are brought to ``embedding_dim`` features; else they must have them.

    Raises:
        AssertionError: ``embedding_dim`` is odd.
    """

    def __init__(
        self,
        input_dim: int,
        head_dim: int = 128,
        embedding_dim: int = 256,
        head_num: int = 2,
        mlp_num: int = 2,
        layer_num: int = 3,
        memory_len: int = 64,
        dropout_ratio: float = 0.0,
        activation: nn.Module = _RELU,
        gru_gating: bool = True,
        gru_bias: float = 2.0,
        use_embedding_layer: bool = True,
    ) -> None:
        super().__init__()
        if embedding_dim % 2:
            raise AssertionError(f"embedding_dim must be even, found {embedding_dim}")
        self.head_num, self.head_dim, self.embedding_dim = head_num, head_dim, embedding_dim
        self.layer_num, self.memory_len = layer_num, memory_len
        self.use_embedding_layer = use_embedding_layer
        if use_embedding_layer:
            self.embedding = fc_block(input_dim, embedding_dim, activation=activation)
        # One module without state for all places.
        self.dropout: nn.Module = nn.Dropout(dropout_ratio) if dropout_ratio > 0 else nn.Identity()
        self.pos_embedding = PositionalEmbedding(embedding_dim)
        sizes = (embedding_dim, head_dim, embedding_dim, head_num, mlp_num)
        parts = (self.dropout, activation, gru_gating, gru_bias)
        self.layers = nn.ModuleList([GatedTransformerXLLayer(*sizes, *parts) for _ in range(layer_num)])
        self.u, self.v = (nn.Parameter(torch.zeros(head_num, head_dim)) for _ in range(2))
        self.memory: Memory | None = None

    def attend(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Run a segment from a memory; the memory that the module keeps has no part in it.

        Arguments:
            x: ``[S, B, input_dim]``.
            memory: ``[layer_num + 1, M, B, E]``; zeros of ``memory_len`` steps unless given.

        Returns:
            ``[S, B, E]``, and the memory after the segment, without gradients.
        """
        if self.use_embedding_layer:
            x = self.dropout(self.embedding(as_input(x, self.embedding)))
        steps, batch_size = x.shape[:2]
        if memory is None:
            memory = x.new_zeros(self.layer_num + 1, self.memory_len, batch_size, self.embedding_dim)
        memory = memory.to(x)
        past = memory.shape[1]
        distance = torch.arange(past + steps - 1, -1, -1, device=x.device)
        position = self.dropout(self.pos_embedding(distance))
        # A step sees the whole memory, itself and the steps before it.
        mask = torch.ones(steps, past + steps, dtype=torch.bool, device=x.device).triu(past + 1).unsqueeze(-1)
        hidden = [x]
        for layer, remembered in zip(self.layers, memory):
            hidden.append(layer(hidden[-1], position, self.u, self.v, remembered, mask))
        return self.dropout(hidden[-1]), _appended(memory, hidden)

    def forward(self, x: torch.Tensor, batch_first: bool = False, return_mem: bool = True) -> dict[str, Any]:
        """Run a segment from the memory that the module keeps, and keep the memory after it.

        Arguments:
            x: ``[S, B, input_dim]`` (``[B, S, input_dim]`` with ``batch_first``).
            return_mem: add ``memory``.

        Returns:
            ``logit`` ``[S, B, E]`` (``[B, S, E]``); ``memory`` before the segment, ``[layer_num + 1, M, B, E]``.
        """
        if batch_first:
            x = x.transpose(0, 1)
        batch_size = x.shape[1]
        if self.memory is None:
            self.reset_memory(batch_size)
        elif self.memory.bs != batch_size:
            warnings.warn(
                f"the memory is of a batch of {self.memory.bs}, and starts anew for one of {batch_size}", stacklevel=2
            )
            self.reset_memory(batch_size)
        assert self.memory is not None
        before = self.memory.get()
        logit, after = self.attend(x, before)
        self.memory.init(after)
        output: dict[str, Any] = {"logit": logit.transpose(0, 1) if batch_first else logit}
        if return_mem:
            output["memory"] = before
        return output

    def reset_memory(self, batch_size: int | None = None, state: torch.Tensor | None = None) -> None:
        """Start from ``state`` ``[layer_num + 1, M, B, E]``, or from zeros for ``batch_size`` rows (64 if None)."""
        size = 64 if batch_size is None else batch_size
        self.memory = Memory(self.memory_len, size, self.embedding_dim, self.layer_num, state)
        self.memory.to(self.u.device)

    def get_memory(self) -> torch.Tensor | None:
        """Return the memory that the module keeps, ``[layer_num + 1, M, B, E]``, or None before the first use."""
        return None if self.memory is None else self.memory.get()
