"""What an update does to networks, as one graph of tensor operations.

``record`` runs an update once with stand-ins in the place of all tensors that it may read or change, and keeps the
operations that torch carried out: loss, gradients, clipping, optimiser steps, moves of target networks, and in the same
way several updates one after the other. The update is the policy's ordinary one; nothing of it is written twice. Python
code of it runs while it is recorded, and never again, so that what differs from one update to the next must come in as

* a tensor of the batch,
* a number of :func:`host_numbers` (a learning rate, a share of a target network),
* a random number, which is drawn anew for each run, in the same order and from the same generator as without a graph,
* or a keyword argument of the update, for which there is a graph of its own.

An update that asks a tensor for its value (``item()``, ``if tensor``) cannot be recorded.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from ding.torch_utils.device import send
from ding.torch_utils.graph import products
from ding.torch_utils.graph.flat_parameters import Run, runs

_aten = torch.ops.aten
# Operations that draw without looking at a tensor, or at its shape alone; and those that fill a tensor.
_DRAWS: tuple[Any, ...] = (
    *(_aten.rand.default, _aten.randn.default, _aten.randint.default, _aten.randint.low, _aten.randperm.default),
    *(_aten.rand_like.default, _aten.randn_like.default),
)
_FILLS: tuple[Any, ...] = (
    *(_aten.normal_.default, _aten.uniform_.default, _aten.exponential_.default, _aten.bernoulli_.float),
    *(_aten.random_.default, _aten.random_.to, getattr(_aten.random_, "from")),
)
# Room for the numbers of the host in one update: three optimisers and a target network have ten, six groups of one
# optimiser 18.
_NUMBERS_PER_UPDATE = 32

Source = Callable[[], Sequence[float]]
"""Returns the numbers of the next update, and counts it."""

Update = Callable[..., Mapping[str, torch.Tensor]]
"""``update(batch, **options)`` changes networks and returns tensors by name."""


class NotRecordable(RuntimeError):
    """The update cannot become a graph; the message gives the reason."""


_Place = tuple[dict[str, Any], str, torch.Tensor]


class Recorded(Protocol):
    """An optimiser whose steps can be part of a graph."""

    param_groups: list[dict[str, Any]]

    def lay_out(self) -> Iterable[torch.Tensor]:
        """Put its tensors that a step changes side by side, and return them."""

    def is_laid_out(self) -> bool:
        """Return whether they still are."""


class Noise(NamedTuple):
    """A random tensor of a graph."""

    draw: Callable[[], torch.Tensor]
    example: torch.Tensor
    """Shape and dtype, as a tensor without values."""


class Graph(NamedTuple):
    """A recorded update, or several one after the other."""

    module: torch.fx.GraphModule
    """Takes ``[*state, *buffers, numbers, *noise, *leaves]``; changes state and buffers in place and returns all
    results, flat or in a list.
    """
    state: list[torch.Tensor]
    """Flat views of the parameters of networks and of what optimisers hold."""
    buffers: list[_Place]
    """Where networks hold their buffers: some of them are replaced now and then."""
    sources: list[Source]
    """Give the numbers, in the order in which the update asks for them."""
    noise: list[Noise]
    """Draw the random tensors, in the order in which the update does."""
    layout: list[list[tuple[str, torch.Size]]]
    """Names and shapes of the results of each update."""
    num_numbers: int
    places: list[_Place]
    runs: list[Run]
    optimizers: list[Recorded]

    def inputs(self, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the inputs of the next run for the tensors of a batch. Counts the updates and draws random numbers."""
        numbers = np.zeros(self.num_numbers, np.float32)
        values = [value for source in self.sources for value in source()]
        numbers[: len(values)] = values
        on_device = send(torch.from_numpy(numbers), self.state[0].device)
        return [*self.changed(), on_device, *(noise.draw() for noise in self.noise), *leaves]

    def examples(self, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return example inputs of a run for the tensors of a batch, without counting or drawing."""
        device = self.state[0].device
        noise = [torch.empty_like(each.example, device=device) for each in self.noise]
        return [*self.changed(), torch.zeros(self.num_numbers, device=device), *noise, *leaves]

    def changed(self) -> list[torch.Tensor]:
        """Return the tensors that a run changes: the current state and buffers."""
        return [*self.state, *(held[name] for held, name, _ in self.buffers)]

    def holds(self) -> bool:
        """Return whether networks and optimisers still hold their parameters and moments where the graph finds them."""
        return (
            all(held.get(name) is tensor for held, name, tensor in self.places)
            and all(run.members[0].data_ptr() == flat.data_ptr() for run, flat in zip(self.runs, self.state))
            and all(optimizer.is_laid_out() for optimizer in self.optimizers)
        )


class _Recording:
    """The stand-ins of a recording, and the numbers it requested."""

    def __init__(
        self,
        found: Sequence[Run],
        stand_ins: Sequence[torch.Tensor],
        buffers: Mapping[int, torch.Tensor],
        numbers: torch.Tensor,
    ) -> None:
        self._places = [(*_place(run.members[0]), run.numel) for run in found]
        self._stand_ins = stand_ins
        self._buffers = buffers
        self._numbers = numbers
        self._leaves: dict[int, torch.Tensor] = {}
        self.originals: dict[int, torch.Tensor] = {}
        self.sources: list[Source] = []
        self.num_numbers = 0

    def stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the view of a stand-in that corresponds to ``tensor``; for a parameter always the same leaf of
        autograd.
        """
        if id(tensor) in self._buffers:
            return self._buffers[id(tensor)]
        if not tensor.requires_grad:
            return self.view(tensor, tensor.shape)
        if id(tensor) not in self._leaves:
            # Not ``detach``, after which a step on one parameter would forbid the gradient of another one.
            self._leaves[id(tensor)] = self.view(tensor, tensor.shape).data.requires_grad_()
        return self._leaves[id(tensor)]

    def view(self, first: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """Return the part of a stand-in that corresponds to what begins where ``first`` does."""
        part, *others = self.parts(first, math.prod(shape))
        if others:
            raise NotRecordable(f"a tensor of shape {tuple(shape)} lies in several parts of the learn state")
        return part.view(shape)

    def parts(self, first: torch.Tensor, count: int) -> list[torch.Tensor]:
        """Return the parts of stand-ins, flat, that correspond to the ``count`` numbers from the first one of
        ``first`` on.
        """
        (place, start), parts = _place(first), list[torch.Tensor]()
        end = start + count
        for (storage, begin, size), flat in zip(self._places, self._stand_ins):
            if storage == place and begin <= start < begin + size and start < end and flat.dtype is first.dtype:
                stop = min(end, begin + size)
                # A slice of all would be one more copy in a graph of several updates.
                parts.append(flat if stop - start == size else flat[start - begin : stop - begin])
                start = stop
        if start < end:
            raise NotRecordable(f"a tensor of {count} numbers is changed that is no part of the learn state")
        return parts

    def numbers(self, source: Source, count: int) -> list[torch.Tensor]:
        first = self.num_numbers
        self.num_numbers += count
        if self.num_numbers > self._numbers.numel():
            raise NotRecordable(f"an update asks for more than {_NUMBERS_PER_UPDATE} numbers")
        self.sources.append(source)
        return [self._numbers[index] for index in range(first, self.num_numbers)]


current_recording: ContextVar[_Recording | None] = ContextVar("recording", default=None)
"""The recording of the update that runs now, whose tensors have no values then; ``None``: it runs as it is."""


def host_numbers(source: Source, count: int) -> Sequence[Any]:
    """Return the ``count`` numbers of ``source()``; while an update is recorded 0-d tensors, for which each run of the
    graph asks ``source`` anew.
    """
    recording = current_recording.get()
    return source() if recording is None else recording.numbers(source, count)


def stand_in(tensor: torch.Tensor | Run) -> torch.Tensor:
    """What stands for a tensor of a network or an optimiser, or flat for a run of them, while an update is recorded.

    Raises:
        NotRecordable: it is none of those that the recorded update may change.
    """
    recording = current_recording.get()
    assert recording is not None
    return recording.view(tensor.members[0], (tensor.numel,)) if isinstance(tensor, Run) else recording.stand_in(tensor)


def paired_stand_ins(run: Run, other: Run) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What stands for two runs of tensors of the same shapes, in flat parts as large as they come."""
    recording = current_recording.get()
    assert recording is not None
    own, others = (recording.parts(each.members[0], each.numel) for each in (run, other))
    if [part.numel() for part in own] != [part.numel() for part in others]:
        own, others = ([recording.view(one, (one.numel(),)) for one in each.members] for each in (run, other))
    return list(zip(own, others, strict=True))


def original(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor of a network that a stand-in stands for; any other tensor itself."""
    recording = current_recording.get()
    return tensor if recording is None else recording.originals.get(id(tensor), tensor)


def record(
    update: Update,
    modules: Iterable[nn.Module],
    optimizers: Iterable[Recorded],
    leaves: Sequence[torch.Tensor],
    batches: Callable[[Sequence[torch.Tensor]], Sequence[Mapping[str, Any]]],
    options: Sequence[Mapping[str, Any]],
    flat: bool = True,
) -> Graph:
    """Record ``update``, once for each of ``options``. The networks and torch's generator are left as they are.

    Args:
        modules, optimizers: what the update may read or change.
        leaves: the tensors of an example.
        batches: makes one batch for each of ``options`` of such tensors.
        flat: whether all results come in one tensor ``[n]``; else each as it is, in a list.

    Raises:
        NotRecordable: the update does something that a graph cannot hold.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    (places, buffers), optimizers = _places(modules), list(optimizers)
    moments = [moment for optimizer in optimizers for moment in optimizer.lay_out()]
    found = _cut(_runs([*(tensor for *_, tensor in places), *moments]), optimizers)
    unique = {id(place[2]): place for place in buffers}
    recording: _Recording
    layout: list[list[tuple[str, torch.Size]]] = []

    def run(*inputs: torch.Tensor) -> torch.Tensor | list[torch.Tensor]:
        nonlocal recording
        count = len(found) + len(unique)
        standing = dict(zip(unique, inputs[len(found) : count]))
        recording = _Recording(found, inputs[: len(found)], standing, inputs[count])
        results: list[torch.Tensor] = []
        with _standing_in(recording, places, buffers), torch.enable_grad():
            for batch, arguments in zip(batches(inputs[count + 1 :]), options, strict=True):
                output = update(batch, **arguments)
                layout.append([(name, value.shape) for name, value in output.items()])
                results += [value.detach() for value in output.values()]
        return torch.cat([value.reshape(-1).float() for value in results]) if flat else results

    examples = [*(run.flat.clone() for run in found), *(tensor.clone() for *_, tensor in unique.values())]
    numbers = torch.full((_NUMBERS_PER_UPDATE * len(options),), 0.5, device=leaves[0].device)
    # Draws of the recording do not use the run's random numbers.
    gpus = [leaf.device.index for leaf in leaves[:1] if leaf.is_cuda]
    try:
        with torch.random.fork_rng(devices=gpus), torch.no_grad(), _one_fake_mode():
            module = make_fx(run, _PRODUCTS)(*examples, numbers, *leaves)
    except NotRecordable:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines() or [""]
        raise NotRecordable(f"{type(error).__name__}: {reason[0][:200]}") from error
    _refuse_constants(module, found)
    noise = _lift_noise(module, len(examples) + 1)
    state = [run.flat for run in found]
    return Graph(
        module, state, [*unique.values()], recording.sources, noise, layout, numbers.numel(), places, found, optimizers
    )  # fmt: skip


def _one_fake_mode() -> AbstractContextManager[Any]:
    """Share the mode that describes results: each operation would make its own, which takes most of the time."""
    from torch._guards import TracingContext, tracing
    from torch._subclasses import FakeTensorMode

    return tracing(TracingContext(FakeTensorMode(allow_fallback_kernels=True)))


def _addmm(
    bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """Return a layer as two operations: the compiler joins the sum with what follows, while ``addmm`` copies the
    bias.
    """
    product = left.mm(right)
    return product + bias if alpha == beta == 1 else alpha * product + beta * bias


def _baddbmm(
    bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """Return a batch of layers, as :func:`_addmm`."""
    product = left.bmm(right)
    return product + bias if alpha == beta == 1 else alpha * product + beta * bias


def _mm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return a product with a row, a column or a single inner entry without a call of BLAS: the compiler joins it with
    what is before and behind it. It is a tenth of the time of an update of SAC at batch 256 less. Others go the way
    that is fast on this processor.
    """
    if left.shape[1] == 1:
        return left * right
    if right.shape[1] == 1:
        return (left * right.t()).sum(1, keepdim=True)
    if left.shape[0] == 1:
        return (left.t() * right).sum(0, keepdim=True)
    if products.is_better_transposed(left, right):
        return right.t().mm(left.t()).t()
    if products.is_better_by_onednn(left, right):
        return products.onednn_product(left, right)
    as_it_is: torch.Tensor = NotImplemented
    return as_it_is


def _bmm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return a batch of products with a row, a column or a single inner entry, as :func:`_mm`."""
    if left.shape[2] == 1:
        return left * right
    if right.shape[2] == 1:
        return (left * right.transpose(1, 2)).sum(2, keepdim=True)
    if left.shape[1] == 1:
        return (left.transpose(1, 2) * right).sum(1, keepdim=True)
    as_it_is: torch.Tensor = NotImplemented
    return as_it_is


_PRODUCTS: Mapping[Any, Callable[..., Any]] = {
    _aten.addmm.default: _addmm,
    _aten.baddbmm.default: _baddbmm,
    _aten.mm.default: _mm,
    _aten.bmm.default: _bmm,
}


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    return _storage(tensor), int(tensor.storage_offset())


def _places(modules: Iterable[nn.Module]) -> tuple[list[_Place], list[_Place]]:
    """Where modules hold their parameters, and where their buffers."""
    every = {id(module): module for root in modules for module in root.modules()}.values()
    parameters, buffers = (
        [(held, name, tensor) for held in dicts for name, tensor in held.items() if tensor is not None]
        for dicts in ([module._parameters for module in every], [module._buffers for module in every])
    )
    return [place for place in parameters if place[2].numel()], [place for place in buffers if place[2].numel()]


def _runs(tensors: Iterable[torch.Tensor]) -> list[Run]:
    try:
        return runs({id(tensor): tensor for tensor in tensors}.values())
    except ValueError as error:
        raise NotRecordable(str(error)) from error


def _cut(found: Iterable[Run], optimizers: Iterable[Recorded]) -> list[Run]:
    """Cut runs where the parameters of another optimiser or group begin. A step then changes all of an input of the
    graph: of what is changed in part the compiler makes a copy, 3 % of an update of SAC at batch 256. A run of the same
    shapes, as that of a target network, is cut in the same places. Nothing is cut where optimisers share parameters.
    """
    owned = [
        (id(param), (number, place))
        for number, optimizer in enumerate(optimizers)
        for place, group in enumerate(optimizer.param_groups)
        for param in group["params"]
    ]
    owners, runs_found = dict(owned), list(found)
    if len(owners) < len(owned):
        return runs_found
    cuts: dict[Any, list[int]] = {}
    for run in runs_found:
        labels = [owners.get(id(member)) for member in run.members]
        places = [index for index in range(1, len(labels)) if labels[index] != labels[index - 1]]
        if places:
            cuts[_shapes(run)] = places
    return [
        Run(run.members[start:stop])
        for run in runs_found
        for start, stop in pairwise([0, *cuts.get(_shapes(run), []), len(run.members)])
    ]


def _shapes(run: Run) -> tuple[torch.Size, ...]:
    return tuple(member.shape for member in run.members)


@contextmanager
def _standing_in(recording: _Recording, parameters: Sequence[_Place], buffers: Sequence[_Place]) -> Iterator[None]:
    token = current_recording.set(recording)
    places = [*parameters, *buffers]
    try:
        for held, name, tensor in places:
            held[name] = standing = recording.stand_in(tensor)
            recording.originals[id(standing)] = tensor
        yield
        for held, name, tensor in buffers:
            standing = recording.stand_in(tensor)
            if held[name] is not standing:
                standing.copy_(held[name])
    finally:
        for held, name, tensor in places:
            held[name] = tensor
        current_recording.reset(token)


def _refuse_constants(module: torch.fx.GraphModule, found: Sequence[Run]) -> None:
    """A network that keeps a parameter in a place of its own would be recorded with the values that it has now."""
    known = {_storage(run.members[0]) for run in found}
    for node in module.graph.find_nodes(op="get_attr"):
        constant = operator.attrgetter(str(node.target))(module)
        if isinstance(constant, torch.Tensor) and _storage(constant) in known:
            raise NotRecordable("a network keeps its parameters in places where stand-ins do not reach them")


def _lift_noise(module: torch.fx.GraphModule, position: int) -> list[Noise]:
    """Make inputs of the random numbers in a graph, from ``position`` on; returns what draws them."""
    graph = module.graph
    drawn: list[Noise] = []
    before = [node for node in graph.nodes if node.op == "placeholder"][position:]
    first = before[0] if before else next(node for node in graph.nodes if node.op != "placeholder")
    for node in list(graph.nodes):
        if node.target not in _DRAWS and node.target not in _FILLS:
            continue
        with graph.inserting_before(first):
            noise = graph.placeholder(f"noise_{len(drawn)}")
        value = node.meta["val"]
        drawn.append(Noise(_drawing(node), torch.empty(tuple(value.shape), dtype=value.dtype, device="meta")))
        if node.target in _FILLS:
            with graph.inserting_before(node):
                noise = graph.call_function(_aten.copy_.default, (node.args[0], noise))
        node.replace_all_uses_with(noise)
        graph.erase_node(node)
    for node in graph.nodes:
        node.meta.pop("val", None)
    module.recompile()
    return drawn


def _drawing(node: torch.fx.Node) -> Callable[[], torch.Tensor]:
    target: Any = node.target
    example = node.meta["val"]
    shape, kind = tuple(example.shape), {"dtype": example.dtype, "device": example.device}
    if target in _FILLS:
        return lambda: target(torch.empty(shape, **kind), *node.args[1:], **node.kwargs)
    if node.args and isinstance(node.args[0], torch.fx.Node):
        like = _aten.rand.default if target is _aten.rand_like.default else _aten.randn.default
        return lambda: like(shape, **kind)
    return lambda: target(*node.args, **node.kwargs)
