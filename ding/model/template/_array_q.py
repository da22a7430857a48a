"""The forward pass of small Q networks over arrays; see :mod:`ding.torch_utils.network.array_layers` for the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ding.model.common._head_discrete import DiscreteHead, DuelingHead, dueling_q
from ding.model.common.encoder import FCEncoder
from ding.torch_utils.network.array_layers import ArrayLinear, Watch, max_rows, plan_layers, run_arrays, run_tensors
from ding.torch_utils.network.run_layers import has_global_hooks, has_hooks

# A model without a plan is looked at again after so many calls: hooks may have gone.
_CALLS_BETWEEN_TRIES = 1000


class ArrayQ:
    """An ``FCEncoder`` with a ``DiscreteHead`` or ``DuelingHead``, made of plain linear layers and activations."""

    def __init__(self, model: nn.Module, encoder: list[ArrayLinear], streams: list[list[ArrayLinear]], watch: Watch):
        self._encoder = encoder
        self._streams = streams
        self._watch = watch
        self._num_attributes = len(model.__dict__)
        self._max_rows = max_rows([*encoder, *(step for stream in streams for step in stream)])
        self._num_features = encoder[0].matrix.shape[0]
        actions = streams[0][-1].matrix.shape[1]
        # Taking the mean of the advantages off as one product: numpy's mean costs four times as much.
        self._centre = np.eye(actions, dtype=np.float32) - np.float32(1 / actions)

    def fits(self, model: nn.Module) -> bool:
        """Whether ``model`` still is what the plan was made from."""
        return len(model.__dict__) == self._num_attributes and self._watch.unchanged()

    def takes(self, obs: np.ndarray) -> bool:
        """Whether ``obs`` is float32 ``[N, features]``."""
        return obs.ndim == 2 and obs.dtype == np.float32 and obs.shape[1] == self._num_features

    def logit(self, obs: np.ndarray) -> np.ndarray:
        """float32 ``[N, features]`` to Q values ``[N, actions]``."""
        if len(obs) > self._max_rows:
            return self._logit_by_torch(obs)
        features = run_arrays(self._encoder, obs)
        q = run_arrays(self._streams[0], features)
        if len(self._streams) == 1:
            return q
        q = np.dot(q, self._centre)
        q += run_arrays(self._streams[1], features)
        return q

    def _logit_by_torch(self, obs: np.ndarray) -> np.ndarray:
        # torch warns about read-only memory, which an env manager may hand out.
        x = torch.from_numpy(obs if obs.flags.writeable else obs.copy())
        features = run_tensors(self._encoder, x)
        q = run_tensors(self._streams[0], features)
        if len(self._streams) == 2:
            q = dueling_q(q, run_tensors(self._streams[1], features))
        return q.numpy()


def _plan(model: nn.Module) -> ArrayQ | None:
    modules = model.__dict__["_modules"]
    encoder, head = modules.get("encoder"), modules.get("head")
    if type(encoder) is not FCEncoder or type(head) not in (DiscreteHead, DuelingHead):
        return None
    if set(encoder._modules) != {"init", "act", "main"} or any(map(has_hooks, (model, encoder, head))):
        return None
    watch = Watch()
    watch.add(model, root=True)
    watch.add(encoder)
    watch.add(head)
    layers = plan_layers([encoder.init, encoder.act, encoder.main], watch)
    names = ("Q",) if type(head) is DiscreteHead else ("A", "V")
    streams = [plan_layers([getattr(head, name)], watch) for name in names]
    if layers is None or None in streams:
        return None
    return ArrayQ(model, layers, streams, watch)  # type: ignore[arg-type]


class PlanSlot:
    """Where a model keeps its :class:`ArrayQ`. A copy of it, pickled or not, is empty: a plan belongs to one model."""

    __slots__ = ("_calls_to_skip", "_plan")

    def __init__(self) -> None:
        self._plan: ArrayQ | None = None
        self._calls_to_skip = 0

    def __deepcopy__(self, memo: Any) -> PlanSlot:
        return PlanSlot()

    def __reduce__(self) -> tuple[type[PlanSlot], tuple]:
        return PlanSlot, ()

    def plan(self, model: nn.Module) -> ArrayQ | None:
        """The plan for ``model`` as it is now; ``None`` when there can be none."""
        if has_global_hooks():
            return None
        plan = self._plan
        if plan is not None and plan.fits(model):
            return plan
        if plan is None and self._calls_to_skip:
            self._calls_to_skip -= 1
            return None
        self._plan = plan = _plan(model)
        self._calls_to_skip = _CALLS_BETWEEN_TRIES
        return plan
