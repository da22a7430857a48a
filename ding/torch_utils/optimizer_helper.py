"""``torch.optim.Adam`` and ``RMSprop`` with gradient clipping and gradient ignoring inside ``step()``.

State dicts are those of the torch classes, in both directions.
"""

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from ding.torch_utils._grad_guard import Guard, clip_gradients, grads_of, ignore_gradients, total_norm
from ding.torch_utils.lr_scheduler import LinearDecay
from ding.utils.default_helper import check_choice

_OPTIM_TYPES = ("adam", "adamw")
_SETTINGS = ("_clip", "_ignore", "_grad_norm_type", "_decoupled", "_fused", "schedule", "skips_nonfinite")
_TORCH_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
# Flushed to zero, it equals zero.
_DENORMAL = 5e-324
_Loss = TypeVar("_Loss")


def calculate_grad_norm(model: nn.Module, norm_type: float = 2) -> float:
    """The ``norm_type``-norm over the gradients of all parameters of ``model``; 0.0 without gradients."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return float(total_norm(grads, float(norm_type)))


def calculate_grad_norm_without_bias_two_norm(model: nn.Module) -> float:
    """The 2-norm over the gradients of all parameters whose name is not a bias; 0.0 without gradients."""
    grads = [p.grad for name, p in model.named_parameters() if name.split(".")[-1] != "bias" and p.grad is not None]
    return float(total_norm(grads, 2.0))


class _GuardedOptimizer(Optimizer):
    """Mix in before a class of ``torch.optim``: clips or ignores gradients, and does not import torch's compiler.

    torch wraps these methods so that ``torch.compile`` leaves them alone, and the wrappers import the compiler at their
    first call, also in a run that compiles nothing: 1.2 s of CPU time, 30 % of a whole CartPole run with its imports.
    The functions inside the wrappers do the work. The hooks of ``step`` and of state dicts are called as torch does.
    """

    _moment = ""
    """Name of the second moment in the state of a parameter."""
    _torch_step: ClassVar[Callable[[Any], object]]
    """The step of the torch class."""

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)

    schedule: LinearDecay | None = None
    """How the learning rate changes; its steps are taken by the policy."""
    skips_nonfinite = False
    """Whether a step whose gradient is not finite is left out; see ``policy.learn.on_nonfinite``."""
    _decoupled = False
    """Whether the weights decay by themselves, not by the gradient."""
    _clip: Guard | None
    _ignore: Guard | None
    _grad_norm_type: float | None

    def __getstate__(self) -> dict[str, Any]:
        """What a copy gets: torch's part, which leaves out the attributes of subclasses, and the settings of these."""
        own = {name: vars(self)[name] for name in _SETTINGS if name in vars(self)}
        return {**super().__getstate__(), **own}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none or param.grad is None:
                    param.grad = None
                else:
                    param.grad.detach_().zero_()

    def step(self, closure: Callable[[], _Loss] | None = None) -> _Loss | None:  # type: ignore[override]
        """Clip or ignore, then update. ``closure`` is evaluated first, so that its gradients are treated too."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            if self.skips_nonfinite and not math.isfinite(total_norm(grads_of(self.param_groups), math.inf)):
                return loss
            if self._ignore is not None:
                ignore_gradients(self, self._ignore, self._moment)
            if self._clip is not None:
                clip_gradients(self, self._clip, self._moment)
            # The moments of a unit that gets no gradient fade into denormal numbers, with which a CPU computes many
            # times slower: a step of the DQN of CartPole takes 200 us instead of 80 after some thousand steps.
            # (`torch.compile` cannot trace the switch.)
            keep = torch.compiler.is_compiling() or _DENORMAL * 1.0 == 0.0
            if not keep:
                torch.set_flush_denormal(True)
            try:
                (self._decoupled_step if self._decoupled else self._torch_step)()
            finally:
                if not keep:
                    torch.set_flush_denormal(False)
        return loss

    def _decoupled_step(self) -> None:
        decays = [group["weight_decay"] for group in self.param_groups]
        try:
            for group, decay in zip(self.param_groups, decays):
                for param in group["params"]:
                    if decay and param.grad is not None:
                        param.mul_(1 - group["lr"] * decay)
                # The decay is done: torch must not add it to the gradient as well.
                group["weight_decay"] = 0
            self._torch_step()
        finally:
            for group, decay in zip(self.param_groups, decays):
                group["weight_decay"] = decay

    def get_grad(self) -> float:
        """The ``grad_norm_type``-norm (2 by default) of the present gradients of all parameters."""
        return float(total_norm(grads_of(self.param_groups), float(self._grad_norm_type or 2.0)))


class Adam(_GuardedOptimizer, torch.optim.Adam):
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
        self._fused = True if _fused_supported(groups) else None
        super().__init__(
            groups, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, fused=self._fused
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of any ``torch.optim.Adam``; this optimizer keeps its own choice of kernel."""
        groups = [{**group, "fused": self._fused, "foreach": None} for group in state_dict["param_groups"]]
        super().load_state_dict({**state_dict, "param_groups": groups})


class RMSprop(_GuardedOptimizer, torch.optim.RMSprop):
    """RMSprop (Hinton 2012) with the gradient clipping and ignoring of :class:`Adam`.

    The second moment of the momentum kinds is ``square_avg``.
    """

    _moment = "square_avg"
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
        super().__init__(
            _groups(params),
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
        )


class SGD(_GuardedOptimizer, torch.optim.SGD):
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
    return [{**group, "params": _parameters(group["params"])} for group in groups]


def _parameters(params: torch.Tensor | Iterable[Any]) -> list[torch.Tensor]:
    if isinstance(params, torch.Tensor):
        return [params]
    return [item[1] if isinstance(item, tuple) else item for item in params]


def _fused_supported(groups: list[dict[str, Any]]) -> bool:
    """Fused steps need dense floating parameters on one of the devices that torch has the kernel for."""
    devices = ("cpu", "cuda") if _TORCH_VERSION >= (2, 4) else ("cuda",)
    return all(
        torch.is_floating_point(param) and not param.is_sparse and param.device.type in devices
        for group in groups
        for param in group["params"]
    )
