"""LSTM and GRU whose states may be given and returned per sequence of the batch."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ding.torch_utils.network.normalization import build_normalization
from ding.utils.errors import InvalidArgumentError, MismatchError

State = tuple[torch.Tensor, torch.Tensor]
_LSTM_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


def is_sequence(data: Any) -> bool:
    """Return whether ``data`` is a list or tuple."""
    return isinstance(data, list | tuple)


class LSTMForwardWrapper:
    """The forms in which a recurrent layer takes and returns its state.

    A state of the whole batch is a pair ``(h, c)`` of ``[num_layers, B, H]`` or a dict of both. A state per sequence
    is a list of B entries, each None (zeros), a dict ``{'h', 'c'}`` or a pair of ``[num_layers, 1, H]``.
    """

    num_layers: int
    hidden_size: int

    def _before_forward(self, inputs: torch.Tensor, prev_state: Any) -> State:
        """Return the pair ``(h, c)`` of ``[num_layers, B, H]`` for ``inputs`` ``[T, B, features]``."""
        batch_size = inputs.shape[1]
        zeros = inputs.new_zeros(self.num_layers, batch_size, self.hidden_size)
        if prev_state is None:
            return zeros, zeros
        if isinstance(prev_state, Mapping):
            return prev_state["h"], prev_state["c"]
        if not is_sequence(prev_state):
            raise TypeError(
                f"prev_state must be None, a dict, a pair or a list per sequence, got {type(prev_state).__name__}"
            )
        if len(prev_state) == 2 and all(isinstance(part, torch.Tensor) for part in prev_state):
            return prev_state[0], prev_state[1]
        if len(prev_state) != batch_size:
            raise MismatchError(f"prev_state has {len(prev_state)} entries for a batch of {batch_size}")
        pairs = [_as_pair(state, zeros[:, :1]) for state in prev_state]
        return torch.cat([h for h, _ in pairs], dim=1), torch.cat([c for _, c in pairs], dim=1)

    def _after_forward(self, next_state: State, list_next_state: bool) -> object:
        """``next_state`` as a dict of the batch, or as a list of dicts per sequence."""
        h, c = next_state
        if not list_next_state:
            return {"h": h, "c": c}
        return [{"h": one_h, "c": one_c} for one_h, one_c in zip(h.split(1, dim=1), c.split(1, dim=1))]


def _as_pair(state: Any, zeros: torch.Tensor) -> State:
    if state is None:
        return zeros, zeros
    if isinstance(state, Mapping):
        return state["h"], state["c"]
    h, c = state
    return h, c


class LSTM(LSTMForwardWrapper, nn.Module):
    """LSTM with normalised gates (arXiv:1607.06450).

    ``gates = norm_x(x Wx) + norm_h(h Wh) + b``, split into input, forget, output and update.

    Arguments:
        norm_type: normalisation of both products, or None.
        dropout: between layers, in training.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        norm_type: str | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = nn.Parameter(torch.zeros(num_layers, hidden_size * 4))
        self.use_dropout = dropout > 0.0
        norm = nn.Identity if norm_type is None else build_normalization(norm_type, dim=1)
        self.norm = nn.ModuleList([norm(hidden_size * 4) for _ in range(num_layers * 2)])
        widths = [input_size] + [hidden_size] * (num_layers - 1)
        self.wx = nn.ParameterList([nn.Parameter(torch.zeros(width, hidden_size * 4)) for width in widths])
        self.wh = nn.ParameterList([nn.Parameter(torch.zeros(hidden_size, hidden_size * 4)) for _ in widths])
        if self.use_dropout:
            self.dropout = nn.Dropout(dropout)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Weights and biases uniform in ``+-1/sqrt(hidden_size)``."""
        gain = 1.0 / math.sqrt(self.hidden_size)
        for wx, wh, bias in zip(self.wx, self.wh, self.bias):
            wx.uniform_(-gain, gain)
            wh.uniform_(-gain, gain)
            bias.uniform_(-gain, gain)

    def forward(
        self, inputs: torch.Tensor, prev_state: Any = None, list_next_state: bool = True
    ) -> tuple[torch.Tensor, Any]:
        """Run over ``inputs`` ``[T, B, input_size]``; returns outputs ``[T, B, hidden_size]`` and the state after the
        last step.
        """
        h_in, c_in = self._before_forward(inputs, prev_state)
        h_out, c_out = [], []
        x = inputs
        for layer in range(self.num_layers):
            x, h, c = self._run_layer(layer, x, h_in[layer], c_in[layer])
            if self.use_dropout and layer != self.num_layers - 1:
                x = self.dropout(x)
            h_out.append(h)
            c_out.append(c)
        return x, self._after_forward((torch.stack(h_out), torch.stack(c_out)), list_next_state)

    def _run_layer(self, layer: int, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # The part of the gates that does not depend on the state is one product over all steps.
        from_x = self.norm[layer * 2](torch.matmul(x, self.wx[layer]))
        wh, norm_h, bias = self.wh[layer], self.norm[layer * 2 + 1], self.bias[layer]
        outputs = []
        for step in from_x:
            gates = step + norm_h(torch.matmul(h, wh)) + bias
            i, f, o, u = gates.chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(u)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs), h, c


class PytorchLSTM(LSTMForwardWrapper, nn.LSTM):
    """``nn.LSTM`` behind the same interface."""

    def forward(  # type: ignore[override]
        self, inputs: torch.Tensor, prev_state: Any = None, list_next_state: bool = True
    ) -> tuple[torch.Tensor, Any]:
        """Run over ``inputs`` ``[T, B, input_size]``; returns outputs ``[T, B, hidden_size]`` and the state after the
        last step.
        """
        h, c = self._before_forward(inputs, prev_state)
        if len(inputs) == 1 and self.num_layers == 1:
            # The kernel of a single step, which costs less, and which can be recorded in a graph on the CPU.
            weights: list[torch.Tensor] = [getattr(self, name) for name in _LSTM_WEIGHTS]
            h, c = torch.lstm_cell(inputs[0], (h[0], c[0]), *weights)
            return h.unsqueeze(0), self._after_forward((h.unsqueeze(0), c.unsqueeze(0)), list_next_state)
        output, next_state = nn.LSTM.forward(self, inputs, (h.contiguous(), c.contiguous()))
        return output, self._after_forward(next_state, list_next_state)


class GRU(LSTMForwardWrapper, nn.GRUCell):
    """``nn.GRUCell`` behind the same interface: one layer; the state stands under both ``h`` and ``c``."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        if num_layers != 1:
            raise InvalidArgumentError(f"a GRU has one layer here, got num_layers={num_layers}")
        super().__init__(input_size, hidden_size)
        self.num_layers = 1

    def forward(  # type: ignore[override]
        self, inputs: torch.Tensor, prev_state: Any = None, list_next_state: bool = True
    ) -> tuple[torch.Tensor, Any]:
        """Run over ``inputs`` ``[T, B, input_size]``; returns outputs ``[T, B, hidden_size]`` and the state after the
        last step.
        """
        state, _ = self._before_forward(inputs, prev_state)
        h, outputs = state[0], []
        # The kernel itself: the cell's forward reads its weights and checks its input at each step.
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        for step in inputs.unbind():
            h = torch.gru_cell(step, h, *weights)
            outputs.append(h)
        last = h.unsqueeze(0)
        return torch.stack(outputs), self._after_forward((last, last), list_next_state)


class RNNLayer(nn.Module):
    """A recurrent layer between other layers.

    State: ``rnn``.

    Arguments:
        lstm_type: as in :func:`get_lstm`.
        res_link: add the input to the output; both have the same width then.
    """

    def __init__(self, lstm_type: str, input_size: int, hidden_size: int, res_link: bool = False) -> None:
        super().__init__()
        self.rnn = get_lstm(lstm_type, input_size=input_size, hidden_size=hidden_size)
        self.res_link = res_link

    def forward(
        self, x: torch.Tensor, prev_state: Any, inference: bool = False
    ) -> tuple[torch.Tensor, list[dict[str, torch.Tensor]], torch.Tensor]:
        """Run over ``x`` ``[T, B, input_size]``, or ``[B, input_size]`` in inference.

        Returns:
            The output, the next state per row, and the hidden state after each step, both shaped as the input but for
            the last axis.
        """
        steps = x.unsqueeze(0) if inference else x
        hidden, next_state = self.rnn(steps, prev_state)
        out = hidden + steps if self.res_link else hidden
        return (out.squeeze(0), next_state, hidden.squeeze(0)) if inference else (out, next_state, hidden)


def run_with_restarts(
    rnn: nn.Module, rows: torch.Tensor, states: Mapping[str, torch.Tensor], starts: torch.Tensor | None = None
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Run a layer of :func:`get_lstm` over one step, or over sequences in which the state is set anew at some steps.

    Arguments:
        rows: of one step ``[B, features]``; of sequences ``[B * T, features]``, one sequence after the other.
        states: ``{'h', 'c'}`` of ``[rows, 1, H]``: the state before each row. A sequence begins with that of its first
            row, and goes on with that of a later one where ``starts`` is True.
        starts: bool ``[B, T]``; None for one step.

    Returns:
        The outputs ``[rows, H]``, and the states after each row as ``states``.
    """
    batch_size, steps = (len(rows), 1) if starts is None else starts.shape
    inputs = rows.reshape(batch_size, steps, -1).unbind(1)
    # Of each step [1, B, H].
    given = {
        key: value.reshape(batch_size, steps, 1, -1).permute(1, 2, 0, 3).unbind(0) for key, value in states.items()
    }
    state = {key: value[0] for key, value in given.items()}
    outputs: list[torch.Tensor] = []
    after: dict[str, list[torch.Tensor]] = {key: [] for key in states}
    for step, seen in enumerate(inputs):
        if step and starts is not None:
            anew = starts[:, step].view(1, -1, 1)
            state = {key: torch.where(anew, given[key][step], value) for key, value in state.items()}
        out, state = rnn(seen.unsqueeze(0), state, list_next_state=False)
        outputs.append(out.squeeze(0))
        for key, value in state.items():
            after[key].append(value.squeeze(0))
    joined = {key: torch.stack(parts, 1).flatten(0, 1).unsqueeze(1) for key, parts in after.items()}
    return torch.stack(outputs, 1).flatten(0, 1), joined


def sequence_mask(lengths: torch.Tensor, max_len: int | None = None) -> torch.Tensor:
    """Which positions of padded sequences are real.

    Arguments:
        lengths: integers ``[B]`` (or ``[B, 1]``).
        max_len: bound of the width; longer sequences are cut.

    Returns:
        bool ``[B, W]``; ``W`` is the longest length, at most ``max_len``.
    """
    flat = lengths.reshape(-1, 1)
    longest = int(flat.max())
    width = longest if max_len is None else min(max_len, longest)
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
        lstm_type: ``normal`` (an LSTM with normalised gates), ``pytorch`` (``nn.LSTM``) or ``gru`` (one layer).
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
    raise InvalidArgumentError(f"lstm_type must be 'normal', 'pytorch' or 'gru', got {lstm_type!r}")
