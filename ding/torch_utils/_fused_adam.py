"""One call of torch's fused Adam kernel, without what ``torch.optim.Adam.step`` does around it at each step.

For a small network that (collecting the state of each parameter, grouping by device, a counter per parameter) takes as
long as the kernel: 7 % of a serial CartPole run. The state stays where and how torch keeps it, so that torch's own
step, which is the plain form, may do any step in between.
"""

from collections.abc import Callable
from operator import is_, itemgetter
from typing import Any, NamedTuple

import torch

_KEYS = ("exp_avg", "exp_avg_sq", "step")
_kernel: Callable[..., None] | None = getattr(torch, "_fused_adam_", None)


class _Group(NamedTuple):
    """The tensors of one parameter group, in the order of its parameters."""

    options: dict[str, Any]
    params: list[torch.Tensor]
    states: list[Any]
    tensors: list[list[torch.Tensor]]
    """Per key of a state."""
    all_steps: torch.Tensor
    """The memory of all counters, so that counting is one operation."""


class FusedStep:
    """Steps one ``torch.optim.Adam`` whose parameters are float32 on the CPU."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []

    def run(self, optimizer: torch.optim.Adam) -> bool:
        """Do the step, without gradients. False, with nothing done, where torch has to: the first step, which makes the
        state, a parameter without a gradient, and any option beyond the plain ones.
        """
        if not self._holds(optimizer):
            self._groups = _collect(optimizer)
        gradients = [[param.grad for param in group.params] for group in self._groups]
        if not gradients or "grad_scale" in vars(optimizer) or not all(map(_is_plain, optimizer.param_groups)):
            return False
        if any(grad is None or grad.is_sparse for listed in gradients for grad in listed):
            return False
        for group, listed in zip(self._groups, gradients):
            _step(group, listed)
        return True

    def _holds(self, optimizer: torch.optim.Adam) -> bool:
        """Whether the optimizer still has the tensors that were collected."""
        if len(self._groups) != len(optimizer.param_groups):
            return False
        for group, options in zip(self._groups, optimizer.param_groups):
            if group.options is not options or len(group.params) != len(options["params"]):
                return False
            if not all(map(is_, map(optimizer.state.get, group.params), group.states)):
                return False
            for key, tensors in zip(_KEYS, group.tensors):
                if not all(map(is_, map(itemgetter(key), group.states), tensors)):
                    return False
        return True


def _collect(optimizer: torch.optim.Adam) -> list[_Group]:
    """The tensors of each group; none when there is something that the kernel does not take."""
    groups = []
    for options in optimizer.param_groups:
        params = list(options["params"])
        states = [optimizer.state.get(param, {}) for param in params]
        fits = all(param.is_cpu and param.dtype is torch.float32 for param in params)
        if _kernel is None or not fits or not all(states):
            return []
        all_steps = torch.stack([state["step"] for state in states])
        for state, step in zip(states, all_steps.unbind()):
            state["step"] = step
        groups.append(_Group(options, params, states, [[state[key] for state in states] for key in _KEYS], all_steps))
    return groups


def _is_plain(options: dict[str, Any]) -> bool:
    return (
        bool(options.get("fused"))
        and isinstance(options["lr"], (float, int))
        and not (options["amsgrad"] or options["maximize"] or options["capturable"] or options["differentiable"])
        and not options.get("decoupled_weight_decay", False)
    )


def _step(group: _Group, gradients: list[Any]) -> None:
    options = group.options
    averages, squares, steps = group.tensors
    group.all_steps.add_(1)
    _kernel(  # type: ignore[misc]
        group.params,
        gradients,
        averages,
        squares,
        [],
        steps,
        lr=options["lr"],
        beta1=options["betas"][0],
        beta2=options["betas"][1],
        weight_decay=options["weight_decay"],
        eps=options["eps"],
        amsgrad=False,
        maximize=False,
        grad_scale=None,
        found_inf=None,
    )
