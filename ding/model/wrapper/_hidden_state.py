"""The wrapper that keeps the hidden states of a recurrent model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from ding.model.wrapper._base import IModelWrapper, output_dict
from ding.torch_utils.data_helper import get_tensor_data, zeros_like


def _nothing() -> None:
    return None


class HiddenStateWrapper(IModelWrapper):
    """``hidden_state``: gives each row of a batch the state that its last step left.

    Arguments:
        state_num: number of states; their ids are 0 to ``state_num - 1``.
        save_prev_state: add ``prev_state`` to the output: a detached copy of the state of each row before the step.
        init_fn: makes the initial state; None (the model takes it for zeros) unless given.
    """

    def __init__(
        self,
        model: nn.Module | IModelWrapper,
        state_num: int,
        save_prev_state: bool = False,
        init_fn: Callable[[], Any] = _nothing,
    ) -> None:
        super().__init__(model)
        self._state_num = state_num
        self._save_prev_state = save_prev_state
        self._init_fn = init_fn
        self._state = {index: init_fn() for index in range(state_num)}

    def forward(
        self,
        data: Mapping[str, Any],
        *args: Any,
        data_id: Sequence[int] | None = None,
        valid_id: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Run the model on ``data`` with ``prev_state``, and keep its ``next_state``, which is taken out of the output.

        Arguments:
            data: the input of the model without the states; unchanged.
            data_id: the state of each row; all states in order unless given.
            valid_id: keep the new states of these ids only.

        Raises:
            KeyError: an id has no state.
            AssertionError: the model returns another number of states.
        """
        ids = list(self._state) if data_id is None else list(data_id)
        unknown = [index for index in ids if index not in self._state]
        if unknown:
            raise KeyError(f"no hidden state for data_id {unknown}, ids are 0 to {self._state_num - 1}")
        prev_state = [self._state[index] for index in ids]
        output = output_dict(self._model.forward({**data, "prev_state": prev_state}, *args, **kwargs), self)
        next_state = output.pop("next_state", None)
        if next_state is not None:
            self._keep(ids, next_state, valid_id)
        if self._save_prev_state:
            output["prev_state"] = _saved(prev_state, next_state)
        return output

    def _keep(self, ids: list[int], states: Sequence[Any], valid_id: Sequence[int] | None) -> None:
        _check_lengths(states, ids, "next_state")
        valid = set(ids if valid_id is None else valid_id)
        for index, state in zip(ids, states):
            if index in valid:
                self._state[index] = state

    def reset(self, *args: Any, state: Sequence[Any] | None = None, **kwargs: Any) -> None:
        """Set the states of ``data_id`` (of all if None) to ``state`` (to initial ones if None), and reset what is
        wrapped.

        Raises:
            AssertionError: ``state`` and ``data_id`` differ in length.
        """
        data_id = args[0] if args else kwargs.get("data_id")
        ids = list(self._state) if data_id is None else list(data_id)
        states = [self._init_fn() for _ in ids] if state is None else list(state)
        _check_lengths(states, ids, "state")
        self._state.update(zip(ids, states))
        if hasattr(self._model, "reset"):
            self._model.reset(*args, **kwargs)


def _check_lengths(states: Sequence[Any], ids: Sequence[int], name: str) -> None:
    if len(states) != len(ids):
        raise AssertionError(f"{name} has {len(states)} entries for {len(ids)} ids {list(ids)}")


def _saved(prev_state: list[Any], next_state: Sequence[Any] | None) -> list[Any]:
    """A copy of ``prev_state`` that is free of the graph, with zeros for states that were not there yet."""
    if next_state is None:
        return [state if state is None else get_tensor_data(state) for state in prev_state]
    zeros = zeros_like(next_state[0])
    return [get_tensor_data(zeros if state is None else state) for state in prev_state]
