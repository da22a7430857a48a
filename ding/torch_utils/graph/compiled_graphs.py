"""Graphs of what is done with networks, recorded and compiled. Updates of policies
(:mod:`ding.policy.compiled_updates`), acting (:mod:`ding.policy._acting.compiled_acting`) and the training of world
models (:mod:`ding.world_model.mbpo`) share them.

There is one graph per form of the input. While it is compiled in the background, calls run eagerly. Functions that
cannot be recorded or compiled run eagerly, and the reason is logged once.
"""

import copy
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch

from ding.torch_utils.graph.capture import CapturedFunction, captures_on
from ding.torch_utils.graph.recordable_optimizer import without_denormals
from ding.torch_utils.graph.recording import Graph, NotRecordable
from ding.utils.nested import iter_nested, map_nested

log = logging.getLogger(__name__)

_SETTINGS = (False, True, "auto", "record")
# A run that has worked eagerly for so long will probably do so for as long again, and compiling takes about so long.
_AUTO_AFTER_S = 20.0
# A policy whose batches keep changing their form is not worth compiling.
_MAX_GRAPHS = 8
# Held by the thread that compiles in the background.
_BACKGROUND = threading.Lock()
_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_CACHE_HOME = Path("~/.cache/ding/compiled")
# Messages of the loader about a library that it cannot read.
_LIBRARY = re.compile(r"(/\S+\.so): ")

Run = Callable[..., Any]

compile_section: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("compiling", default=nullcontext)
"""Makes the section in which a graph is compiled at once. A signal may leave it by an exception: no network or
optimiser changes in it.
"""


class CompiledGraphs:
    """The graphs of a policy or a world model for one purpose.

    Args:
        key: of the setting in the config, for messages.
        setting: its value.
        name: of what runs eagerly without graphs, for the line that says why.
        error: class of the exception for an unknown setting.
    """

    def __init__(self, key: str, setting: Any, name: str, error: type[Exception]) -> None:
        if setting not in _SETTINGS:
            raise error(f"{key} must be one of {_SETTINGS}, found {setting!r}")
        self._key, self._setting, self._name = key, setting, name
        self._graphs: dict[Any, CompiledGraph] = {}
        #: Seconds spent eagerly so far; ``'auto'`` waits for some.
        self.eager_s = 0.0
        #: Number of graphs created, and number of runs.
        self.num_compiled = self.num_runs = 0
        #: Whether graphs are enabled.
        self.enabled = bool(setting)
        if setting:
            # Set before the compiler is imported, which otherwise uses a folder below /tmp.
            os.environ.setdefault(_CACHE_VARIABLE, str(_CACHE_HOME.expanduser()))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, which makes its own graphs."""
        return {**vars(self), "_graphs": {}}

    def find(self, key: Any, record: Callable[[], Graph], leaves: Sequence[torch.Tensor]) -> "CompiledGraph | None":
        """Return the graph for ``key`` if it is ready; else it is recorded, and compiled at once or in the background.

        Args:
            record: Creates the graph; may raise ``NotRecordable``.
            leaves: the tensors of an example of what it takes.
        """
        compiled = self._graphs.get(key)
        if compiled is not None and not compiled.graph.holds():
            compiled = None
        if compiled is None:
            if self._setting == "auto" and self.eager_s < _AUTO_AFTER_S:
                return None
            compiled = self._start(key, record, leaves)
        if compiled is None or not compiled.done.is_set():
            return None
        compiled.prepare(leaves)
        if compiled.failure is not None:
            self.give_up(compiled.failure)
            return None
        return compiled

    def _start(self, key: Any, record: Callable[[], Graph], leaves: Sequence[torch.Tensor]) -> "CompiledGraph | None":
        if key not in self._graphs and len(self._graphs) >= _MAX_GRAPHS:
            self.give_up(f"its batches had more than {_MAX_GRAPHS} forms")
            return None
        try:
            compiled = CompiledGraph(record(), list(leaves), self._name)
        except NotRecordable as reason:
            self.give_up(str(reason))
            return None
        if self._setting == "auto":
            threading.Thread(target=_in_background, args=(compiled.compile,), name="compile", daemon=True).start()
        elif self._setting == "record":
            compiled.done.set()
        else:
            log.info("%s: compiling a graph, which may take minutes on a busy machine", self._key)
            with compile_section.get()():
                compiled.compile()
        self._graphs[key] = compiled
        self.num_compiled += 1
        return compiled

    def give_up(self, reason: str) -> None:
        """Disable graphs and log the reason."""
        self.enabled = False
        self._graphs.clear()
        log.warning("%s: %s eagerly: %s", self._key, self._name, reason)


class CompiledGraph:
    """A graph and its runner."""

    def __init__(self, graph: Graph, leaves: list[torch.Tensor], name: str) -> None:
        self.graph = graph
        self._leaves = leaves
        self._name = name
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
                "%s by a compiled graph (of %d, %.1f s, cached in %s)",
                self._name, len(self.graph.layout), time.perf_counter() - start, os.environ[_CACHE_VARIABLE],
            )  # fmt: skip
        self._leaves = []
        self.done.set()

    def prepare(self, leaves: Sequence[torch.Tensor]) -> None:
        """Prepare the first run in the learning thread: capture GPU operations. May set ``failure``."""
        if not self._prepared and isinstance(self._run, CapturedFunction):
            try:
                with torch.no_grad():
                    self._run.capture(self.graph.examples(leaves))
            except Exception as error:  # noqa: BLE001 - as of the compiler
                self.failure = _reason(error)
        self._prepared = True

    def __call__(self, leaves: Sequence[torch.Tensor]) -> Any:
        """Run the graph with denormal numbers treated as zero; return its results."""
        with torch.no_grad(), without_denormals():
            return self.run(leaves)

    def run(self, leaves: Sequence[torch.Tensor]) -> Any:
        """Run it without gradients; returns its results, float32 ``[n]`` or a sequence of tensors."""
        return self._run(*self.graph.inputs(leaves))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"


def _in_background(compile_graph: Callable[[], None]) -> None:
    """Run ``compile_graph`` next to a thread that learns or acts, without affecting torch's generators.

    The compiler resets the generators at its end, so numbers drawn in the meantime would be repeated.
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
            # A copy, because compiling modifies it.
            run: Run = compile_graph(copy.deepcopy(graph.module), inputs, options=options)
            return run

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


def leaves_of(batch: Any) -> list[torch.Tensor]:
    """Return the tensors of a nested batch."""
    return [leaf for leaf in iter_nested(batch) if isinstance(leaf, torch.Tensor)]


def with_leaves(batch: Any, leaves: list[torch.Tensor]) -> Any:
    """Return ``batch`` with its tensors replaced by ``leaves``, which are popped from the list."""
    return map_nested(lambda leaf: leaves.pop(0) if isinstance(leaf, torch.Tensor) else leaf, batch)


def form_of(batch: Any) -> Any:
    """Return the key of batches that share a graph: names, shapes, dtypes and non-tensor values."""
    if isinstance(batch, torch.Tensor):
        return batch.shape, batch.dtype, batch.stride()
    if isinstance(batch, Mapping):
        return tuple((key, form_of(value)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        return tuple(form_of(value) for value in batch)
    return batch
