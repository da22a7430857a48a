"""``policy.learn.compile``: updates of a policy as compiled graphs.

* ``False``: never.
* ``True``: an update is recorded (:mod:`ding.torch_utils.graph.recording`) and compiled when the first batch comes,
  which takes seconds, and less in a later run, since the compiler keeps what it made on disk.
* ``'auto'``: the same in a thread, while learning goes on eagerly, once that has taken as long as compiling may take.
* ``'record'``: recorded and not compiled, to find out whether a policy can be.

A policy takes part whose ``_forward_learn`` leaves its updates to ``Policy._run_updates``. There is a graph for each
form of a batch and each sequence of options. What cannot be recorded or compiled runs eagerly, with one line that says
why. The numbers are those of eager learning but for rounding.
"""

import copy
import functools
import inspect
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from ding.model import IModelWrapper
from ding.policy.common_utils import read_out
from ding.policy.errors import PolicyConfigError
from ding.torch_utils.graph.capture import CapturedFunction, captures_on
from ding.torch_utils.graph.recording import Graph, NotRecordable, record
from ding.torch_utils.optimizer_helper import RecordableOptimizer, without_denormals

log = logging.getLogger(__name__)

_SETTINGS = (False, True, "auto", "record")
# A run that has learned for so long will probably learn for as long again, and compiling takes about so long.
_AUTO_AFTER_S = 20.0
# A policy whose batches change their form all the time is not worth compiling.
_MAX_GRAPHS = 8
_MAX_UPDATES_PER_CALL = 10
# Updates with more products of a weight and a sample are no parts of one graph: calls cost little beside them, and each
# part takes its time to compile.
_MAX_JOINED_PRODUCTS = 1 << 23
# Held by the thread that compiles in the background.
_BACKGROUND = threading.Lock()
_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_CACHE_HOME = Path("~/.cache/ding/compiled")
# What the loader says of a library that it cannot read.
_LIBRARY = re.compile(r"(/\S+\.so): ")

Run = Callable[..., torch.Tensor]


class UpdatingPolicy(Protocol):
    """What :class:`CompiledUpdates` needs of a policy."""

    def _get_attribute(self, name: str) -> Any:
        """``cfg``, ``enable_field``, ``multi_gpu``, ``model``."""

    def _forward_learn(self, data: Any) -> Any:
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
        if setting not in _SETTINGS:
            raise PolicyConfigError(f"policy.learn.compile must be one of {_SETTINGS}, found {setting!r}")
        self._policy, self._setting = policy, setting
        self._graphs: dict[Any, _Compiled] = {}
        self._eager_s = 0.0
        self._asked = False
        self._num_weights = 0
        #: How many graphs were made, and how often one of them ran.
        self.num_compiled = self.num_runs = 0
        #: Whether updates may still become graphs.
        self.enabled = bool(setting)
        if setting:
            # Before anything imports the compiler, which then chooses a folder below /tmp.
            os.environ.setdefault(_CACHE_VARIABLE, str(_CACHE_HOME.expanduser()))
        if setting and policy._get_attribute("multi_gpu"):
            self._give_up("gradients of several processes are averaged")
        elif setting and learn.get("amp"):
            self._give_up(f"learn.amp={learn['amp']!r}")

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a policy makes its own graphs."""
        return {**vars(self), "_graphs": {}}

    @property
    def limit(self) -> int:
        """How many updates one call may hold: a schedule takes a step after each call, so that it wants one in each."""
        takes = "num_updates" in inspect.signature(self._policy._forward_learn).parameters
        scheduled = self._policy._get_attribute("cfg").learn.get("lr_scheduler") if self.enabled else None
        joins = self.enabled and takes and not scheduled and self._policy._may_join_updates()
        return _MAX_UPDATES_PER_CALL if joins else 1

    def run(self, batch: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """An update for each of ``options``, each on its share of the rows of ``batch``; returns numbers by name."""
        self._asked = True
        if not self.enabled:
            return self._run_eager(batch, options)
        rows = _leaves(batch)[0].shape[0] // len(options)
        together = len(options) if rows * self._count_weights() <= _MAX_JOINED_PRODUCTS else 1
        parts = split_rows(batch, len(options) // together)
        form, found = _form(parts[0]), dict[Any, _Compiled | None]()
        results = []
        for index, part in enumerate(parts):
            some = options[index * together : (index + 1) * together]
            key = (form, tuple(tuple(option.items()) for option in some))
            if key not in found:
                found[key] = self._find(key, part, some) if self.enabled else None
            compiled = found[key]
            self.num_runs += compiled is not None
            results += self._run_eager(part, some) if compiled is None else compiled(_leaves(part))
        return results

    def _run_eager(self, batch: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        start = time.perf_counter()
        parts = zip(split_rows(batch, len(options)), options)
        results = [self._policy._update(part, **arguments) for part, arguments in parts]
        numbers = read_out({(index, name): value for index, one in enumerate(results) for name, value in one.items()})
        self._eager_s += time.perf_counter() - start
        return [{name: numbers[index, name] for name in one} for index, one in enumerate(results)]

    def watched(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """``forward``, which learns, with a look after its first call whether it leaves its updates to :meth:`run`."""

        @functools.wraps(forward)
        def learn(*args: Any, **kwargs: Any) -> Any:
            result = forward(*args, **kwargs)
            if self.enabled and not self._asked:
                self._give_up("it has no _update that Policy._run_updates runs")
            return result

        return learn if self.enabled else forward

    def _count_weights(self) -> int:
        if not self._num_weights:
            self._num_weights = sum(weight.numel() for weight in self._policy._get_attribute("model").parameters())
        return self._num_weights

    def _find(
        self, key: Any, batch: Mapping[str, Any], options: Sequence[Mapping[str, Any]]
    ) -> "_Compiled | None":
        """The graph for such batches if it is ready; else it is made, or begun to be made."""
        compiled = self._graphs.get(key)
        if compiled is not None and not compiled.graph.holds():
            compiled = None
        if compiled is None:
            if self._setting == "auto" and self._eager_s < _AUTO_AFTER_S:
                return None
            compiled = self._start(key, batch, options)
        if compiled is None or not compiled.done.is_set():
            return None
        compiled.prepare(_leaves(batch))
        if compiled.failure is not None:
            self._give_up(compiled.failure)
            return None
        return compiled

    def _start(self, key: Any, batch: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> "_Compiled | None":
        if key not in self._graphs and len(self._graphs) >= _MAX_GRAPHS:
            self._give_up(f"its batches had more than {_MAX_GRAPHS} forms")
            return None
        try:
            compiled = _Compiled(self._record(batch, options), _leaves(batch), len(options))
        except NotRecordable as reason:
            self._give_up(str(reason))
            return None
        self._graphs[key] = compiled
        self.num_compiled += 1
        if self._setting == "auto":
            threading.Thread(target=_in_background, args=(compiled.compile,), name="compile", daemon=True).start()
        elif self._setting == "record":
            compiled.done.set()
        else:
            compiled.compile()
        return compiled

    def _record(self, batch: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> Graph:
        parts = list(vars(self._policy).values())
        modules: list[Any] = [part for part in parts if isinstance(part, (nn.Module, IModelWrapper))]
        optimizers = [part for part in parts if isinstance(part, RecordableOptimizer)]
        leaves, count = _leaves(batch), len(options)

        def batches(tensors: Sequence[torch.Tensor]) -> list[Any]:
            return split_rows(_rebuilt(batch, list(tensors)), count)

        return record(self._policy._update, modules, optimizers, leaves, batches, options)

    def _give_up(self, reason: str) -> None:
        self.enabled = False
        self._graphs.clear()
        log.warning("policy.learn.compile: %s learns eagerly: %s", type(self._policy).__name__, reason)


class _Compiled:
    """A graph, and what runs it."""

    def __init__(self, graph: Graph, leaves: list[torch.Tensor], num_updates: int) -> None:
        self.graph = graph
        self._leaves = leaves
        self._num_updates = num_updates
        self._run: Run = graph.module
        self._prepared = False
        self.done = threading.Event()
        self.failure: str | None = None

    def compile(self) -> None:
        """Compile the graph; sets ``done``, and ``failure`` if that failed."""
        start = time.perf_counter()
        try:
            with torch.no_grad():
                self._run = _compiled(self.graph, self._leaves)
        except Exception as error:  # noqa: BLE001 - whatever a compiler raises: it is reported, and learning goes on
            self.failure = _reason(error)
        else:
            log.info(
                "an update is compiled (%d in a call, %.1f s, cached in %s)",
                self._num_updates, time.perf_counter() - start, os.environ[_CACHE_VARIABLE],
            )  # fmt: skip
        self._leaves = []
        self.done.set()

    def prepare(self, leaves: Sequence[torch.Tensor]) -> None:
        """Before the first run, in the thread that learns: capture what runs on a GPU; may set ``failure``."""
        if not self._prepared and isinstance(self._run, CapturedFunction):
            try:
                with torch.no_grad():
                    self._run.capture(self.graph.examples(leaves))
            except Exception as error:  # noqa: BLE001 - as of the compiler
                self.failure = _reason(error)
        self._prepared = True

    def __call__(self, leaves: Sequence[torch.Tensor]) -> list[dict[str, Any]]:
        """Run the updates; returns a dict of numbers for each."""
        with torch.no_grad(), without_denormals():
            output = self._run(*self.graph.inputs(leaves))
        values, start = output.tolist(), 0
        results: list[dict[str, Any]] = []
        for layout in self.graph.layout:
            result: dict[str, Any] = {}
            for name, shape in layout:
                stop = start + shape.numel()
                result[name] = values[start:stop] if shape else values[start]
                start = stop
            results.append(result)
        return results


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"


def _in_background(compile_graph: Callable[[], None]) -> None:
    """Call ``compile_graph`` beside a thread that learns, and leave torch's generators to that one.

    The compiler sets the generators back at its end, so that what was drawn meanwhile would be drawn once more.
    """
    own, generators = threading.get_ident(), (torch.random, torch.cuda)

    def for_others(set_back: Callable[..., None]) -> Callable[..., None]:
        return lambda *args, **kwargs: None if threading.get_ident() == own else set_back(*args, **kwargs)

    with _BACKGROUND:
        known = [module.set_rng_state for module in generators]
        for module, set_back in zip(generators, known):
            module.set_rng_state = for_others(set_back)  # type: ignore[attr-defined]
        try:
            compile_graph()
        finally:
            for module, set_back in zip(generators, known):
                module.set_rng_state = set_back  # type: ignore[attr-defined]


def _compiled(graph: Graph, leaves: Sequence[torch.Tensor]) -> Run:
    Path(os.environ[_CACHE_VARIABLE]).mkdir(parents=True, exist_ok=True)
    if shutil.which(os.environ.get("CXX", "g++")) is None and shutil.which("clang++") is None:
        raise RuntimeError("there is no C++ compiler (g++ or clang++)")
    from torch._guards import TracingContext, tracing
    from torch._inductor import compile as compile_graph
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    captures = captures_on(graph.state[0].device)
    # Random numbers are drawn by torch's own generator, as eagerly. On a CPU calls between kernels are C++, too, and
    # patterns would make one operation again of a product and the sum with a bias.
    options: dict[str, bool] = {"fallback_random": True}
    if not captures:
        options |= {"cpp_wrapper": True, "pattern_matcher": False}
    inputs: list[Any] = graph.examples([leaf.contiguous() for leaf in leaves] if captures else leaves)

    def attempt() -> Run:
        # Without an environment of shapes the compiler would keep nothing on disk.
        with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv()))):
            # A copy, since compiling changes it.
            return compile_graph(copy.deepcopy(graph.module), inputs, options=options)

    try:
        run = attempt()
    except Exception as error:
        broken = _LIBRARY.search(str(error))
        if broken is None or not Path(broken[1]).is_relative_to(os.environ[_CACHE_VARIABLE]):
            raise
        # A run that was killed while the linker wrote it left a part of a library in the cache.
        Path(broken[1]).unlink(missing_ok=True)
        run = attempt()
    return CapturedFunction(run, len(graph.changed())) if captures else run


def _leaves(batch: Any) -> list[torch.Tensor]:
    """The tensors of a nested batch."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    if isinstance(batch, Mapping):
        return [leaf for value in batch.values() for leaf in _leaves(value)]
    if isinstance(batch, (list, tuple)):
        return [leaf for value in batch for leaf in _leaves(value)]
    return []


def _rebuilt(batch: Any, leaves: list[torch.Tensor]) -> Any:
    """``batch`` with ``leaves`` in the places of its tensors; they are taken from the list."""
    if isinstance(batch, torch.Tensor):
        return leaves.pop(0)
    if isinstance(batch, Mapping):
        return {key: _rebuilt(value, leaves) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)([_rebuilt(value, leaves) for value in batch])
    return batch


def _form(batch: Any) -> Any:
    """What two batches have in common that one graph serves: names, shapes and types, and all that is no tensor."""
    if isinstance(batch, torch.Tensor):
        return batch.shape, batch.dtype, batch.stride()
    if isinstance(batch, Mapping):
        return tuple((key, _form(value)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        return tuple(_form(value) for value in batch)
    return batch


def joined_updates(updates: int, limit: int = _MAX_UPDATES_PER_CALL) -> int:
    """How many of ``updates`` go into one call: as many as ``limit`` allows, in calls of equal size."""
    return max(count for count in range(1, max(1, min(updates, limit)) + 1) if updates % count == 0)


def split_rows(batch: Mapping[str, Any], count: int) -> list[Any]:
    """A batch of ``count * B`` rows, as its first tensor has them, as ``count`` batches of B. The rows of a tensor are
    its first axis of that length.
    """
    if count == 1:
        return [batch]
    leaves = _leaves(batch)
    rows = leaves[0].shape[0]
    size = rows // count
    axes = [leaf.shape.index(rows) for leaf in leaves]
    return [
        _rebuilt(batch, [leaf.narrow(axis, index * size, size) for leaf, axis in zip(leaves, axes)])
        for index in range(count)
    ]
