"""Store the parameters of a network in one tensor, of which those of its modules are views.

Operations on all parameters then take a single call: an optimiser step, clipping, target network updates, copies. The
modules, their parameters and the names in a state dict are unchanged.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

import torch
from torch import nn


class Run(NamedTuple):
    """Adjacent tensors of one storage."""

    members: tuple[torch.Tensor, ...]
    """The tensors, in storage order."""

    @property
    def numel(self) -> int:
        """Total number of entries."""
        return sum(member.numel() for member in self.members)

    @property
    def flat(self) -> torch.Tensor:
        """All entries as a view ``[n]`` without gradients."""
        first = self.members[0].detach()
        return first.as_strided((self.numel,), (1,), first.storage_offset())

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Split ``flat`` ``[n]`` into views shaped like the members."""
        parts = flat.split([member.numel() for member in self.members])
        return [part.view(member.shape) for part, member in zip(parts, self.members)]


def flatten_parameters(parameters: Iterable[nn.Parameter]) -> None:
    """Move the parameters of a network into one tensor for each of their types and devices.

    Parameters that are not plain dense tensors, or that are shared with other processes, are not moved. Views of the
    old storages are no longer views of the parameters: flatten a network before others hold such (and after it was
    moved to its device).
    """
    kinds: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for param in parameters:
        if _is_plain(param):
            kinds.setdefault((param.dtype, param.device), []).append(param)
    for params in kinds.values():
        if len(runs(params)) > 1:
            flat = torch.cat([param.detach().reshape(-1) for param in params])
            for param, view in zip(params, Run(tuple(params)).views(flat)):
                param.data = view


def _is_plain(param: nn.Parameter) -> bool:
    dense = type(param) is nn.Parameter and param.layout is torch.strided and param.is_contiguous()
    # Tensors on a GPU always report themselves as shared.
    return dense and param.numel() > 0 and not (param.device.type == "cpu" and param.untyped_storage().is_shared())


def runs(tensors: Iterable[torch.Tensor]) -> list[Run]:
    """Group ``tensors`` into as few runs as possible; each must be contiguous and none may overlap. Runs follow the
    order of their first members in ``tensors``, because addresses differ between processes.

    Raises:
        ValueError: A tensor is not contiguous.
    """
    tensors = list(tensors)
    given = {id(tensor): position for position, tensor in enumerate(tensors)}
    found: list[list[torch.Tensor]] = []
    end = None
    for tensor in sorted(tensors, key=_place):
        if not tensor.is_contiguous():
            raise ValueError(f"a tensor of shape {tuple(tensor.shape)} is not contiguous")
        storage, start, dtype = _place(tensor)
        if end == (storage, start, dtype):
            found[-1].append(tensor)
        else:
            found.append([tensor])
        end = (storage, start + tensor.numel(), dtype)
    return [Run(tuple(members)) for members in sorted(found, key=lambda members: given[id(members[0])])]


def paired_runs(tensors: Iterable[torch.Tensor], others: Iterable[torch.Tensor]) -> list[tuple[Run, Run]]:
    """Return the runs of ``tensors``, each with the run of the ``others`` at the same positions; tensor by tensor where
    those do not lie side by side in the same order.
    """
    partners = dict(zip(map(id, tensors := list(tensors)), others, strict=True))
    pairs = []
    for run in runs(tensors):
        members = [partners[id(member)] for member in run.members]
        found = runs(members)
        if len(found) == 1 and all(one is other for one, other in zip(found[0].members, members)):
            pairs.append((run, found[0]))
        else:
            pairs += [(runs([one])[0], runs([other])[0]) for one, other in zip(run.members, members)]
    return pairs


Part = tuple[int, torch.Tensor, list[torch.Tensor]]
"""Group number of an optimiser, and a run of its parameters with their moments, all flat."""


class FlatState(NamedTuple):
    """The parameters of an optimiser as runs, and where all that a step changes lay when these were found."""

    places: list[int]
    found: list[Run]
    """Empty if a step updates the parameters one by one."""
    parts: list[Part]

    def gradients(self) -> list[torch.Tensor]:
        """Return the gradient of each run, flat; nothing where a parameter has none that is dense."""
        grads = [param.grad for run in self.found for param in run.members]
        flat = [grad.reshape(-1) for grad in grads if grad is not None and not grad.is_sparse]
        if len(flat) < len(grads):
            return []
        left = iter(flat)
        return [torch.cat(list(islice(left, len(run.members)))) for run in self.found]

    def hand_back(self, gradients: Iterable[torch.Tensor]) -> None:
        """Assign the parts of flat gradients to the parameters."""
        for run, flat in zip(self.found, gradients):
            for param, view in zip(run.members, run.views(flat)):
                param.grad = view


def places_of(params: Iterable[torch.Tensor], state: Mapping[torch.Tensor, Mapping[str, torch.Tensor]]) -> list[int]:
    """Return the addresses of parameters and of their optimiser state."""
    return [tensor.data_ptr() for param in params for tensor in (param, *state.get(param, {}).values())]


def _place(tensor: torch.Tensor) -> tuple[int, int, str]:
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset()), str(tensor.dtype)
