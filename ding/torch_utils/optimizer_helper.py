"""``torch.optim.Adam`` and ``RMSprop`` with gradient clipping and gradient ignoring inside ``step()``.

State dicts are those of the torch classes, in both directions.
"""

import inspect
from collections.abc import Iterable
from typing import Any

import torch

from ding.torch_utils._grad_guard import Guard, listed_parameters
from ding.torch_utils._grad_guard import PCGrad as PCGrad
from ding.torch_utils._grad_guard import calculate_grad_norm as calculate_grad_norm
from ding.torch_utils._grad_guard import (
    calculate_grad_norm_without_bias_two_norm as calculate_grad_norm_without_bias_two_norm,
)
from ding.torch_utils._grad_guard import grad_ignore_norm as grad_ignore_norm
from ding.torch_utils._grad_guard import grad_ignore_value as grad_ignore_value
from ding.torch_utils.graph.recordable_optimizer import RecordableAdam, RecordableOptimizer, RecordableRMSprop
from ding.torch_utils.parameter import configure_weight_decay as configure_weight_decay
from ding.utils.names import check_choice

_OPTIM_TYPES = ("adam", "adamw")
_TORCH_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


class Adam(RecordableAdam, torch.optim.Adam):
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

    _torch_step = inspect.unwrap(torch.optim.Adam.step)

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
        groups = _groups(params)
        # None lets torch choose between its for-loop and its foreach form.
        self._kernel = {"fused": True if _fused_supported(groups) else None, "foreach": None}
        super().__init__(
            groups, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, **self._kernel
        )


class RMSprop(RecordableRMSprop, torch.optim.RMSprop):
    """RMSprop (Hinton 2012) with the gradient clipping and ignoring of :class:`Adam`.

    The second moment of the momentum kinds is ``square_avg``.
    """

    _torch_step = inspect.unwrap(torch.optim.RMSprop.step)

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
        # Without it torch takes the tensors one by one on a CPU: 525 instead of 346 us for QMIX, with the same bits.
        self._kernel = {"foreach": True}
        super().__init__(
            _groups(params),
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
            foreach=True,
        )


class SGD(RecordableOptimizer, torch.optim.SGD):
    """Gradient descent with momentum, and the clipping of :class:`Adam` by value or norm.

    Raises ``ValueError`` for the momentum kinds: there is no second moment.
    """

    _torch_step = inspect.unwrap(torch.optim.SGD.step)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        weight_decay: float = 0,
        grad_clip_type: str | None = None,
        clip_value: float | None = None,
    ) -> None:
        if grad_clip_type is not None:
            check_choice("grad_clip_type", grad_clip_type, ("clip_value", "clip_norm"))
        self._clip = Guard.build("clip", grad_clip_type, clip_value, coef=0.0, norm_type=2.0, warmup_steps=0)
        self._ignore = self._grad_norm_type = None
        super().__init__(_groups(params), lr=lr, momentum=momentum, weight_decay=weight_decay)


def _groups(params: Iterable[Any]) -> list[dict[str, Any]]:
    """Parameter groups with lists of parameters, from parameters, ``(name, parameter)`` pairs or groups of such.

    Generators are read once here, because the parameters are looked at twice.
    """
    listed = list(params)
    if not listed:
        return []  # torch names the mistake
    groups = listed if listed and isinstance(listed[0], dict) else [{"params": listed}]
    return [{**group, "params": listed_parameters(group["params"])} for group in groups]


def _fused_supported(groups: list[dict[str, Any]]) -> bool:
    """Fused steps need dense floating parameters on one of the devices that torch has the kernel for."""
    devices = ("cpu", "cuda") if _TORCH_VERSION >= (2, 4) else ("cuda",)
    return all(
        torch.is_floating_point(param) and not param.is_sparse and param.device.type in devices
        for group in groups
        for param in group["params"]
    )
