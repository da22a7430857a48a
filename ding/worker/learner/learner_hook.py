"""Hooks of the learner: built-in hooks, the registry of hook types, and construction from a config.

Entries of a ``hook`` config have two forms. The short form is a key of :data:`simplified_hook_mapping` with a value;
``None`` or ``False`` creates no hook::

    hook=dict(load_ckpt_before_run='./exp/ckpt/ckpt_best.pth.tar', log_show_after_iter=100)

The full form is any key with a dict::

    hook=dict(my_hook=dict(name='my_hook', type='save_ckpt', position='after_iter', priority=40, ext_args=dict(freq=5)))

Exceptions::

    HookConfigError (ValueError)      invalid hook config
    └── UnknownHookError (KeyError)   hook type that is not registered
"""

import functools
import logging
import math
import operator
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.distributed as dist

from ding.data.roles import LearnMode, attribute_of
from ding.torch_utils import CountVar
from ding.torch_utils.weight_checks import check_weights
from ding.utils import did_you_mean, write_scalars
from ding.utils.checkpoint import read_checkpoint
from ding.utils.errors import UserMistake
from ding.utils.nested import iter_paths
from ding.worker.learner.saving import CheckpointSaver, load_weights
from ding.worker.learner.tick_monitor import TickMonitor

log = logging.getLogger(__name__)

# Values with this prefix are not averaged over the ranks.
_KEEP_PREFIX = "noreduce_"


class HookConfigError(ValueError, UserMistake):
    """The hook config is invalid."""


class UnknownHookError(HookConfigError, KeyError):
    """The hook type is not registered. ``str()`` is the plain message, without the quotes of ``KeyError``."""

    def __str__(self) -> str:
        return str(self.args[0])


class Engine(Protocol):
    """Learner interface of the hooks; see :class:`~ding.worker.learner.base_learner.BaseLearner`."""

    last_iter: CountVar
    collector_envstep: int
    log_buffer: dict[str, dict[str, Any]]
    logger: Any
    tb_logger: Any
    rank: int
    only_monitor_rank0: bool
    exp_name: str
    instance_name: str
    ckpt_name: str | None
    saver: CheckpointSaver

    @property
    def monitor(self) -> TickMonitor | None:
        """Moving averages of the logged values."""

    @property
    def policy(self) -> LearnMode:
        """Learn mode of the policy."""

    def info(self, s: str) -> None:
        """Log a line at info level."""


class Hook(ABC):
    """Callable that runs at a certain point of a run.

    Args:
        name: Name of the hook.
        priority: Hooks with a lower priority run first; ``>= 0``.

    Raises:
        AssertionError: The priority is negative.
    """

    def __init__(self, name: str, priority: float, **kwargs: Any) -> None:
        if priority < 0:
            raise AssertionError(f"hook {name!r}: priority must be 0 or more, got {priority}")
        self._name = name
        self._priority = priority

    @property
    def name(self) -> str:
        """Name of the hook."""
        return self._name

    @property
    def priority(self) -> float:
        """Hooks with a lower priority run first."""
        return self._priority

    @abstractmethod
    def __call__(self, engine: Engine) -> object:
        """Run the hook; ``engine`` is the learner."""


class LearnerHook(Hook):
    """Base class of learner hooks.

    Args:
        position: One of :attr:`positions`.
        args, kwargs: ``name`` and ``priority`` of :class:`Hook`.

    Raises:
        AssertionError: The position is unknown.
    """

    positions: ClassVar[list[str]] = ["before_run", "after_run", "before_iter", "after_iter"]

    due_every_iters = 1
    """At ``after_iter``, interval of train iterations between guaranteed calls. The hook may also be called in
    between."""

    def __init__(self, *args: Any, position: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if position not in self.positions:
            raise AssertionError(f"hook {self.name!r}: position must be one of {self.positions}, got {position!r}")
        self._position = position

    @property
    def position(self) -> str:
        """Position in the run at which the hook is called."""
        return self._position


class LoadCkptHook(LearnerHook):
    """Load a checkpoint: policy, train iteration and env step.

    ``ext_args``: ``load_path``, the file or folder of a checkpoint; ``''`` loads nothing.

    Raises (when called):
        FileNotFoundError: The file or folder does not exist.
        FileRefusedError: The checkpoint is damaged; the message names the newest good one next to it.
        PolicyWeightsError: The checkpoint belongs to another policy or network.
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_names(self.name, ext_args, ("load_path",))
        if "load_path" not in ext_args:
            raise HookConfigError(f"hook {self.name!r}: ext_args needs the key 'load_path'")
        self._load_path = ext_args["load_path"]

    def __call__(self, engine: Engine) -> None:
        if not self._load_path:
            return
        if not os.path.exists(self._load_path):
            raise FileNotFoundError(f"hook {self.name!r}: there is no checkpoint {os.path.abspath(self._load_path)}")
        state = read_checkpoint(self._load_path)
        check_weights(state.get("model"), attribute_of(engine.policy, "model"), f"the checkpoint {self._load_path}")
        if "last_iter" in state:
            engine.last_iter.update(state.pop("last_iter"))
        if "last_step" in state:
            engine.collector_envstep = state.pop("last_step")
        load_weights(engine.policy, state, f"the checkpoint {self._load_path}")
        engine.info(f"{engine.instance_name} loaded the checkpoint {self._load_path}")


class SaveCkptHook(LearnerHook):
    """Save a checkpoint of the policy and of the counters ``last_iter`` and ``last_step``, on rank 0.

    The file is stored in ``./<exp_name>/ckpt`` (``ckpt_<instance_name>`` unless that is ``learner``) as
    ``engine.ckpt_name``, or as ``iteration_<train_iter>.pth.tar`` if that is ``None``.

    ``ext_args``: ``freq``, interval in train iterations (default 1); or ``minutes``, interval in minutes.
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_names(self.name, ext_args, ("freq", "minutes"))
        self._freq = checked_freq(self.name, ext_args)
        self._interval_s = _checked_minutes(self.name, ext_args) * 60
        self._saved_s = time.monotonic()
        # A subclass may use another schedule.
        if type(self) is SaveCkptHook and not self._interval_s:
            self.due_every_iters = self._freq

    def __call__(self, engine: Engine) -> None:
        if self._interval_s:
            due = time.monotonic() - self._saved_s >= self._interval_s
        else:
            due = engine.last_iter.val % self._freq == 0
        if due and engine.rank == 0:
            save_learner_checkpoint(engine)
            self._saved_s = time.monotonic()


def save_learner_checkpoint(engine: Engine) -> str:
    """Write the learner's checkpoint atomically, and return the path of its classic file.

    Raises:
        DiskFullError: There is not enough disk space.
        NonFiniteError: A weight is NaN or infinite; nothing is written.
    """
    suffix = "" if engine.instance_name == "learner" else f"_{engine.instance_name}"
    folder = os.path.join(".", engine.exp_name, f"ckpt{suffix}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, engine.ckpt_name or f"iteration_{engine.last_iter.val}.pth.tar")
    state = dict(engine.policy.state_dict())
    check_weights(state.get("model"), attribute_of(engine.policy, "model"), f"the checkpoint {path}")
    state.update(last_iter=engine.last_iter.val, last_step=engine.collector_envstep)
    engine.saver.save(path, state)
    engine.info(f"{engine.instance_name} saved the checkpoint {path}")
    return path


class LogShowHook(LearnerHook):
    """Update the moving averages, and log them every ``freq`` iterations as text and to TensorBoard.

    Scalars are logged as ``<instance>_iter/<name>_avg`` (x-axis: train iteration) and ``<instance>_step/<name>_avg``
    (x-axis: env step); ``[scalars]`` values as ``<instance>_iter/<name>/<key>``, ``[histogram]`` values as
    ``<instance>/<name>``.

    ``ext_args``: ``freq``, interval in train iterations (default 1).
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_names(self.name, ext_args, ("freq",))
        self._freq = checked_freq(self.name, ext_args)
        if type(self) is LogShowHook:
            self.due_every_iters = self._freq

    def __call__(self, engine: Engine) -> None:
        monitor = engine.monitor
        if monitor is not None and (engine.rank == 0 or not engine.only_monitor_rank0):
            monitor.record(engine.log_buffer["scalar"])
            monitor.time.step()
            if engine.last_iter.val % self._freq == 0:
                self._show(engine, monitor)
        for buffer in engine.log_buffer.values():
            buffer.clear()

    def _show(self, engine: Engine, monitor: TickMonitor) -> None:
        train_iter = engine.last_iter.val
        averages = {f"{name}_avg": monitor.avg[name]() for name in engine.policy.monitor_vars()}
        engine.info(
            f"training iteration {train_iter} of {engine.instance_name}" + engine.logger.get_tabulate_vars_hor(averages)
        )
        writer, instance = engine.tb_logger, engine.instance_name
        groups = engine.log_buffer["scalars"].items()
        grouped = {f"{name}/{key}": value for name, group in groups for key, value in group.items()}
        write_scalars(writer, f"{instance}_iter/", {**averages, **grouped}, train_iter)
        write_scalars(writer, f"{instance}_step/", averages, engine.collector_envstep)
        for name, values in engine.log_buffer["histogram"].items():
            writer.add_histogram(f"{instance}/{name}", values, train_iter)


class LogReduceHook(LearnerHook):
    """Replace numbers, tensors, lists and nested dicts of the log buffer by their mean over all ranks.

    A single reduction covers all values, on the device of the process group (so gloo on CPUs works). Entries with the
    prefix ``noreduce_`` are unchanged. All ranks must log the same keys and shapes.

    ``ext_args``: none.

    Raises:
        TypeError: (when called) A value has another type.
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def __call__(self, engine: Engine) -> None:
        found = [(keys, value) for keys, value in iter_paths(engine.log_buffer) if not any(map(_kept, keys[1:]))]
        parts = [_flat(".".join(map(str, keys)), value) for keys, value in found]
        if not parts:
            return
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        flat = torch.cat([part.to(device) for part in parts])
        dist.all_reduce(flat)
        means = (flat / dist.get_world_size()).cpu()
        for (keys, value), mean in zip(found, means.split([len(part) for part in parts])):
            section = functools.reduce(operator.getitem, keys[:-1], engine.log_buffer)
            shaped = mean.reshape(torch.as_tensor(value).shape)
            section[keys[-1]] = shaped.tolist() if isinstance(value, (int, float, list, tuple, np.generic)) else shaped


def _kept(key: object) -> bool:
    return isinstance(key, str) and key.startswith(_KEEP_PREFIX)


def _flat(name: str, value: object) -> torch.Tensor:
    """Flatten the value to a float64 tensor."""
    if isinstance(value, (bool, str)) or not isinstance(
        value, (int, float, list, tuple, torch.Tensor, np.ndarray, np.generic)
    ):
        raise TypeError(f"cannot average {name!r} over the ranks: it is a {type(value).__name__}")
    return torch.as_tensor(value, dtype=torch.float64).detach().reshape(-1)


def _check_names(hook_name: str, ext_args: Mapping[str, Any] | None, known: Sequence[str]) -> None:
    for name in ext_args or {}:
        if name not in known:
            raise HookConfigError(f"hook {hook_name!r}: ext_args.{name} is unknown.{did_you_mean(name, known)}")


def checked_freq(hook_name: str, ext_args: Mapping[str, Any] | None) -> int:
    """Return ``ext_args['freq']``, default 1.

    Raises:
        HookConfigError: The value is not a positive integer.
    """
    freq = (ext_args or {}).get("freq", 1)
    if isinstance(freq, float) and freq.is_integer():
        freq = int(freq)
    if not isinstance(freq, int) or freq < 1:
        raise HookConfigError(f"hook {hook_name!r}: freq must be a whole number of iterations from 1 on, got {freq!r}")
    return int(freq)


def _checked_minutes(name: str, ext_args: Mapping[str, Any] | None) -> float:
    minutes = (ext_args or {}).get("minutes", 0)
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 <= minutes < math.inf:
        raise HookConfigError(f"hook {name!r}: minutes must be a number of 0 or more, got {minutes!r}")
    return float(minutes)


Hooks = dict[str, list[LearnerHook]]

hook_mapping: dict[str, type[LearnerHook]] = {
    "load_ckpt": LoadCkptHook,
    "save_ckpt": SaveCkptHook,
    "log_show": LogShowHook,
    "log_reduce": LogReduceHook,
}

_FULL_FORM_KEYS = ("name", "type", "position", "priority", "ext_args")
_DEFAULT_PRIORITY = 100


def _short(type_: str, name: str, priority: int, position: str, key: str = "") -> Callable[[Any], LearnerHook]:
    """Return the constructor of a short form; its value becomes ``ext_args[key]``, or is ignored without a key."""

    def build(value: Any) -> LearnerHook:
        return hook_mapping[type_](name, priority, position=position, ext_args={key: value} if key else {})

    return build


# Short key -> function from the value to the hook.
simplified_hook_mapping: dict[str, Callable[[Any], LearnerHook]] = {
    "load_ckpt_before_run": _short("load_ckpt", "load_ckpt", 20, "before_run", "load_path"),
    "log_show_after_iter": _short("log_show", "log_show", 20, "after_iter", "freq"),
    "save_ckpt_after_iter": _short("save_ckpt", "save_ckpt_after_iter", 20, "after_iter", "freq"),
    "save_ckpt_after_run": _short("save_ckpt", "save_ckpt_after_run", 20, "after_run"),
    "save_ckpt_every_minutes": _short("save_ckpt", "save_ckpt_every_minutes", 20, "after_iter", "minutes"),
    "log_reduce_after_iter": _short("log_reduce", "log_reduce_after_iter", 10, "after_iter"),
}


def register_learner_hook(name: str, hook_type: type[LearnerHook]) -> None:
    """Register a hook class as ``type: name`` of the full form.

    Raises:
        AssertionError: ``hook_type`` is not a subclass of :class:`LearnerHook`.
    """
    if not (isinstance(hook_type, type) and issubclass(hook_type, LearnerHook)):
        raise AssertionError(f"hook type {name!r} must be a subclass of LearnerHook, got {hook_type!r}")
    hook_mapping[name] = hook_type


def build_learner_hook_by_cfg(cfg: Mapping[str, Any]) -> Hooks:
    """Build the hooks of a ``hook`` config; return position -> hooks in execution order.

    Raises:
        HookConfigError: An entry is neither a known short key nor a full form.
        UnknownHookError: A ``type`` is not registered (also a ``KeyError``).
    """
    hooks: Hooks = {position: [] for position in LearnerHook.positions}
    for key, value in cfg.items():
        if isinstance(value, Mapping):
            add_learner_hook(hooks, _build_full_form(key, value))
        elif key not in simplified_hook_mapping:
            raise HookConfigError(
                f"hook.{key}: expected a dict with {', '.join(_FULL_FORM_KEYS)}, or a short key."
                f"{did_you_mean(key, simplified_hook_mapping)}"
            )
        elif value is not None and value is not False:
            add_learner_hook(hooks, simplified_hook_mapping[key](value))
    return hooks


def _build_full_form(key: str, value: Mapping[str, Any]) -> LearnerHook:
    missing = [name for name in ("name", "type", "position") if name not in value]
    if missing:
        raise HookConfigError(f"hook.{key}: missing {', '.join(missing)}")
    for name in value:
        if name not in _FULL_FORM_KEYS:
            raise HookConfigError(f"hook.{key}.{name} is unknown.{did_you_mean(name, _FULL_FORM_KEYS)}")
    if value["type"] not in hook_mapping:
        raise UnknownHookError(
            f"hook.{key}.type: unknown {value['type']!r}.{did_you_mean(value['type'], hook_mapping)}"
        )
    return hook_mapping[value["type"]](
        value["name"],
        value.get("priority", _DEFAULT_PRIORITY),
        position=value["position"],
        ext_args=value.get("ext_args", {}),
    )


def add_learner_hook(hooks: Hooks, hook: LearnerHook) -> None:
    """Insert a hook after all hooks of its position with the same or a lower priority value."""
    at_position = hooks[hook.position]
    index = len(at_position)
    while index > 0 and at_position[index - 1].priority > hook.priority:
        index -= 1
    at_position.insert(index, hook)


def merge_hooks(hooks1: Hooks, hooks2: Hooks) -> Hooks:
    """Return a new dict with the hooks of both, sorted by priority; equal priorities keep their order, ``hooks1``
    first.

    Raises:
        AssertionError: The dicts have different positions.
    """
    if set(hooks1) != set(hooks2):
        raise AssertionError(f"hooks of different positions cannot be merged: {sorted(hooks1)} and {sorted(hooks2)}")
    return {key: sorted(hooks1[key] + hooks2[key], key=lambda hook: hook.priority) for key in hooks1}


def show_hooks(hooks: Hooks) -> None:
    """Log the hooks by position, in execution order."""
    for position in LearnerHook.positions:
        for hook in hooks.get(position, []):
            log.info("%s: %s (%s, priority %s)", position, hook.name, type(hook).__name__, hook.priority)
