"""``policy.learn.compile``: updates of a policy as compiled graphs.

* ``False``: never.
* ``True``: an update is recorded (:mod:`ding.torch_utils.graph.recording`) and compiled when the first batch comes,
  which takes seconds, and less in a later run, since the compiler keeps what it made on disk.
* ``'auto'``: the same in a thread, while learning goes on eagerly, once that has taken as long as compiling may take.
* ``'record'``: recorded and not compiled, to find out whether a policy can be.

A policy takes part whose ``_forward_learn`` leaves its updates to ``Policy._learn``, or to :meth:`CompiledUpdates.run`.
There is a graph for each form of a batch and each sequence of options. What cannot be recorded or compiled runs
eagerly, with one line that says why. The numbers are those of eager learning but for rounding.
"""

import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from ding.model import IModelWrapper
from ding.policy._learning.update import read_out
from ding.policy.errors import PolicyConfigError
from ding.torch_utils.graph.compiled_graphs import CompiledGraph, CompiledGraphs, form_of, leaves_of, with_leaves
from ding.torch_utils.graph.recordable_optimizer import RecordableOptimizer
from ding.torch_utils.graph.recording import Graph, record
from ding.utils.nested import is_ignored_key
from ding.utils.rows import is_bundle, num_rows

_MAX_UPDATES_PER_CALL = 10
# Updates with more products of a weight and a sample are no parts of one graph: calls cost little beside them, and each
# part takes its time to compile.
_MAX_JOINED_PRODUCTS = 1 << 23


class UpdatingPolicy(Protocol):
    """What :class:`CompiledUpdates` needs of a policy."""

    def _get_attribute(self, name: str) -> Any:
        """``cfg``, ``enable_field``, ``multi_gpu``, ``model``."""

    def _forward_learn(self, data: Any) -> object:
        """One call of learning."""

    def _may_join_updates(self) -> bool:
        """Whether an update changes nothing that the batch of the next one depends on."""

    def _update(self, batch: Mapping[str, Any], **options: Any) -> Mapping[str, torch.Tensor]:
        """One update; returns tensors by name."""


class CompiledUpdates:
    """The updates of a policy, compiled where ``policy.learn.compile`` says so.

    Args:
        policy: whose ``_update`` is run and recorded.

    Raises:
        PolicyConfigError: an unknown setting.
    """

    def __init__(self, policy: UpdatingPolicy) -> None:
        learn = policy._get_attribute("cfg").get("learn", {})
        setting = learn.get("compile", False) if "learn" in policy._get_attribute("enable_field") else False
        self._policy = policy
        self._asked = False
        self._num_weights = 0
        #: What was compiled.
        self.graphs = CompiledGraphs(
            "policy.learn.compile", setting, f"{type(policy).__name__} learns", PolicyConfigError
        )
        if setting and policy._get_attribute("multi_gpu"):
            self.graphs.give_up("gradients of several processes are averaged")
        elif setting and learn.get("amp"):
            self.graphs.give_up(f"learn.amp={learn['amp']!r}")

    @property
    def limit(self) -> int:
        """How many updates one call may hold: a schedule takes a step after each call, so that it wants one in each."""
        takes = "num_updates" in inspect.signature(self._policy._forward_learn).parameters
        scheduled = self._policy._get_attribute("cfg").learn.get("lr_scheduler") if self.graphs.enabled else None
        joins = self.graphs.enabled and takes and not scheduled and self._policy._may_join_updates()
        return _MAX_UPDATES_PER_CALL if joins else 1

    def run(
        self, batch: Mapping[str, Any], options: Sequence[Mapping[str, Any]], joins: bool = True
    ) -> list[dict[str, Any]]:
        """An update for each of ``options``, each on its share of the rows of ``batch``; returns numbers by name.

        Small updates are joined in one graph; of large ones, beside which a call costs little, each runs by itself, and
        so does each without ``joins``.
        """
        self._asked = True
        if self.graphs.enabled and _holds_objects(batch):
            self.graphs.give_up("a batch holds what is no tensor")
        if not self.graphs.enabled:
            return self._run_eager(batch, options)
        rows = (num_rows(batch) or 0) // len(options)
        small = joins and rows * self._count_weights() <= _MAX_JOINED_PRODUCTS
        together = joined_updates(len(options)) if small else 1
        parts = split_rows(batch, len(options) // together)
        form, found = form_of(parts[0]), dict[Any, CompiledGraph | None]()
        results = []
        for index, part in enumerate(parts):
            some = options[index * together : (index + 1) * together]
            key = (form, tuple(tuple(option.items()) for option in some))
            if key not in found:
                found[key] = self._find(key, part, some)
            compiled = found[key]
            results += self._run_eager(part, some) if compiled is None else _run_compiled(compiled, leaves_of(part))
            self.graphs.num_runs += compiled is not None
        return results

    def _count_weights(self) -> int:
        if not self._num_weights:
            self._num_weights = sum(weight.numel() for weight in self._policy._get_attribute("model").parameters())
        return self._num_weights

    def _find(self, key: Any, batch: Any, options: Sequence[Mapping[str, Any]]) -> CompiledGraph | None:
        if not self.graphs.enabled:
            return None
        leaves = leaves_of(batch)
        return self.graphs.find(key, lambda: self._record(batch, leaves, options), leaves)

    def _run_eager(self, batch: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        start = time.perf_counter()
        parts = zip(split_rows(batch, len(options)), options)
        results = [self._policy._update(part, **arguments) for part, arguments in parts]
        numbers = read_out({(index, name): value for index, one in enumerate(results) for name, value in one.items()})
        self.graphs.eager_s += time.perf_counter() - start
        return [{name: numbers[index, name] for name in one} for index, one in enumerate(results)]

    def watched(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """``forward``, which learns, with a look after its first call whether it leaves its updates to :meth:`run`."""

        @functools.wraps(forward)
        def learn(*args: Any, **kwargs: Any) -> object:
            result = forward(*args, **kwargs)
            if self.graphs.enabled and not self._asked:
                self.graphs.give_up("it has no _update that Policy._learn runs")
            return result

        return learn if self.graphs.enabled else forward

    def _record(
        self, batch: Mapping[str, Any], leaves: Sequence[torch.Tensor], options: Sequence[Mapping[str, Any]]
    ) -> Graph:
        parts = list(vars(self._policy).values())
        modules: list[Any] = [part for part in parts if isinstance(part, (nn.Module, IModelWrapper))]
        optimizers = [part for part in parts if isinstance(part, RecordableOptimizer)]

        def batches(tensors: Sequence[torch.Tensor]) -> list[Any]:
            return split_rows(with_leaves(batch, list(tensors)), len(options))

        return record(self._policy._update, modules, optimizers, leaves, batches, options)


def _run_compiled(compiled: CompiledGraph, leaves: Sequence[torch.Tensor]) -> list[dict[str, Any]]:
    """Run the updates of a graph; returns a dict of numbers for each."""
    values, start = compiled(leaves).tolist(), 0
    results: list[dict[str, Any]] = []
    for layout in compiled.graph.layout:
        result: dict[str, Any] = {}
        for name, shape in layout:
            stop = start + shape.numel()
            result[name] = values[start:stop] if shape else values[start]
            start = stop
        results.append(result)
    return results


def joined_updates(updates: int, limit: int = _MAX_UPDATES_PER_CALL) -> int:
    """How many of ``updates`` go into one call: as many as ``limit`` allows, in calls of equal size."""
    return max(count for count in range(1, max(1, min(updates, limit)) + 1) if updates % count == 0)


def split_rows(batch: Mapping[str, Any], count: int) -> list[Any]:
    """A batch of ``count * B`` rows, as its first column has them, as ``count`` batches of B. The rows of a tensor are
    its first axis of that length.
    """
    if count == 1:
        return [batch]
    rows = num_rows(batch) or 0
    size = rows // count
    return [_share(batch, rows, slice(index * size, (index + 1) * size)) for index in range(count)]


def _share(value: Any, rows: int, share: slice, key: str = "") -> object:
    if isinstance(value, torch.Tensor):
        return value.narrow(value.shape.index(rows), share.start, share.stop - share.start)
    if isinstance(value, Mapping):
        return {name: _share(part, rows, share, name) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        is_list_of_rows = len(value) == rows and not is_bundle(value, key)
        return value[share] if is_list_of_rows else type(value)([_share(part, rows, share) for part in value])
    return value


def _holds_objects(value: Any, key: str = "") -> bool:
    """Whether a batch has texts, or values that are not collated, which differ from batch to batch."""
    if isinstance(value, Mapping):
        return any(_holds_objects(part, name) for name, part in value.items())
    return isinstance(value, list) and bool(value) and (is_ignored_key(key) or isinstance(value[0], str))
