"""``policy.collect.compile`` and ``policy.eval.compile``: the networks that act, as compiled graphs; without these keys
as ``policy.learn.compile`` says.

A graph takes a fixed number of rows: ``env_num`` of the mode, or the power of two from which on no call had more.
Where fewer environments are ready, the rows behind theirs are left as they were, so that nothing is compiled in the
loop; no row of a network that acts depends on another one. Wrappers choose actions and draw random numbers outside of
the graph, in the order in which they do without it. Weights are read where the network has them.

Small networks of plain layers go on by numpy (:func:`~ding.torch_utils.network.as_array_function`), and those with
convolutions or few operations by torch: both are faster.
"""

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from ding.model.wrapper.model_wrappers import BaseModelWrapper, IModelWrapper
from ding.policy.errors import PolicyConfigError
from ding.torch_utils.data_helper import network_tensor
from ding.torch_utils.graph.compiled_graphs import CompiledGraph, CompiledGraphs, leaves_of, with_leaves
from ding.torch_utils.graph.recording import Graph, NotRecordable, current_recording, record
from ding.torch_utils.network.array_function import as_array_function
from ding.utils.nested import iter_nested

_MODES = ("collect", "eval")
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
# A call of a graph costs about as much as so many operations of torch: see docs/compile.md.
_FEWEST_OPERATIONS = 16
_VIEWS = frozenset(["slice", "view", "detach", "t", "expand", "squeeze", "unsqueeze", "empty", "getitem"])
_PLAIN = (str, int, float, bool, type(None))


class ActingPolicy(Protocol):
    """What :func:`compile_acting` needs of a policy."""

    def _get_attribute(self, name: str) -> Any:
        """``cfg``, ``device``, ``enable_field``."""

    def _set_attribute(self, name: str, value: object) -> None:
        """Replace ``collect_model`` or ``eval_model``."""


def compile_acting(policy: ActingPolicy) -> None:
    """Have the networks that collect and evaluate run by graphs where the config asks for it."""
    cfg = policy._get_attribute("cfg")
    for mode in _MODES:
        section = cfg.get(mode) or {}
        setting = section.get("compile")
        if setting is None:
            setting = cfg.get("learn", {}).get("compile", False)
        outer = vars(policy).get(f"_{mode}_model")
        if mode not in policy._get_attribute("enable_field") or not setting or not isinstance(outer, IModelWrapper):
            continue
        name = f"{type(policy).__name__} acts ({mode})"
        graphs = CompiledGraphs(f"policy.{mode}.compile", setting, name, PolicyConfigError)
        if torch.device(policy._get_attribute("device")).type != "cpu":
            graphs.give_up("its network is not on the CPU")
            continue
        *others, inner = outer.chain()
        if type(inner) is BaseModelWrapper:
            compiled = CompiledModelWrapper(inner, graphs, section.get("env_num"))
            if others:
                others[-1]._model = compiled
            else:
                policy._set_attribute(f"{mode}_model", compiled)


class CompiledModelWrapper(BaseModelWrapper):
    """The innermost wrapper of a network that acts, by a graph of its forward pass where there is one.

    Args:
        plain: the wrapper in whose place this one comes.
        graphs: where the graphs are kept.
        num_rows: of the batches, if it is known.
    """

    takes_arrays = True

    def __init__(self, plain: BaseModelWrapper, graphs: CompiledGraphs, num_rows: int | None) -> None:
        super().__init__(vars(plain)["_model"])
        #: What was compiled.
        self.graphs = graphs
        self._num_rows = num_rows or 1
        self._forms: dict[Any, _Form] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the network on observations ``[N, ...]``."""
        obs = args[0] if len(args) == 1 else None
        if type(obs) is np.ndarray:
            if not self.graphs.enabled or as_array_function(self._model).by_numpy(obs, **kwargs):
                return super().forward(obs, **kwargs)
            with torch.no_grad():
                return self.forward(network_tensor(obs), **kwargs)
        eager = not self.graphs.enabled or torch.is_grad_enabled() or getattr(self._model, "training", True)
        if eager or current_recording.get() is not None:
            return super().forward(*args, **kwargs)
        if type(obs) is not torch.Tensor or not all(isinstance(value, _PLAIN) for value in kwargs.values()):
            self.graphs.give_up("what its network takes is not a single tensor and plain values")
            return super().forward(*args, **kwargs)
        start = time.perf_counter()
        count = len(obs)
        if count > self._num_rows:
            self._num_rows = 1 << (count - 1).bit_length()
        key = (self._num_rows, obs.shape[1:], obs.dtype, *kwargs.items())
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = _Form(self._model, obs.new_zeros(self._num_rows, *obs.shape[1:]), kwargs)
        form.obs[:count] = obs
        compiled = self.graphs.find(key, form.record, [form.obs])
        if compiled is not None:
            self.graphs.num_runs += 1
            return form.output(compiled, count)
        output = super().forward(*args, **kwargs)
        self.graphs.eager_s += time.perf_counter() - start
        return output


class _Form:
    """Calls of a network with observations of one shape and the same arguments.

    Args:
        network: a module.
        obs: holds the observations of a call.
        kwargs: further arguments of the network.
    """

    def __init__(self, network: nn.Module, obs: torch.Tensor, kwargs: Mapping[str, Any]) -> None:
        self.obs = obs
        self._network, self._kwargs = network, dict(kwargs)
        self._empty: Any = None
        # Of an output that is a dict of tensors: building another one takes a third of the time of the general way.
        self._names: list[Any] = []

    def record(self) -> Graph:
        """The forward pass; raises ``NotRecordable``."""
        modules = list(self._network.modules())
        if any(isinstance(module, _CONVOLUTIONS) for module in modules):
            raise NotRecordable("convolutions are faster so")
        if any(module._forward_hooks or module._forward_pre_hooks for module in modules):
            raise NotRecordable("its network has hooks")

        def forward(batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
            obs: torch.Tensor = batch["obs"]
            output = self._network(obs, **self._kwargs)
            results = leaves_of(output)
            if any(one.dtype is not torch.float32 or one.shape[:1] != obs.shape[:1] for one in results):
                raise NotRecordable("what its network gives has not a row of float32 for each environment")
            if not results or not _is_plain(output):
                raise NotRecordable("its network gives other things than tensors")
            self._empty = with_leaves(output, [torch.empty(0)] * len(results))
            flat = type(output) is dict and len(output) == len(results)
            self._names = list(output) if flat else []
            # The next call changes the place of the observations.
            own = (one.clone() if _storage(one) == _storage(obs) else one for one in results)
            return {str(index): one for index, one in enumerate(own)}

        graph = record(forward, [self._network], [], [self.obs], lambda leaves: [{"obs": leaves[0]}], [{}], flat=False)
        if graph.noise:
            raise NotRecordable("its network draws random numbers")
        count = sum(node.op == "call_function" and _name(node) not in _VIEWS for node in graph.module.graph.nodes)
        if count < _FEWEST_OPERATIONS:
            raise NotRecordable(f"torch is as fast with the {count} operations of its network")
        return graph

    def output(self, compiled: CompiledGraph, count: int) -> object:
        """What the network gives for the first ``count`` observations."""
        tensors = compiled.run([self.obs])
        if count < len(self.obs):
            tensors = [tensor[:count] for tensor in tensors]
        return dict(zip(self._names, tensors)) if self._names else with_leaves(self._empty, list(tensors))


def _name(node: torch.fx.Node) -> str:
    """The operation without its package and overload; what takes a part of several results is no operation of torch."""
    return str(node.target).split(".")[1] if isinstance(node.target, torch._ops.OpOverload) else "getitem"


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_plain(value: Any) -> bool:
    """Whether a nested value holds tensors and plain values only."""
    return all(isinstance(leaf, (torch.Tensor, *_PLAIN)) for leaf in iter_nested(value))
