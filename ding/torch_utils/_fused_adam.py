"""One call of torch's fused Adam kernel, without the work that torch does around it at each step.

For a small network that work (collecting the state of each parameter, grouping by device, profiling) takes several
times as long as the kernel. Here the lists of tensors are collected once and looked over before each use.
"""

from collections.abc import Callable
from itertools import chain, repeat
from operator import attrgetter, is_, is_not
from typing import Any

import torch
from torch.optim import optimizer as _hooks_of_all

_STATE_KEYS = ("exp_avg", "exp_avg_sq", "step")
# What a gradient scaler leaves on an optimizer for the time of a step.
_SCALING = ("grad_scale", "found_inf")
_TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)
_kind = attrgetter("dtype", "layout")
_DENSE_FLOATS = {(torch.float32, torch.strided)}
_END = (None,)
_fused_adam_kernel: Callable[..., None] | None = getattr(torch, "_fused_adam_", None)


class _Group:
    """The tensors of one parameter group, in the order of its parameters."""

    def __init__(self, group: dict[str, Any], states: list[dict[str, Any]]) -> None:
        self.group = group
        listed = group["params"]
        # Parameters that have never had a gradient have no state.
        self.params: list[torch.Tensor] = [param for param, state in zip(listed, states) if state]
        self.idle: list[torch.Tensor] = [param for param, state in zip(listed, states) if not state]
        self.states = states = [state for state in states if state]
        # The steps become parts of one tensor, so that counting them is one kernel and not one for each.
        self.all_steps = torch.stack([state["step"] for state in states]) if states else torch.zeros(0)
        for state, step in zip(states, self.all_steps.unbind()):
            state["step"] = step
        self.averages, self.squares, self.steps = ([state[key] for state in states] for key in _STATE_KEYS)
        self.held = list(self._tensors())

    def _tensors(self) -> Any:
        # With an end of its own, a sequence that became shorter or longer differs from the one before.
        return chain(self.group["params"], chain.from_iterable(map(dict.values, self.states)), _END)

    def holds(self) -> bool:
        """Whether the optimizer still has these tensors."""
        return all(map(is_, self._tensors(), self.held))


class FusedAdamStep:
    """Steps a ``torch.optim.Adam`` whose parameters are all on the CPU.

    The state stays where and how torch keeps it, so state dicts are the same, and torch may do any step in between.
    """

    def __init__(self) -> None:
        self._groups: list[_Group] | None = None
        self._states: list[dict[str, Any]] = []

    def __deepcopy__(self, memo: Any) -> "FusedAdamStep":
        return FusedAdamStep()

    def __reduce__(self) -> tuple[type["FusedAdamStep"], tuple]:
        return FusedAdamStep, ()

    def run(self, optimizer: torch.optim.Adam) -> bool:
        """Do the step. False, with nothing done, where torch has to do it: the first step, which makes the state,
        parameters without a gradient, and any option beyond the plain ones.
        """
        groups = self._groups
        if groups is None or not self._holds(optimizer, groups):
            groups = self._groups = self._collect(optimizer)
            if groups is None:
                return False
        options = optimizer.__dict__
        if not all(map(_is_plain, optimizer.param_groups)) or any(name in options for name in _SCALING):
            return False
        gradients = [[param.grad for param in group.params] for group in groups]
        if not all(map(_fit_kernel, gradients)):
            return False
        if any(param.grad is not None for group in groups for param in group.idle):
            return False
        with torch.no_grad():
            for group, listed in zip(groups, gradients):
                _step(group, listed)  # type: ignore[arg-type]
        return True

    def _holds(self, optimizer: torch.optim.Adam, groups: list[_Group]) -> bool:
        return (
            len(optimizer.param_groups) == len(groups)
            and all(entry.group is group for entry, group in zip(groups, optimizer.param_groups))
            and len(optimizer.state) == len(self._states)
            and all(map(is_, optimizer.state.values(), self._states))
            and all(entry.holds() for entry in groups)
        )

    def _collect(self, optimizer: torch.optim.Adam) -> list[_Group] | None:
        if _fused_adam_kernel is None:
            return None
        groups = []
        for group in optimizer.param_groups:
            params = group["params"]
            if not all(type(p) in _TENSOR_TYPES and p.is_cpu and p.dtype is torch.float32 for p in params):
                return None
            states = [optimizer.state.get(param, {}) for param in params]
            if not all(isinstance(state.get(key), torch.Tensor) for state in states if state for key in _STATE_KEYS):
                return None
            groups.append(_Group(group, states))
        self._states = list(optimizer.state.values())
        return groups


def has_step_hooks(optimizer: torch.optim.Optimizer) -> bool:
    """Whether something runs before or after each step of this optimizer, or of all."""
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _hooks_of_all._global_optimizer_pre_hooks
        or _hooks_of_all._global_optimizer_post_hooks
    )


def _is_plain(group: dict[str, Any]) -> bool:
    return (
        bool(group.get("fused"))
        and type(group["lr"]) in (float, int)
        and not (group["amsgrad"] or group["maximize"] or group["capturable"] or group["differentiable"])
        # A later torch keeps AdamW as an Adam with this option.
        and not group.get("decoupled_weight_decay", False)
    )


def _fit_kernel(gradients: list[torch.Tensor | None]) -> bool:
    return all(map(is_not, gradients, repeat(None))) and set(map(_kind, gradients)) <= _DENSE_FLOATS


def _step(entry: _Group, gradients: list[torch.Tensor]) -> None:
    if not entry.params:
        return
    group = entry.group
    beta1, beta2 = group["betas"]
    entry.all_steps.add_(1)
    _fused_adam_kernel(  # type: ignore[misc]
        entry.params,
        gradients,
        entry.averages,
        entry.squares,
        [],
        entry.steps,
        amsgrad=False,
        lr=group["lr"],
        beta1=beta1,
        beta2=beta2,
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=False,
        grad_scale=None,
        found_inf=None,
    )
