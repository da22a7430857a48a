"""Steps of an optimiser without what ``torch.optim`` does around them each time.

It opens a record for a profiler and looks for hooks, asks each parameter for its kind, sorts all tensors by device and
type, and counts the step of each parameter. For a network of a few small layers that takes longer than the step: 10 %
of an eager iteration of learning (DQN, batch 64). The numbers are the same to the last bit, and the state stays where
torch keeps it, so that torch's own step, the plain form, may make any step in between.
"""

from typing import Any

import torch
from torch.optim.optimizer import Optimizer, _global_optimizer_post_hooks, _global_optimizer_pre_hooks

_OTHERS = ("amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay")


def is_observed(optimizer: Optimizer) -> bool:
    """Whether a profiler or a hook waits for the next step."""
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
        or torch.autograd._profiler_enabled()
    )


def step_adam(optimizer: torch.optim.Adam) -> bool:
    """One call of torch's fused kernel for each group of parameters, without gradients.

    Returns False, with nothing done, where torch has to: the first step of a parameter, which makes its state, a GPU,
    a scaler of gradients, and options beyond the usual ones.
    """
    if getattr(optimizer, "grad_scale", None) is not None or getattr(optimizer, "found_inf", None) is not None:
        return False
    found = []
    for group in optimizer.param_groups:
        params = [param for param in group["params"] if param.grad is not None]
        states = [optimizer.state[param] for param in params]
        if not _is_usual(group) or not all(states) or not all(param.is_cpu for param in params):
            return False
        found.append((group, params, states))
    for group, params, states in found:
        if params:
            _step(group, params, states)
    return True


def _is_usual(group: dict[str, Any]) -> bool:
    return bool(group["fused"]) and isinstance(group["lr"], (float, int)) and not any(map(group.get, _OTHERS))


def _step(group: dict[str, Any], params: list[torch.Tensor], states: list[dict[str, Any]]) -> None:
    _count(states)
    grads: Any = [param.grad for param in params]
    averages, squares, steps = ([state[key] for state in states] for key in ("exp_avg", "exp_avg_sq", "step"))
    beta1, beta2 = group["betas"]
    torch._fused_adam_(
        params, grads, averages, squares, [], steps,
        lr=group["lr"], beta1=beta1, beta2=beta2, weight_decay=group["weight_decay"], eps=group["eps"],
        amsgrad=False, maximize=False,
    )  # fmt: skip


def _count(states: list[dict[str, Any]]) -> None:
    """Count a step of each parameter: in one operation where the counts are views of one tensor, which they become."""
    bases = [state["step"]._base for state in states]
    if all(base is None for base in bases):
        counts = torch.stack([state["step"] for state in states])
        for state, step in zip(states, counts.unbind()):
            state["step"] = step
        counts.add_(1)
    elif bases[0] is not None and bases[0].numel() == len(bases) and all(base is bases[0] for base in bases):
        bases[0].add_(1)
    else:
        torch._foreach_add_([state["step"] for state in states], 1)
