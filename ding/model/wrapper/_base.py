"""Wrappers of models: the interface, and those that leave the output as it is but for states that they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from ding.model.common.state_rows import StateRows
from ding.torch_utils.data_helper import get_tensor_data, zeros_like
from ding.torch_utils.graph.flat_parameters import flatten_parameters, paired_runs
from ding.torch_utils.graph.recording import NotRecordable, current_recording, host_numbers, original, paired_stand_ins
from ding.torch_utils.network.array_function import as_array_function
from ding.utils.nested import map_nested

_OPTIONS = {"assign": "freq", "momentum": "theta"}


class IModelWrapper:
    """Base of wrappers: adds something to ``forward`` and is the wrapped model in everything else.

    Attributes that the wrapper lacks are those of what it wraps, so ``state_dict``, ``train``, ``parameters`` and so
    on reach the module through any number of wrappers.
    """

    #: State kept between calls in addition to the arguments, such as per environment.
    kept: Any = None
    #: Whether ``forward`` of this very class takes observations that are a float32 array, and then outputs of the
    #: model that are arrays. Not inherited: the ``forward`` of a subclass may know tensors only.
    takes_arrays: ClassVar[bool] = False

    def __init__(self, model: nn.Module | IModelWrapper) -> None:
        self._model: Any = model

    def __getattr__(self, key: str) -> Any:
        # Copying asks for attributes before ``_model`` is there.
        if key == "_model" or (key.startswith("__") and key.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}")
        return getattr(self._model, key)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the wrapped model: a module with its hooks; but where the observations are an array perhaps by numpy,
        which gives arrays, see :func:`~ding.torch_utils.network.as_array_function`.
        """
        model = self._model
        if not isinstance(model, nn.Module):
            return model.forward(*args, **kwargs)
        return (as_array_function(model) if args and type(args[0]) is np.ndarray else model)(*args, **kwargs)

    def _tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the wrapped model, whose output must be a dict; return it with tensors in place of arrays."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        return map_nested(as_tensor, output) if args and type(args[0]) is np.ndarray else output

    def acts_on_arrays(self) -> bool:
        """Return whether this wrapper and all inside have :attr:`takes_arrays`."""
        wrapper: object = self
        while isinstance(wrapper, IModelWrapper):
            if not vars(type(wrapper)).get("takes_arrays"):
                return False
            wrapper = wrapper._model
        return isinstance(wrapper, nn.Module)

    def reset(self, data_id: list[int] | None = None, **kwargs: Any) -> None:
        """Forget the state of the rows ``data_id`` (of all if None), in every wrapper that has some."""
        if hasattr(self._model, "reset"):
            self._model.reset(data_id=data_id, **kwargs)

    def chain(self) -> Iterator[IModelWrapper]:
        """This wrapper and those inside, from the outermost one on."""
        yield self
        if isinstance(self._model, IModelWrapper):
            yield from self._model.chain()

    def info(self, attr_name: str) -> str:
        """Return the class names from this wrapper down to the object that has ``attr_name``, separated by blanks.

        Raises:
            AttributeError: nothing in the chain has it.
        """
        names = [type(self).__name__]
        item = self
        while attr_name not in dir(type(item)) and attr_name not in vars(item):
            if not isinstance(item, IModelWrapper):
                getattr(item, attr_name)  # a parameter or submodule, or the AttributeError that names it
                break
            item = item._model
            names.append(type(item).__name__)
        return " ".join(names)


class BaseModelWrapper(IModelWrapper):
    """The wrapper that every bare model gets first: changes nothing."""

    takes_arrays = True


class TeacherNetworkWrapper(IModelWrapper):
    """Reserved name ``teacher``; cannot be built."""

    def __init__(self, model: nn.Module | IModelWrapper, teacher_cfg: object) -> None:
        raise NotImplementedError("the model wrapper 'teacher' is not implemented")


def as_tensor(value: object) -> object:
    """Return an array as a tensor that shares its memory; anything else as it is."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def output_dict(output: object, wrapper: IModelWrapper) -> dict[str, Any]:
    """``output`` of the model, checked to be a dict.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(output, dict):
        return output
    if isinstance(output, Mapping):
        return dict(output)
    raise TypeError(f"{type(wrapper).__name__} needs a model whose output is a dict, got {type(output).__name__}")


class TargetNetworkWrapper(IModelWrapper):
    """``target``: a network that follows another one.

    ``assign`` copies the weights at every ``freq``-th call of ``update``; ``momentum`` moves each parameter by the
    share ``theta`` at every call and copies the buffers (statistics of normalisation, noise).

    Arguments:
        update_type: ``assign`` or ``momentum``.
        update_kwargs: ``{'freq': n}``, n positive, or ``{'theta': t}``, t in ``[0, 1]``.

    Raises:
        ValueError: another type, or its option is missing or out of range.
    """

    def __init__(self, model: nn.Module | IModelWrapper, update_type: str, update_kwargs: Mapping[str, float]) -> None:
        super().__init__(model)
        if update_type not in _OPTIONS:
            raise ValueError(f"update_type must be one of {sorted(_OPTIONS)}, got {update_type!r}")
        option = _OPTIONS[update_type]
        if option not in update_kwargs:
            raise ValueError(f"update_kwargs of {update_type!r} needs {option!r}, got {dict(update_kwargs)}")
        value = update_kwargs[option]
        if update_type == "assign" and value < 1:
            raise ValueError(f"update_kwargs['freq'] must be positive, got {value}")
        if update_type == "momentum" and not 0 <= value <= 1:
            raise ValueError(f"update_kwargs['theta'] must be in [0, 1], got {value}")
        self._freq = value if update_type == "assign" else None
        self._theta = value
        flatten_parameters(_tensors(model)[0].values())
        self._average = None if update_type == "assign" else get_ema_multi_avg_fn(1 - value)
        self._update_count = 0

    def reset(self, *args: Any, target_update_count: int | None = None, **kwargs: Any) -> None:
        """Set the counter of ``assign``, if given, and reset what is wrapped."""
        if target_update_count is not None:
            self._update_count = target_update_count
        if hasattr(self._model, "reset"):
            self._model.reset(*args, **kwargs)

    def update(self, state_dict: Mapping[str, torch.Tensor] | nn.Module | IModelWrapper, direct: bool = False) -> None:
        """Follow another network.

        Arguments:
            state_dict: the state of the network; or the network itself, whose state is read when it is needed.
            direct: copy it now and start counting anew.

        Raises:
            RuntimeError: the names or shapes are not those of this network.
        """
        if current_recording.get() is not None:
            self._record_update(state_dict)
            return
        self._update_count = 0 if direct else self._update_count + 1
        if self._freq is not None and not direct and self._update_count % self._freq:
            return
        if self._average is None or direct or not self._blend(state_dict, self._average):
            # If names or shapes differ, this raises an error that names them.
            state = state_dict if isinstance(state_dict, Mapping) else state_dict.state_dict()
            self._model.load_state_dict(state, strict=True)

    def _next_share(self) -> tuple[float]:
        """Count an update; returns the share by which it moves."""
        self._update_count += 1
        return (self._theta if self._freq is None else float(self._update_count % self._freq == 0),)

    @torch.no_grad()
    def _record_update(self, source: object) -> None:
        """An update as tensor operations: a copy is a move by a share of 1, none one by a share of 0."""
        if not isinstance(source, (nn.Module, IModelWrapper)):
            raise NotRecordable("a target network follows a state dict; give its update the network")
        (share,) = host_numbers(self._next_share, 1)
        own, other = _tensors(self._model), _tensors(source)
        if [held.keys() for held in own] != [held.keys() for held in other]:
            raise NotRecordable("a target network has other parameters than the network that it follows")
        parameters = [[original(tensor) for tensor in held[0].values()] for held in (own, other)]
        for run, followed in paired_runs(*parameters):
            for part, other_part in paired_stand_ins(run, followed):
                part.lerp_(other_part, share)
        for name, buffer in own[1].items():
            buffer.copy_(torch.where(share > 0, other[1][name], buffer))

    @torch.no_grad()
    def _blend(
        self, source: Mapping[str, torch.Tensor] | nn.Module | IModelWrapper, average: Callable[..., None]
    ) -> bool:
        """Move the parameters to those of ``source`` and copy its buffers; returns False if it does not fit."""
        parameters, buffers = _tensors(self._model)
        own: Mapping[str, torch.Tensor]
        # Of a network its tensors: a whole state, which names shared ones twice, takes three times as long.
        if isinstance(source, Mapping):
            own, other = self._model.state_dict(), source
        else:
            others = _tensors(source)
            own, other = parameters | buffers, others[0] | others[1]
        if own.keys() != other.keys() or any(value.shape != other[name].shape for name, value in own.items()):
            return False
        average(
            list(parameters.values()), [other[name].to(own[name].device) for name in parameters], self._update_count
        )
        for name, buffer in buffers.items():
            if name in other:
                buffer.copy_(other[name])
        return True


def _tensors(network: nn.Module | IModelWrapper) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the parameters and the buffers of a network by name, each once, in one walk through it."""
    parameters: dict[str, Any] = {}
    buffers: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    while isinstance(network, IModelWrapper):
        network = network._model
    for prefix, module in network.named_modules():
        for found, held in ((parameters, module._parameters), (buffers, module._buffers)):
            for name, tensor in held.items():
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    found[f"{prefix}.{name}" if prefix else name] = tensor
    return parameters, buffers


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
        self.kept = {index: init_fn() for index in range(state_num)}
        # What the model returned last, as it came and row by row: given back as it came where all rows are those.
        self._last: tuple[Sequence[Any], list[Any]] = ([], [])

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
        ids = list(self.kept) if data_id is None else list(data_id)
        unknown = [index for index in ids if index not in self.kept]
        if unknown:
            raise KeyError(f"no hidden state for data_id {unknown}, ids are 0 to {self._state_num - 1}")
        last, rows = self._last
        prev_state: Sequence[Any] = [self.kept[index] for index in ids]
        if len(prev_state) == len(rows) and all(map(is_, prev_state, rows)):
            prev_state = last
        output = output_dict(self._model.forward({**data, "prev_state": prev_state}, *args, **kwargs), self)
        next_state = output.pop("next_state", None)
        if next_state is not None:
            self._keep(ids, next_state, valid_id)
        if self._save_prev_state:
            output["prev_state"] = _saved(prev_state, next_state)
        return output

    def _keep(self, ids: list[int], states: Sequence[Any], valid_id: Sequence[int] | None) -> None:
        _check_lengths(states, ids, "next_state")
        self._last = (states, list(states))
        valid = set(ids if valid_id is None else valid_id)
        for index, state in zip(ids, self._last[1]):
            if index in valid:
                self.kept[index] = state

    def reset(self, *args: Any, state: Sequence[Any] | None = None, **kwargs: Any) -> None:
        """Set the states of ``data_id`` (of all if None) to ``state`` (to initial ones if None), and reset what is
        wrapped.

        Raises:
            AssertionError: ``state`` and ``data_id`` differ in length.
        """
        data_id = args[0] if args else kwargs.get("data_id")
        ids = list(self.kept) if data_id is None else list(data_id)
        states = [self._init_fn() for _ in ids] if state is None else list(state)
        _check_lengths(states, ids, "state")
        self.kept.update(zip(ids, states))
        if hasattr(self._model, "reset"):
            self._model.reset(*args, **kwargs)


def _check_lengths(states: Sequence[Any], ids: Sequence[int], name: str) -> None:
    if len(states) != len(ids):
        raise AssertionError(f"{name} has {len(states)} entries for {len(ids)} ids {list(ids)}")


def _saved(prev_state: Sequence[Any], next_state: Sequence[Any] | None) -> Sequence[Any]:
    """Return a copy of ``prev_state`` that is free of the graph, with zeros for states that were not there yet."""
    like = next_state[0] if next_state else None
    states = StateRows.of(prev_state) or StateRows.joined(prev_state, like)
    if states is not None:
        return StateRows(get_tensor_data(states.columns), states.depth)
    if next_state is None:
        return [state if state is None else get_tensor_data(state) for state in prev_state]
    zeros = zeros_like(next_state[0])
    return [get_tensor_data(zeros if state is None else state) for state in prev_state]
