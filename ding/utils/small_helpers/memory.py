"""Memory of layers, as a tree."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from ding.utils.memory_helper import SimpleMemoryProfiler

_MIB = 1024 * 1024


class SimpleMemState:
    """The memory of a layer and of the layers below it.

    Args:
        layer_name: Name of the layer.
        layer_mem: Bytes of the layer itself.

    Attributes:
        total_mem: Bytes of the layer and all layers below it.
        sub_model_stats: Layers below, by name.
    """

    def __init__(self, layer_name: str, layer_mem: int = 0) -> None:
        self.layer_name = layer_name
        self._own = self.total_mem = layer_mem
        self.sub_model_stats: dict[str, SimpleMemState] = {}

    @property
    def layer_mem(self) -> int:
        """Bytes of the layer itself; setting it updates the total."""
        return self._own

    @layer_mem.setter
    def layer_mem(self, new_layer_mem: int) -> None:
        self.total_mem += new_layer_mem - self._own
        self._own = new_layer_mem

    def add(self, layer_name: str, layer_mem: int = 0, flush: bool = True) -> None:
        """Set the bytes of a layer below, ``a.b``, created if needed; ``flush`` updates the totals."""
        state = self.find_layer_state(layer_name.split("."), create=True)
        assert state is not None
        state.layer_mem = layer_mem
        if flush:
            self.update_total_memory()

    def delete(self, layer_name: str, flush: bool = True) -> None:
        """Remove a layer below another one.

        Raises:
            AssertionError: a layer at the top; KeyError: no such layer.
        """
        *above, name = layer_name.split(".")
        if not above:
            raise AssertionError(f"{layer_name!r} is at the top; only layers below others can be removed")
        state = self.find_layer_state(above)
        if state is None or name not in state.sub_model_stats:
            raise KeyError(f"there is no layer {layer_name!r}")
        del state.sub_model_stats[name]
        if flush:
            self.update_total_memory()

    def update_total_memory(self) -> None:
        """Sum up the totals."""
        for state in self.sub_model_stats.values():
            state.update_total_memory()
        self.total_mem = self._own + sum(state.total_mem for state in self.sub_model_stats.values())

    def find_layer_state(self, path: list[str], create: bool = False) -> SimpleMemState | None:
        """Return the layer at a path; if missing, create it with ``create``, else return None."""
        state = self
        for name in path:
            if name not in state.sub_model_stats:
                if not create:
                    return None
                state.sub_model_stats[name] = SimpleMemState(name)
            state = state.sub_model_stats[name]
        return state

    def dump(self, prefix: str = "") -> str:
        """Return one line for each layer."""
        return "".join(f"{line}\n" for line in self._lines(prefix))

    def _lines(self, prefix: str) -> Iterator[str]:
        path = f"{prefix}.{self.layer_name}" if prefix else self.layer_name
        own, total = self._own / _MIB, self.total_mem / _MIB
        yield f"layer: {path}, layer_mem: {own:.2f} MB, total_mem: {total:.2f} MB"
        for state in self.sub_model_stats.values():
            yield from state._lines(path)

    def to_json(self, base: int = _MIB) -> dict[str, object]:
        """Return ``name`` and ``value`` (in units of ``base`` bytes) of a leaf, else ``name`` and ``children``."""
        if not self.sub_model_stats:
            return {"name": self.layer_name, "value": self.total_mem // base}
        return {"name": self.layer_name, "children": [one.to_json(base) for one in self.sub_model_stats.values()]}


class ActivationMemState:
    """The memory of the activations of several chunks of a model.

    Args:
        num_chunks: number of chunks.
    """

    def __init__(self, num_chunks: int) -> None:
        self.inited = [False] * num_chunks
        self.states = [SimpleMemState(f"activations_{chunk}") for chunk in range(num_chunks)]

    @property
    def total_mem(self) -> int:
        """Bytes of all chunks."""
        return sum(state.total_mem for state in self.states)

    def dump(self, prefix: str = "") -> str:
        """Return one line for each layer of each chunk."""
        return "".join(state.dump(prefix) for state in self.states)

    def to_json(self, base: int = _MIB) -> list[dict[str, object]]:
        """Return each chunk as :meth:`SimpleMemState.to_json` does."""
        return [state.to_json(base) for state in self.states]


def multi_chunk_test(log_folder: str = ".") -> None:
    """Demonstrate ``SimpleMemoryProfiler`` with a small model: two steps, written to ``memory.log``."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())
    profiler = SimpleMemoryProfiler(model, optimizer, log_folder, total_steps=2)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).sum().backward()
        optimizer.step()
        profiler.step()


def get_current_device() -> torch.device:
    """Return the current CUDA device, or the CPU if there is none."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
