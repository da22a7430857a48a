"""Optimisers that can update contiguous runs of parameters, eagerly or in a recorded update.

``RecordableOptimizer`` is what the optimisers of :mod:`ding.torch_utils.optimizer_helper` share. A recorded step is
stated here in tensor operations, since the kernels of torch take lists of parameters; what it changes has the values of
torch's step but for rounding.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from ding.torch_utils._grad_guard import (
    Guard,
    clip_gradients,
    grads_of,
    ignore_gradients,
    limit_norm,
    total_norm,
)
from ding.torch_utils.graph.flat_parameters import FlatState, Part, Run, places_of, runs
from ding.torch_utils.graph.recording import NotRecordable, current_recording, host_numbers, stand_in
from ding.torch_utils.graph.step_count import StepCount
from ding.torch_utils.lr_scheduler import LinearDecay

_SETTINGS = ("_clip", "_ignore", "_grad_norm_type", "_decoupled", "_kernel", "schedule", "skips_nonfinite")
_Loss = TypeVar("_Loss")
# A denormal number: it equals zero when flushed.
_DENORMAL = 5e-324


@contextmanager
def without_denormals() -> Iterator[None]:
    """Treat denormal numbers as zero within the block.

    The moments of a unit that gets no gradient fade into such numbers, with which a CPU computes many times slower: a
    step of the DQN of CartPole takes 200 us instead of 80 after some thousand steps.
    """
    # `torch.compile` cannot trace the switch.
    keep = torch.compiler.is_compiling() or _DENORMAL * 1.0 == 0.0
    if not keep:
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if not keep:
            torch.set_flush_denormal(False)


class RecordableOptimizer(Optimizer):
    """Mix in before a class of ``torch.optim``: clips or ignores gradients, can be part of a recorded update
    (:mod:`ding.torch_utils.graph.recording`), and does not import torch's compiler.

    torch wraps these methods so that ``torch.compile`` leaves them alone, and the wrappers import the compiler at their
    first call, also in a run that compiles nothing: 1.2 s of CPU time, 30 % of a whole CartPole run with its imports.
    The functions inside the wrappers do the work. The hooks of ``step`` and of state dicts are called as torch does.
    """

    _moment = ""
    """Name of the second moment in the state of a parameter."""
    _moments: ClassVar[tuple[str, ...]] = ()
    """Names of all moments there."""
    _num_numbers: ClassVar[int] = 0
    """How many numbers a recorded step takes; none: steps cannot be recorded."""
    _unsupported: ClassVar[tuple[str, ...]] = ("maximize",)
    """Settings with which a step cannot be recorded."""
    _torch_step: ClassVar[Callable[[Any], object]]
    """The step of the torch class."""

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    _load_torch_state = inspect.unwrap(Optimizer.load_state_dict)

    schedule: LinearDecay | None = None
    """How the learning rate changes; its steps are taken by the policy."""
    skips_nonfinite = False
    """Whether a step whose gradient is not finite is left out; see ``policy.learn.on_nonfinite``."""
    _decoupled = False
    """Whether the weights decay by themselves, not by the gradient."""
    _kernel: dict[str, Any] = {}
    """Options of torch that choose how a step is computed."""
    _clip: Guard | None
    _ignore: Guard | None
    _grad_norm_type: float | None
    _takes_flat: ClassVar[bool] = False
    """Whether eager steps on a CPU update adjacent parameters together."""
    _steps: StepCount | None = None
    """Of recorded and of flat steps."""
    _flat: FlatState | None = None
    grad_norm: torch.Tensor
    """The norm that the last step with ``max_grad_norm`` found, 0-d."""

    def __getstate__(self) -> dict[str, Any]:
        """What a copy gets: torch's part, which leaves out the attributes of subclasses, and the settings of these."""
        own = {name: vars(self)[name] for name in _SETTINGS if name in vars(self)}
        return {**super().__getstate__(), **own}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of this class or the one of torch; this optimiser keeps its own choice of kernel."""
        groups = [{**group, **self._kernel} for group in state_dict["param_groups"]]
        self._load_torch_state({**state_dict, "param_groups": groups})

    @torch.no_grad()
    def forget(self) -> None:
        """Set the moments and the counts of steps to zero, where they are: the next step is like the first one."""
        for state in self.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    value.zero_()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none or param.grad is None:
                    param.grad = None
                else:
                    param.grad.detach_().zero_()

    def step(  # type: ignore[override]
        self, closure: Callable[[], _Loss] | None = None, max_grad_norm: float | None = None
    ) -> _Loss | None:
        """Clip or ignore, then update. ``closure`` is evaluated first, so that its gradients are treated too.

        ``max_grad_norm`` limits the 2-norm of the whole gradient before all else; ``grad_norm`` is what it was.
        """
        if current_recording.get() is not None:
            raise NotRecordable("an update steps its optimiser itself, not by Policy._optimize")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            if self._takes_flat and self._step_flat(max_grad_norm):
                return loss
            if max_grad_norm is not None:
                params = [param for group in self.param_groups for param in group["params"]]
                self.grad_norm = nn.utils.clip_grad_norm_(params, max_grad_norm)
            if self.skips_nonfinite and not math.isfinite(total_norm(grads_of(self.param_groups), math.inf)):
                return loss
            if self._ignore is not None:
                ignore_gradients(self, self._ignore, self._moment)
            if self._clip is not None:
                clip_gradients(self, self._clip, self._moment)
            with without_denormals():
                (self._decoupled_step if self._decoupled else self._torch_step)()
        return loss

    def _step_flat(self, max_grad_norm: float | None) -> bool:
        """Make the step on runs of parameters; returns False where it has to be made on each parameter.

        The bits are the same but for the rounding of a norm that limits.
        """
        params = (group := self.param_groups[0])["params"]
        if self.skips_nonfinite or len(self.param_groups) > 1 or any(map(group.get, self._unsupported)):
            return False
        if self._flat is None or self._flat.places != places_of(params, self.state):
            self._flat = self._find_flat(params)
        grads = self._flat.gradients()
        if not grads:
            return False
        with without_denormals():
            norm = self._update_flat(self._flat.parts, grads, max_grad_norm)
        if norm is not None:
            self.grad_norm = norm
        if self._clip is not None or (norm is not None and max_grad_norm is not None and norm > max_grad_norm):
            self._flat.hand_back(grads)
        return True

    def _find_flat(self, params: list[torch.Tensor]) -> FlatState:
        try:
            self._check_recordable()
            found = runs(params)
            # Torch has less to do for a tensor than this has for a run.
            if len(found) <= len(params) // 4 and all(param.is_cpu for param in params):
                self.lay_out()
                parts = [(0, run.flat, [part.flat for part in self._moments_of(run)]) for run in found]
                return FlatState(places_of(params, self.state), found, parts)
        except (ValueError, NotRecordable):
            pass
        return FlatState(places_of(params, self.state), [], [])

    # As a part of a recorded update, see :mod:`ding.torch_utils.graph.recording`.

    def record_step(self, loss: torch.Tensor, max_grad_norm: float | None = None) -> torch.Tensor | None:
        """Return the step on ``loss`` while an update is recorded: gradients, clipping and update as tensor operations.

        Args:
            max_grad_norm: limit of the 2-norm of the whole gradient.

        Returns:
            The norm before it was limited by ``max_grad_norm``, a 0-d tensor; ``None`` without a limit.

        Raises:
            NotRecordable: the optimiser has a setting that is not supported here.
        """
        own = [(number, run) for number, group in enumerate(self.param_groups) for run in runs(group["params"])]
        leaves = [stand_in(param) for _, run in own for param in run.members]
        try:
            grads = iter(torch.autograd.grad(loss, leaves))
        except RuntimeError as error:
            raise NotRecordable(f"the gradient of a loss: {error}") from error
        with torch.no_grad():
            flat = [torch.cat([next(grads).reshape(-1) for _ in run.members]) for _, run in own]
            parts = [(group, stand_in(run), [stand_in(part) for part in self._moments_of(run)]) for group, run in own]
            return self._update_flat(parts, flat, max_grad_norm)

    def _update_flat(
        self,
        parts: Iterable[Part],
        grads: list[torch.Tensor],
        max_grad_norm: float | None,
    ) -> torch.Tensor | None:
        """Clip ``grads`` in place and change ``parts``; returns the norm."""
        norm = None if max_grad_norm is None else limit_norm(grads, max_grad_norm)
        if self._clip is not None and self._clip.kind == "value":
            for grad in grads:
                grad.clamp_(-self._clip.limit, self._clip.limit)
        elif self._clip is not None:
            limit_norm(grads, self._clip.limit, self._clip.norm_type)
        count = self._num_numbers
        numbers = host_numbers(self._next_numbers, count * len(self.param_groups))
        for (number, param, moments), grad in zip(parts, grads):
            own = numbers[number * count : (number + 1) * count]
            self._record_update(self.param_groups[number], param, grad, moments, own)
        return norm

    def lay_out(self) -> list[torch.Tensor]:
        """Store the moments of adjacent parameters, and all step counts, contiguously.

        Raises:
            NotRecordable: the optimiser has a setting that a recorded step does not support, or its parameters have
                made different numbers of steps.
        """
        self._check_recordable()
        params = [param for group in self.param_groups for param in group["params"]]
        if not self.is_laid_out():
            counts = {float(self.state[param]["step"]) if self.state[param] else 0.0 for param in params}
            if len(counts) > 1:
                raise NotRecordable(f"the parameters of an optimiser made different numbers of steps: {sorted(counts)}")
            device = params[0].device if self.param_groups[0].get("fused") else torch.device("cpu")
            self._steps = StepCount(len(params), counts.pop(), device)
            for name in self._moments:
                for run in runs(params):
                    old = [self.state[param].get(name) for param in run.members]
                    parts = [torch.zeros_like(p) if one is None else one for p, one in zip(run.members, old)]
                    views = run.views(torch.cat([part.detach().reshape(-1) for part in parts]))
                    for param, view in zip(run.members, views):
                        self.state[param][name] = view
            for param, step in zip(params, self._steps.counts):
                self.state[param]["step"] = step
        return [self.state[param][name] for param in params for name in self._moments]

    def is_laid_out(self) -> bool:
        """Return whether the state is as :meth:`lay_out` made it."""
        step = self.state.get(self.param_groups[0]["params"][0], {}).get("step")
        return self._steps is not None and step is not None and step.data_ptr() == self._steps.counts.data_ptr()

    def _check_recordable(self) -> None:
        guard = self._clip
        if not self._num_numbers:
            raise NotRecordable(f"steps of {type(self).__name__}")
        if self._ignore is not None or (guard is not None and guard.kind not in ("value", "norm")):
            raise NotRecordable("gradients are ignored, or clipped by the moments of the optimiser")
        if self.skips_nonfinite:
            raise NotRecordable("learn.on_nonfinite='skip' looks at each gradient")
        for group in self.param_groups:
            for name in self._unsupported:
                if group.get(name):
                    raise NotRecordable(f"{type(self).__name__} with {name}={group[name]!r}")

    def _moments_of(self, params: Run) -> list[Run]:
        return [one for name in self._moments for one in runs(self.state[param][name] for param in params.members)]

    def _next_numbers(self) -> Sequence[float]:
        """Count a step, and return what :meth:`_record_update` needs to know of it, for one group after the other."""
        assert self._steps is not None  # laid out for the recording
        step = self._steps.next()
        return [number for group in self.param_groups for number in self._numbers_of(group, step)]

    def _numbers_of(self, group: Mapping[str, Any], step: float) -> Sequence[float]:
        """What a step of this number, from 1 on, on a group of parameters needs beside tensors."""
        raise NotImplementedError

    def _record_update(
        self,
        group: Mapping[str, Any],
        param: torch.Tensor,
        grad: torch.Tensor,
        moments: Sequence[torch.Tensor],
        numbers: Sequence[Any],
    ) -> None:
        """Change ``param`` and ``moments``, all flat ``[n]``, in place, by ``numbers`` of :meth:`_numbers_of`."""

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
        """Return the ``grad_norm_type``-norm (2 by default) of the present gradients of all parameters."""
        return float(total_norm(grads_of(self.param_groups), float(self._grad_norm_type or 2.0)))


class RecordableAdam(RecordableOptimizer):
    """The step of Adam and AdamW over flat tensors."""

    _moment = "exp_avg_sq"
    _moments = ("exp_avg", "exp_avg_sq")
    _num_numbers = 3
    _unsupported = ("maximize", "amsgrad")

    def _numbers_of(self, group: Mapping[str, Any], step: float) -> Sequence[float]:
        beta1, beta2 = group["betas"]
        return group["lr"] / (1 - beta1**step), (1 - beta2**step) ** -0.5, 1 - group["lr"] * group["weight_decay"]

    def _record_update(
        self,
        group: Mapping[str, Any],
        param: torch.Tensor,
        grad: torch.Tensor,
        moments: Sequence[torch.Tensor],
        numbers: Sequence[Any],
    ) -> None:
        (average, square), (rate, correction, kept) = moments, numbers
        beta1, beta2 = group["betas"]
        if group["weight_decay"] and self._decoupled:
            param.mul_(kept)
        elif group["weight_decay"]:
            grad = grad.add(param, alpha=group["weight_decay"])
        average.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        # A product, since a division takes as long as a root.
        param.sub_(rate * average / (square.sqrt() * correction + group["eps"]))


class RecordableRMSprop(RecordableOptimizer):
    """The step of RMSprop over flat tensors."""

    _takes_flat = True
    _moment = "square_avg"
    _moments = ("square_avg",)
    _num_numbers = 1
    _unsupported = ("maximize", "momentum", "centered")

    def _numbers_of(self, group: Mapping[str, Any], step: float) -> Sequence[float]:
        return (group["lr"],)

    def _record_update(
        self,
        group: Mapping[str, Any],
        param: torch.Tensor,
        grad: torch.Tensor,
        moments: Sequence[torch.Tensor],
        numbers: Sequence[Any],
    ) -> None:
        (square,), (rate,) = moments, numbers
        if group["weight_decay"]:
            grad = grad.add(param, alpha=group["weight_decay"])
        square.mul_(group["alpha"]).addcmul_(grad, grad, value=1 - group["alpha"])
        param.sub_(rate * grad / (square.sqrt() + group["eps"]))


def record_step(optimizer: Optimizer, loss: torch.Tensor, max_grad_norm: float | None) -> torch.Tensor | None:
    """:meth:`RecordableOptimizer.record_step`.

    Raises:
        NotRecordable: ``optimizer`` is none of this module's.
    """
    if not isinstance(optimizer, RecordableOptimizer):
        raise NotRecordable(f"steps of {type(optimizer).__name__}; those of ding.torch_utils can be recorded")
    return optimizer.record_step(loss, max_grad_norm)
