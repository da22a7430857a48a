"""Networks of procedure cloning: they learn the steps by which an expert finds its action (Yang et al. 2022,
arXiv:2205.10816).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import nn

from ding.model.common.encoder import ConvEncoder, FCEncoder
from ding.model.common.shapes import as_shape
from ding.torch_utils.network.nn_module import fc_block
from ding.torch_utils.network.transformer import Attention
from ding.utils import MODEL_REGISTRY

_KERNEL, _PADDING = 3, 1


class BFSConvEncoder(nn.Module):
    """Convolutions with activations between them; the result is a picture, too.

    State: ``main.0``, ``main.2``, ... are the convolutions.

    Arguments:
        obs_shape: ``(C, H, W)``; only C matters.
        hidden_size_list: channels of each convolution.
        kernel_size, stride, padding: per convolution; padding is 0 unless given.

    Raises:
        ValueError: lists of unequal length, or ``obs_shape`` without three axes.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        hidden_size_list: Sequence[int] = (32, 64, 64, 128),
        activation: nn.Module | None = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        kernel_size: Sequence[int] = (8, 4, 3),
        stride: Sequence[int] = (4, 2, 1),
        padding: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        shape = as_shape(obs_shape, "obs_shape")
        if isinstance(shape, int) or len(shape) != 3:
            raise ValueError(f"BFSConvEncoder takes images (C, H, W), got obs_shape={obs_shape!r}")
        # DI-engine's default has a width more than it has kernels, and does not use it.
        widths = list(hidden_size_list)[: len(kernel_size)]
        paddings = [0] * len(widths) if padding is None else list(padding)
        if not len(widths) == len(kernel_size) == len(stride) == len(paddings):
            raise ValueError(
                f"{len(kernel_size)} convolutions need as many widths, strides and paddings: "
                f"hidden_size_list={hidden_size_list!r}, stride={stride!r}, padding={padding!r}"
            )
        self.act = nn.ReLU() if activation is None else activation
        layers: list[nn.Module] = []
        for (width_in, width_out), kernel, step, pad in zip(
            itertools.pairwise([shape[0], *widths]), kernel_size, stride, paddings
        ):
            layers += [nn.Conv2d(width_in, width_out, kernel, step, pad), self.act]
        self.main = nn.Sequential(*layers[:-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 ``[B, C, H, W]`` -> ``[B, hidden_size_list[-1], H', W']``."""
        output: torch.Tensor = self.main(x)
        return output


@MODEL_REGISTRY.register("pc_bfs")
class ProcedureCloningBFS(nn.Module):
    """Predicts the map of best actions after a step of a breadth-first search from the map before it.

    State: ``_encoder.main.0``, ``_encoder.main.2``, ... are the convolutions; there is one more than
    ``encoder_hidden_size_list`` has entries.

    Arguments:
        obs_shape: ``(C, H, W)``, where C counts the planes of an observation and those of the map, one for each class.
        action_shape: number of actions. A cell of a map has one more class: not known yet.
        encoder_hidden_size_list: channels of the hidden convolutions; the list is not changed.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        action_shape: int,
        encoder_hidden_size_list: Sequence[int] = (128, 128, 256, 256),
    ) -> None:
        super().__init__()
        self.obs_shape, self.action_shape = tuple(obs_shape), int(action_shape)
        widths = [*encoder_hidden_size_list, self.action_shape + 1]
        count = len(widths)
        self._encoder = BFSConvEncoder(
            obs_shape,
            widths,
            kernel_size=[_KERNEL] * count,
            stride=[1] * count,
            padding=[_PADDING] * count,
        )

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """float32 ``[B, H, W, C]`` -> ``logit`` ``[B, H, W, action_shape + 1]``."""
        logit = self._encoder(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return {"logit": logit}


class PCTransformer(nn.Module):
    """Causal attention layers, then linear ones, each followed by a layer norm.

    Each layer has weights and a norm of its own, which are trained and saved; DI-engine neither trains nor saves the
    layers, and has one norm for all of a kind.

    Arguments:
        cnn_hidden: features of a token.
        att_hidden: features of a head, and of the result of attention.
        att_heads: number of heads.
        drop_p: share of dropped weights and results of attention.
        max_T: longest sequence, in tokens.
        n_att, n_feedforward: number of the two kinds of layers.
        feedforward_hidden: features of the result.
    """

    mask: torch.Tensor

    def __init__(
        self,
        cnn_hidden: int,
        att_hidden: int,
        att_heads: int,
        drop_p: float,
        max_T: int,
        n_att: int,
        feedforward_hidden: int,
        n_feedforward: int,
    ) -> None:
        super().__init__()
        self.max_T = max_T
        token_sizes = [cnn_hidden, *[att_hidden] * n_att]
        self.attention_layers = nn.ModuleList(
            Attention(size, att_hidden, att_hidden, att_heads, nn.Dropout(drop_p)) for size in token_sizes[:-1]
        )
        self.attention_norms = nn.ModuleList(nn.LayerNorm(att_hidden) for _ in range(n_att))
        self.drop = nn.Dropout(drop_p)
        widths = [token_sizes[-1], *[feedforward_hidden] * n_feedforward]
        self.fc_blocks = nn.ModuleList(
            fc_block(width_in, width_out, activation=nn.ReLU()) for width_in, width_out in itertools.pairwise(widths)
        )
        self.fc_norms = nn.ModuleList(nn.LayerNorm(feedforward_hidden) for _ in range(n_feedforward))
        self.register_buffer("mask", torch.ones(1, 1, max_T, max_T, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 ``[B, N, cnn_hidden]`` -> ``[B, N, feedforward_hidden]``.

        Raises:
            ValueError: N is above ``max_T``.
        """
        number = x.shape[1]
        if number > self.max_T:
            raise ValueError(f"max_T={self.max_T}, but the sequence has {number} tokens")
        mask = self.mask[..., :number, :number]
        for layer, norm in zip(self.attention_layers, self.attention_norms):
            x = norm(self.drop(layer(x, mask)))
        for layer, norm in zip(self.fc_blocks, self.fc_norms):
            x = norm(layer(x))
        return x


@MODEL_REGISTRY.register("pc_mcts")
class ProcedureCloningMCTS(nn.Module):
    """Predicts what a tree search goes through: from a state the goal, and then one action after the other.

    The tokens are the state, the goal and the actions; each prediction sees the tokens up to it.

    Arguments:
        obs_shape: ``(C, H, W)`` of states and goals.
        action_dim: features of an action.
        cnn_hidden_list, cnn_activation, cnn_kernel_size, cnn_stride, cnn_padding: the encoder of states and goals.
        mlp_hidden_list, mlp_activation: the encoder of actions.
        att_heads, att_hidden, n_att, n_feedforward, feedforward_hidden, drop_p, max_T: see :class:`PCTransformer`.

    Raises:
        AssertionError: the last entries of ``cnn_hidden_list`` and ``mlp_hidden_list`` differ.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        action_dim: int,
        cnn_hidden_list: Sequence[int] = (128, 128, 256, 256, 256),
        cnn_activation: nn.Module = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        cnn_kernel_size: Sequence[int] = (3, 3, 3, 3, 3),
        cnn_stride: Sequence[int] = (1, 1, 1, 1, 1),
        cnn_padding: Sequence[int] = (1, 1, 1, 1, 1),
        mlp_hidden_list: Sequence[int] = (256, 256),
        mlp_activation: nn.Module = nn.ReLU(),  # noqa: B008 - stateless, and part of the public signature
        att_heads: int = 8,
        att_hidden: int = 128,
        n_att: int = 4,
        n_feedforward: int = 2,
        feedforward_hidden: int = 256,
        drop_p: float = 0.5,
        max_T: int = 17,
    ) -> None:
        super().__init__()
        size = cnn_hidden_list[-1]
        if size != mlp_hidden_list[-1]:
            raise AssertionError(
                "states and actions become tokens of one size: the last entries of cnn_hidden_list and "
                f"mlp_hidden_list must be equal, got {size} and {mlp_hidden_list[-1]}"
            )
        self.embed_state = ConvEncoder(
            obs_shape, cnn_hidden_list, cnn_activation, cnn_kernel_size, cnn_stride, cnn_padding
        )
        self.embed_action = FCEncoder(action_dim, mlp_hidden_list, activation=mlp_activation)
        self.transformer = PCTransformer(
            size, att_hidden, att_heads, drop_p, max_T, n_att, feedforward_hidden, n_feedforward
        )
        self.predict_goal = nn.Linear(feedforward_hidden, size)
        self.predict_action = nn.Linear(feedforward_hidden, action_dim)

    def forward(
        self, states: torch.Tensor, goals: torch.Tensor, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Predict goals and actions.

        Args:
            states, goals: ``[B, C, H, W]``.
            actions: float32 ``[B, T, action_dim]``.

        Returns:
            the features of the goal ``[B, cnn_hidden_list[-1]]``, and the actions ``[B, T + 1, action_dim]``.

        Raises:
            ValueError: ``T + 2`` is above ``max_T``.
        """
        pictures = torch.stack([self.embed_state(states), self.embed_state(goals)], dim=1)
        features = self.transformer(torch.cat([pictures, self.embed_action(actions)], dim=1))
        return self.predict_goal(features[:, 0]), self.predict_action(features[:, 1:])
