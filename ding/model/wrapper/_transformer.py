"""Wrappers that feed a transformer: a window of observations, segments, a memory.

They are for models of the form of :class:`~ding.torch_utils.network.gtrxl.GTrXL`; the policy ``r2d2_gtrxl`` of this
package keeps its memory itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.wrapper._base import IModelWrapper, output_dict


def _nothing() -> torch.Tensor | None:
    return None


class TransformerInputWrapper(IModelWrapper):
    """``transformer_input``: runs the model on the last ``seq_len`` observations of each environment.

    ``obs_memory`` ``[seq_len, B, ...]`` is the window, None before the first use. ``memory_idx`` has the number of
    observations in the column of each environment; columns that are not full end with zeros.

    Arguments:
        seq_len: length of the window.
        init_fn: makes the first window; zeros for the first batch unless given.
    """

    def __init__(
        self, model: nn.Module | IModelWrapper, seq_len: int, init_fn: Callable[[], torch.Tensor | None] = _nothing
    ) -> None:
        super().__init__(model)
        self.seq_len = seq_len
        self.init_fn = init_fn
        self._forget()

    def _forget(self) -> None:
        self.kept = {"memory": None, "index": []}

    @property
    def obs_memory(self) -> torch.Tensor | None:
        """The window, ``[seq_len, B, ...]``."""
        memory: torch.Tensor | None = self.kept["memory"]
        return memory

    @property
    def memory_idx(self) -> list[int]:
        """How many observations the window of each environment has."""
        index: list[int] = self.kept["index"]
        return index

    def forward(
        self,
        input_obs: torch.Tensor,
        only_last_logit: bool = True,
        data_id: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Append an observation to the windows of some environments, and run the model on all windows.

        Arguments:
            input_obs: ``[len(data_id), ...]``.
            only_last_logit: take from ``logit`` the row of the newest observation of each of ``data_id``.
            data_id: the environment of each row; all in order unless given.

        Returns:
            The output of the model, with ``logit`` ``[len(data_id), ...]``, or ``[seq_len, B, ...]`` without
            ``only_last_logit``, and ``input_seq`` ``[seq_len, B, ...]``, the windows.

        Raises:
            ValueError: ``data_id`` has another length than the observations.
        """
        memory = self.obs_memory
        if memory is None:
            memory = self.init_fn()
            self._begin(input_obs.new_zeros(self.seq_len, *input_obs.shape) if memory is None else memory)
        ids = list(range(len(self.memory_idx)) if data_id is None else data_id)
        if len(ids) != len(input_obs):
            raise ValueError(f"transformer_input: {len(input_obs)} observations for the environments {ids}")
        window = self._appended(input_obs, ids)
        output = output_dict(self._model.forward(window, **kwargs), self)
        output["input_seq"] = window
        if only_last_logit:
            output["logit"] = output["logit"][[self.memory_idx[index] - 1 for index in ids], ids]
        return output

    def _begin(self, memory: torch.Tensor, filled: int = 0) -> None:
        self.kept = {"memory": memory, "index": [filled] * memory.shape[1]}

    def _appended(self, obs: torch.Tensor, ids: list[int]) -> torch.Tensor:
        """Keep and return new windows; those that were returned before stay as they are."""
        assert self.obs_memory is not None
        window, index = self.obs_memory.clone(), list(self.memory_idx)
        full = [i for i in ids if index[i] == self.seq_len]
        if full:
            window[:-1, full] = window[1:, full]
        for i in ids:
            index[i] = min(index[i] + 1, self.seq_len)
        window[[index[i] - 1 for i in ids], ids] = obs.to(window)
        self.kept = {"memory": window, "index": index}
        return window

    def reset(self, *args: Any, input_obs: torch.Tensor | None = None, **kwargs: Any) -> None:
        """Empty the windows of ``data_id``, or begin with ``input_obs`` ``[seq_len, B, ...]``, or (neither) forget all.

        Raises:
            AssertionError: ``data_id`` is given before the first use.
        """
        data_id = args[0] if args else kwargs.get("data_id")
        if input_obs is not None:
            self._begin(input_obs)
        elif data_id is None:
            self._forget()
        elif self.obs_memory is None:
            raise AssertionError(f"transformer_input: there is no window of {list(data_id)} before the first use")
        else:
            window, index = self.obs_memory.clone(), list(self.memory_idx)
            window[:, list(data_id)] = 0
            for i in data_id:
                index[i] = 0
            self.kept = {"memory": window, "index": index}
        if hasattr(self._model, "reset"):
            self._model.reset(*args, **kwargs)


class TransformerSegmentWrapper(IModelWrapper):
    """``transformer_segment``: runs the model on pieces of ``seq_len`` steps, one after the other.

    The memory that the model keeps carries over from a piece to the next.
    """

    def __init__(self, model: nn.Module | IModelWrapper, seq_len: int) -> None:
        super().__init__(model)
        self.seq_len = seq_len

    def forward(self, obs: torch.Tensor, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and concatenate what it returns for each piece.

        Arguments:
            obs: ``[T, B, ...]``; the last piece is filled up with zeros.

        Returns:
            Each tensor of the output, concatenated along its first axis, so that one of time has T, rounded up to a
            multiple of ``seq_len``; other values are those of the last piece.
        """
        missing = -len(obs) % self.seq_len
        if missing:
            obs = torch.cat([obs, obs.new_zeros(missing, *obs.shape[1:])])
        pieces = [output_dict(self._model.forward(one, *args, **kwargs), self) for one in obs.split(self.seq_len)]
        return {
            key: torch.cat([piece[key] for piece in pieces]) if isinstance(last, torch.Tensor) else last
            for key, last in pieces[-1].items()
        }


class TransformerMemoryWrapper(IModelWrapper):
    """``transformer_memory``: keeps the memory of a batch of environments, while the model may run other batches.

    ``memory`` is ``[layer_num + 1, M, batch_size, E]``.

    Arguments:
        batch_size: number of environments.
    """

    def __init__(self, model: nn.Module | IModelWrapper, batch_size: int) -> None:
        super().__init__(model)
        self._model.reset_memory(batch_size=batch_size)
        self.memory = self._model.get_memory()

    @property
    def memory(self) -> torch.Tensor:
        """The memory before the next step."""
        memory: torch.Tensor = self.kept
        return memory

    @memory.setter
    def memory(self, value: torch.Tensor) -> None:
        self.kept = value

    def forward(self, *args: Any, **kwargs: Any) -> object:
        """Run the model from the memory, and keep that after the step."""
        self._model.reset_memory(state=self.memory)
        output: object = super().forward(*args, **kwargs)
        self.memory = self._model.get_memory()
        return output

    def reset(self, *args: Any, **kwargs: Any) -> None:
        """Set the memory of the environments ``data_id``, of all if None, to zeros."""
        data_id = args[0] if args else kwargs.get("data_id")
        memory = self.memory.clone()
        memory[:, :, slice(None) if data_id is None else list(data_id)] = 0
        self.memory = memory
        if hasattr(self._model, "reset"):
            self._model.reset(*args, **kwargs)

    def show_memory_occupancy(self, layer: int = 0) -> None:
        """Print for each environment which steps of the memory of a layer are used: 1, or 0 where all is zero."""
        used = self.memory[layer].abs().sum(dim=-1).transpose(0, 1) != 0
        rows = [" ".join(map(str, row)) for row in used.int().tolist()]
        print(f"Layer {layer}", *rows, sep="\n")  # noqa: T201 - what it is for
