"""Gradient clipping and skipping, by optimizers or by hand."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ding.utils.names import check_choice

CLIP_TYPES = ("clip_value", "clip_norm", "clip_momentum", "clip_momentum_norm")
IGNORE_TYPES = ("ignore_value", "ignore_norm", "ignore_momentum", "ignore_momentum_norm")
_EPS = 1e-6


@dataclass(frozen=True)
class Guard:
    """A gradient rule: its kind (``value``, ``norm``, ``momentum``, ``momentum_norm``) and its threshold.

    ``limit`` is the threshold of ``value`` and ``norm``. The momentum kinds use ``coef`` times the root of the
    optimizer's second moment, from ``warmup_steps`` steps on, because the moment is unreliable before.
    """

    kind: str
    limit: float
    coef: float
    norm_type: float
    warmup_steps: int

    @classmethod
    def build(
        cls,
        action: str,
        type_: str | None,
        limit: float | None,
        coef: float,
        norm_type: float,
        warmup_steps: int,
    ) -> "Guard | None":
        """``action`` is ``clip`` or ``ignore``. Raises ``ValueError`` for an unknown type or a missing threshold."""
        if type_ is None:
            return None
        check_choice(f"grad_{action}_type", type_, CLIP_TYPES if action == "clip" else IGNORE_TYPES)
        kind = type_.removeprefix(f"{action}_")
        if kind in ("value", "norm") and limit is None:
            raise ValueError(f"grad_{action}_type={type_!r} needs {action}_value, a number, got None")
        return cls(kind, float("inf") if limit is None else limit, coef, norm_type, warmup_steps)


def params_with_grad(params: Iterable[torch.nn.Parameter]) -> list[torch.nn.Parameter]:
    return [p for p in params if p.grad is not None]


def grads_of(param_groups: Iterable[dict[str, Any]]) -> list[torch.Tensor]:
    return [p.grad for group in param_groups for p in group["params"] if p.grad is not None]


def total_norm(tensors: list[torch.Tensor], norm_type: float) -> torch.Tensor:
    """Return the ``norm_type``-norm of all entries together, a 0-d tensor (0 for no tensors)."""
    if not tensors:
        return torch.zeros(())
    norms = [torch.linalg.vector_norm(tensor, norm_type) for tensor in tensors]
    output: torch.Tensor = torch.linalg.vector_norm(
        torch.stack([norm.to(norms[0].device) for norm in norms]), norm_type
    )
    return output


def _settled(
    optimizer: torch.optim.Optimizer, guard: Guard, moment: str
) -> Iterator[list[tuple[torch.Tensor, torch.Tensor]]]:
    """Per parameter group the (gradient, root of the second moment) pairs whose moment is old enough."""
    for group in optimizer.param_groups:
        pairs = []
        for param in params_with_grad(group["params"]):
            state = optimizer.state.get(param, {})
            settled = moment in state and float(state["step"]) >= guard.warmup_steps
            if settled and param.grad is not None:
                pairs.append((param.grad, state[moment].sqrt()))
        if pairs:
            yield pairs


def limit_norm(grads: list[torch.Tensor], limit: float, norm_type: float = 2.0) -> torch.Tensor:
    """Limit the ``norm_type``-norm of all entries together, in place; return the previous norm, a 0-d tensor."""
    norm = total_norm(grads, norm_type)
    scale = (limit / (norm + _EPS)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(scale.to(grad.device))
    return norm


@torch.no_grad()
def clip_gradients(optimizer: torch.optim.Optimizer, guard: Guard, moment: str) -> None:
    """Limit the gradients in place. ``moment`` names the second moment in the optimizer's state."""
    if guard.kind in ("value", "norm"):
        params = [p for group in optimizer.param_groups for p in group["params"]]
        if guard.kind == "value":
            torch.nn.utils.clip_grad_value_(params, guard.limit)
        else:
            torch.nn.utils.clip_grad_norm_(params, guard.limit, guard.norm_type)
        return
    for pairs in _settled(optimizer, guard, moment):
        if guard.kind == "momentum":
            for grad, root in pairs:
                bound = root * guard.coef
                grad.copy_(torch.maximum(torch.minimum(grad, bound), -bound))
            continue
        grad_norm = total_norm([grad for grad, _ in pairs], guard.norm_type)
        bound = total_norm([root for _, root in pairs], guard.norm_type) * guard.coef
        scale = (bound / (grad_norm + _EPS)).clamp(max=1.0)
        for grad, _ in pairs:
            grad.mul_(scale.to(grad.device))


@torch.no_grad()
def ignore_gradients(optimizer: torch.optim.Optimizer, guard: Guard, moment: str) -> bool:
    """Zero all gradients in place if one exceeds the threshold. Returns whether that happened."""
    exceeded = _exceeds(optimizer, guard, moment)
    if exceeded:
        for grad in grads_of(optimizer.param_groups):
            grad.zero_()
    return exceeded


def _exceeds(optimizer: torch.optim.Optimizer, guard: Guard, moment: str) -> bool:
    grads = grads_of(optimizer.param_groups)
    if guard.kind == "value":
        return any(bool((grad.abs() > guard.limit).any()) for grad in grads)
    if guard.kind == "norm":
        return float(total_norm(grads, guard.norm_type)) > guard.limit
    for pairs in _settled(optimizer, guard, moment):
        if guard.kind == "momentum":
            if any(bool((grad.abs() > root * guard.coef).any()) for grad, root in pairs):
                return True
        else:
            grad_norm = total_norm([grad for grad, _ in pairs], guard.norm_type)
            if float(grad_norm) > guard.coef * float(total_norm([root for _, root in pairs], guard.norm_type)):
                return True
    return False


def calculate_grad_norm(model: nn.Module, norm_type: float = 2) -> float:
    """Return the ``norm_type``-norm over the gradients of all parameters of ``model``; 0.0 without gradients."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return float(total_norm(grads, float(norm_type)))


def calculate_grad_norm_without_bias_two_norm(model: nn.Module) -> float:
    """Return the 2-norm over the gradients of all parameters whose name is not a bias; 0.0 without gradients."""
    grads = [p.grad for name, p in model.named_parameters() if name.split(".")[-1] != "bias" and p.grad is not None]
    return float(total_norm(grads, 2.0))


def grad_ignore_norm(parameters: torch.Tensor | Iterable[Any], max_norm: float, norm_type: float = 2) -> float:
    """Zero all gradients if their norm, which is returned, exceeds ``max_norm``."""
    grads = [parameter.grad for parameter in listed_parameters(parameters) if parameter.grad is not None]
    norm = float(total_norm(grads, norm_type))
    if norm > max_norm - 1e-6:
        _set_to_zero(grads)
    return norm


def grad_ignore_value(parameters: torch.Tensor | Iterable[Any], clip_value: float) -> None:
    """Zero all gradients if an entry has an absolute value of at least ``clip_value``."""
    grads = [parameter.grad for parameter in listed_parameters(parameters) if parameter.grad is not None]
    if any(float(grad.abs().max()) >= clip_value for grad in grads):
        _set_to_zero(grads)


def _set_to_zero(grads: Iterable[torch.Tensor]) -> None:
    for grad in grads:
        grad.zero_()


def listed_parameters(params: torch.Tensor | Iterable[Any]) -> list[torch.Tensor]:
    if isinstance(params, torch.Tensor):
        return [params]
    return [item[1] if isinstance(item, tuple) else item for item in params]


class PCGrad:
    """Project conflicting gradients of several losses (Yu et al. 2020, Gradient Surgery).

    Args:
        optimizer: Optimizer of the parameters.
        reduction: ``'mean'`` or ``'sum'`` of the projected gradients, for parameters that all losses share; of the
            others the gradients are added.

    Raises:
        ValueError: ``reduction`` is unknown.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, reduction: str = "mean") -> None:
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction must be 'mean' or 'sum', found {reduction!r}")
        self._optimizer, self._reduction = optimizer, reduction

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimizer."""
        return self._optimizer

    def zero_grad(self) -> None:
        """Drop the gradients."""
        self._optimizer.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Update the parameters."""
        self._optimizer.step()

    def pc_backward(self, objectives: Sequence[torch.Tensor]) -> None:
        """Set the gradients of the parameters to the projected ones of these losses; replaces ``backward``."""
        parameters = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        found = [torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) for loss in objectives]
        used = torch.stack([self._flat([g is not None for g in row], parameters) for row in found]).bool()
        values = [
            torch.cat(
                [(torch.zeros_like(p) if g is None else g).flatten() for g, p in zip(row, parameters, strict=True)]
            )
            for row in found
        ]
        projected = torch.stack([self._project(index, values) for index in range(len(values))])
        shared = used.all(dim=0)
        total = projected.sum(dim=0)
        if self._reduction == "mean":
            total = torch.where(shared, projected.mean(dim=0), total)
        parts = total.split([parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter).clone()

    @staticmethod
    def _flat(flags: Sequence[bool], parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        pairs = zip(flags, parameters, strict=True)
        return torch.cat([torch.full((p.numel(),), float(flag), device=p.device) for flag, p in pairs])

    @staticmethod
    def _project(index: int, values: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return one gradient without its components against the others, which are processed in random order."""
        own = values[index].clone()
        for other in torch.randperm(len(values)).tolist():
            dot = own @ values[other]
            if dot < 0:
                own -= dot / values[other].square().sum() * values[other]
        return own
