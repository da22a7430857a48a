"""Recurrent layers and helpers for sequences of unequal length."""

from __future__ import annotations

import torch
from torch import nn

from ding.torch_utils.network._lstm import GRU, LSTM, LSTMForwardWrapper, PytorchLSTM, State, is_sequence

__all__ = ["GRU", "LSTM", "LSTMForwardWrapper", "PytorchLSTM", "State", "get_lstm", "is_sequence", "sequence_mask"]


def sequence_mask(lengths: torch.Tensor, max_len: int | None = None) -> torch.Tensor:
    """Which positions of padded sequences are real.

    Arguments:
        lengths: integers ``[B]`` (or ``[B, 1]``).
        max_len: width of the mask; the longest length unless given.

    Returns:
        bool ``[B, max_len]``.
    """
    flat = lengths.reshape(-1, 1)
    width = int(flat.max()) if max_len is None else max_len
    return torch.arange(width, device=lengths.device).unsqueeze(0) < flat


def get_lstm(
    lstm_type: str,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    norm_type: str | None = "LN",
    dropout: float = 0.0,
    seq_len: int | None = None,
    batch_size: int | None = None,
) -> nn.Module:
    """Build a recurrent layer of the interface described in ``LSTMForwardWrapper``.

    Arguments:
        lstm_type: ``normal`` (an LSTM with normalised gates), ``pytorch`` (``nn.LSTM``) or ``gru`` (one layer, one
            step per call).
        norm_type: of the gates, for ``normal`` only.
        seq_len, batch_size: sizes some fused implementations need; unused here.

    Raises:
        NotImplementedError: ``hpc``, which needs a closed CUDA package.
        ValueError: another unknown type, or a GRU of more than one layer.
    """
    if lstm_type == "normal":
        return LSTM(input_size, hidden_size, num_layers, norm_type, dropout=dropout)
    if lstm_type == "pytorch":
        return PytorchLSTM(input_size, hidden_size, num_layers, dropout=dropout)
    if lstm_type == "gru":
        return GRU(input_size, hidden_size, num_layers)
    if lstm_type == "hpc":
        raise NotImplementedError("lstm_type 'hpc' is not available; use 'normal', 'pytorch' or 'gru'")
    raise ValueError(f"lstm_type must be 'normal', 'pytorch' or 'gru', got {lstm_type!r}")
