"""``torch.optim.Adam`` and ``RMSprop`` with gradient clipping and gradient ignoring inside ``step()``.

State dicts are those of the torch classes, in both directions.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from ding.torch_utils._fused_adam import FusedAdamStep, has_step_hooks
from ding.torch_utils._grad_guard import (
    Guard,
    check_choice,
    clip_gradients,
    grads_of,
    ignore_gradients,
    params_with_grad,
    total_norm,
)
from ding.torch_utils._without_compiler import WithoutCompiler, torch_step

_OPTIM_TYPES = ("adam", "adamw")
_TORCH_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def calculate_grad_norm(model: nn.Module, norm_type: float = 2) -> float:
    """The ``norm_type``-norm over the gradients of all parameters of ``model``; 0.0 without gradients."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return float(total_norm(grads, float(norm_type)))


def calculate_grad_norm_without_bias_two_norm(model: nn.Module) -> float:
    """The 2-norm over the gradients of all parameters whose name is not a bias; 0.0 without gradients."""
    grads = [p.grad for name, p in model.named_parameters() if name.split(".")[-1] != "bias" and p.grad is not None]
    return float(total_norm(grads, 2.0))


def _fused_supported(param_groups: list[Any]) -> bool:
    """Fused steps need dense floating parameters on one of the devices that torch has the kernel for."""
    devices = ("cpu", "cuda") if _TORCH_VERSION >= (2, 4) else ("cuda",)
    for group in param_groups:
        params = group["params"] if isinstance(group, dict) else [group]
        for param in [params] if isinstance(params, torch.Tensor) else params:
            if not torch.is_floating_point(param) or param.is_sparse or param.device.type not in devices:
                return False
    return True


def _listed(params: Iterable[Any]) -> list[Any]:
    """Generators are read once here because the parameters are looked at twice, and those of the groups too."""
    groups = list(params)
    if groups and isinstance(groups[0], dict):
        return [
            {
                **group,
                "params": [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"]),
            }
            for group in groups
        ]
    # (name, parameter) pairs, as torch accepts them from named_parameters().
    return [item[1] if isinstance(item, tuple) else item for item in groups]


class _GuardedMixin:
    """Clipping and ignoring for an optimizer whose state holds a second moment under ``_moment``."""

    _moment: str
    _clip: Guard | None
    _ignore: Guard | None
    _grad_norm_type: float | None

    def _guard_gradients(self: Any) -> None:
        if self._ignore is not None:
            ignore_gradients(self, self._ignore, self._moment)
        if self._clip is not None:
            clip_gradients(self, self._clip, self._moment)

    def get_grad(self: Any) -> float:
        """The ``grad_norm_type``-norm (2 by default) of the present gradients of all parameters."""
        grads = grads_of(self.param_groups)
        return float(total_norm(grads, float(self._grad_norm_type or 2.0)))


class Adam(_GuardedMixin, WithoutCompiler, torch.optim.Adam):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980) or AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101).

    ``optim_type='adamw'`` decouples the weight decay: ``p -= lr * weight_decay * p`` before the step.
    ``grad_clip_type``: ``clip_value`` limits each entry to ``clip_value``; ``clip_norm`` limits the
    ``clip_norm_type``-norm of the whole gradient to it; ``clip_momentum`` limits each entry to ``clip_coef`` times the
    root of its second moment; ``clip_momentum_norm`` limits the norm of each group's gradient to ``clip_coef`` times
    the norm of that root. The momentum kinds start after ``clip_momentum_timestep`` steps. ``grad_ignore_type`` has
    the same four kinds (``ignore_*``) and zeroes the whole gradient when the threshold is exceeded.

    The fused kernels of torch are used where the parameters allow it. Raises ``ValueError`` for an unknown type or a
    missing ``clip_value`` / ``ignore_value``.
    """

    _moment = "exp_avg_sq"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        optim_type: str = "adam",
        grad_clip_type: str | None = None,
        clip_value: float | None = None,
        clip_coef: float = 5,
        clip_norm_type: float = 2.0,
        clip_momentum_timestep: int = 100,
        grad_norm_type: float | None = None,
        grad_ignore_type: str | None = None,
        ignore_value: float | None = None,
        ignore_coef: float = 5,
        ignore_norm_type: float = 2.0,
        ignore_momentum_timestep: int = 100,
    ) -> None:
        check_choice("optim_type", optim_type, _OPTIM_TYPES)
        self._clip = Guard.build("clip", grad_clip_type, clip_value, clip_coef, clip_norm_type, clip_momentum_timestep)
        self._ignore = Guard.build(
            "ignore", grad_ignore_type, ignore_value, ignore_coef, ignore_norm_type, ignore_momentum_timestep
        )
        self._grad_norm_type = grad_norm_type
        self._decoupled = optim_type == "adamw"
        listed = _listed(params)
        self._fused = _fused_supported(listed)
        self._fused_step = FusedAdamStep()
        # None lets torch choose between its for-loop and its foreach form.
        super().__init__(
            listed, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, fused=self._fused or None
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Clip or ignore, then update. ``closure`` is evaluated first, so that its gradients are treated too."""
        if has_step_hooks(self):
            return self._step_with_hooks(closure)
        return self._step(closure)

    # Keeps torch from wrapping ``step`` into its calls of hooks and of the profiler, which cost as much as the step.
    step.hooked = True  # type: ignore[attr-defined]

    def _step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._guard_gradients()
        if self._decoupled:
            self._step_decoupled()
        elif not self._fused_step.run(self):
            torch_step(self, torch.optim.Adam)
        return loss

    _step_with_hooks = torch.optim.Optimizer.profile_hook_step(_step)

    def _step_decoupled(self) -> None:
        decays = [group["weight_decay"] for group in self.param_groups]
        try:
            for group, decay in zip(self.param_groups, decays):
                if decay:
                    with torch.no_grad():
                        for param in params_with_grad(group["params"]):
                            param.mul_(1 - group["lr"] * decay)
                # The decay is done: torch must not add it to the gradient as well.
                group["weight_decay"] = 0
            torch_step(self, torch.optim.Adam)
        finally:
            for group, decay in zip(self.param_groups, decays):
                group["weight_decay"] = decay

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of any ``torch.optim.Adam``; this optimizer keeps its own choice of kernel."""
        groups = [{**group, "fused": self._fused or None, "foreach": None} for group in state_dict["param_groups"]]
        super().load_state_dict({**state_dict, "param_groups": groups})


class RMSprop(_GuardedMixin, WithoutCompiler, torch.optim.RMSprop):
    """RMSprop (Hinton 2012) with the gradient clipping and ignoring of :class:`Adam`.

    The second moment of the momentum kinds is ``square_avg``.
    """

    _moment = "square_avg"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        grad_clip_type: str | None = None,
        clip_value: float | None = None,
        clip_coef: float = 5,
        clip_norm_type: float = 2.0,
        clip_momentum_timestep: int = 100,
        grad_norm_type: float | None = None,
        grad_ignore_type: str | None = None,
        ignore_value: float | None = None,
        ignore_coef: float = 5,
        ignore_norm_type: float = 2.0,
        ignore_momentum_timestep: int = 100,
    ) -> None:
        self._clip = Guard.build("clip", grad_clip_type, clip_value, clip_coef, clip_norm_type, clip_momentum_timestep)
        self._ignore = Guard.build(
            "ignore", grad_ignore_type, ignore_value, ignore_coef, ignore_norm_type, ignore_momentum_timestep
        )
        self._grad_norm_type = grad_norm_type
        super().__init__(
            _listed(params),
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Clip or ignore, then update. ``closure`` is evaluated first, so that its gradients are treated too."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._guard_gradients()
        torch_step(self, torch.optim.RMSprop)
        return loss
