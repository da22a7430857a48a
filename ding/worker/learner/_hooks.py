"""The hooks that come with the learner.

Exceptions::

    HookConfigError (ValueError)      a hook config that cannot be understood
    └── UnknownHookError (KeyError)   a hook type that is not registered
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.distributed as dist

from ding.data.roles import LearnMode
from ding.torch_utils import CountVar
from ding.utils import write_scalars
from ding.utils.file_helper import read_file, save_file
from ding.worker.learner._tick_monitor import TickMonitor

# Values of this name are not averaged over the ranks.
_KEEP_PREFIX = "noreduce_"


class HookConfigError(ValueError):
    """A hook config that cannot be understood."""


class UnknownHookError(HookConfigError, KeyError):
    """A hook type that is not registered. ``str()`` is the plain message, without the quotes of ``KeyError``."""

    def __str__(self) -> str:
        return str(self.args[0])


class Engine(Protocol):
    """The learner, as its hooks see it; see :class:`~ding.worker.learner.base_learner.BaseLearner`."""

    last_iter: CountVar
    collector_envstep: int
    log_buffer: dict[str, dict[str, Any]]
    monitor: TickMonitor | None
    logger: Any
    tb_logger: Any
    rank: int
    only_monitor_rank0: bool
    exp_name: str
    instance_name: str
    ckpt_name: str | None

    @property
    def policy(self) -> LearnMode:
        """Learn mode of the policy."""

    def info(self, s: str) -> None:
        """Log a line as information."""


class Hook(ABC):
    """Something that is called at a certain point of a run.

    Args:
        name: name of the hook.
        priority: hooks of lower priority run first; ``>= 0``.

    Raises:
        AssertionError: negative priority.
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
        """Hooks of lower priority run first."""
        return self._priority

    @abstractmethod
    def __call__(self, engine: Engine) -> Any:
        """Do the work; ``engine`` is the learner."""


class LearnerHook(Hook):
    """A hook of the learner.

    Args:
        position: one of :attr:`positions`.
        args, kwargs: ``name`` and ``priority`` of :class:`Hook`.

    Raises:
        AssertionError: unknown position.
    """

    positions: ClassVar[list[str]] = ["before_run", "after_run", "before_iter", "after_iter"]

    def __init__(self, *args: Any, position: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if position not in self.positions:
            raise AssertionError(f"hook {self.name!r}: position must be one of {self.positions}, got {position!r}")
        self._position = position

    @property
    def position(self) -> str:
        """Where in the run the hook is called."""
        return self._position


class LoadCkptHook(LearnerHook):
    """Load a checkpoint: policy, train iteration and env step.

    ``ext_args``: ``load_path``, the file; ``''`` loads nothing.
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "load_path" not in ext_args:
            raise HookConfigError(f"hook {self.name!r}: ext_args needs the key 'load_path'")
        self._load_path = ext_args["load_path"]

    def __call__(self, engine: Engine) -> None:
        if not self._load_path:
            return
        state = dict(read_file(self._load_path))
        if "last_iter" in state:
            engine.last_iter.update(state.pop("last_iter"))
        if "last_step" in state:
            engine.collector_envstep = state.pop("last_step")
        engine.policy.load_state_dict(state)
        engine.info(f"{engine.instance_name} loaded the checkpoint {self._load_path}")


class SaveCkptHook(LearnerHook):
    """Save a checkpoint of the policy and of the counters ``last_iter`` and ``last_step``, on rank 0.

    It lies in ``./<exp_name>/ckpt`` (``ckpt_<instance_name>`` when that is not ``learner``) and is called
    ``engine.ckpt_name``, or ``iteration_<train_iter>.pth.tar`` when that is ``None``.

    ``ext_args``: ``freq``, in train iterations (default 1).
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._freq = checked_freq(self.name, ext_args)

    def __call__(self, engine: Engine) -> None:
        if engine.rank == 0 and engine.last_iter.val % self._freq == 0:
            save_learner_checkpoint(engine)


def save_learner_checkpoint(engine: Engine) -> str:
    """Write the learner's checkpoint, whole or not at all, and return its path."""
    suffix = "" if engine.instance_name == "learner" else f"_{engine.instance_name}"
    folder = os.path.join(".", engine.exp_name, f"ckpt{suffix}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, engine.ckpt_name or f"iteration_{engine.last_iter.val}.pth.tar")
    state = dict(engine.policy.state_dict())
    state.update(last_iter=engine.last_iter.val, last_step=engine.collector_envstep)
    save_file(path, state)
    engine.info(f"{engine.instance_name} saved the checkpoint {path}")
    return path


class LogShowHook(LearnerHook):
    """Keep the moving averages, and show them every ``freq`` iterations as text and as tensorboard values.

    Scalars go to ``<instance>_iter/<name>_avg`` (x: train iteration) and ``<instance>_step/<name>_avg`` (x: env step);
    ``[scalars]`` values to ``<instance>_iter/<name>/<key>``, ``[histogram]`` values to ``<instance>/<name>``.

    ``ext_args``: ``freq``, in train iterations (default 1).
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._freq = checked_freq(self.name, ext_args)

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

    All values travel together in one reduction, on the device of the process group (so gloo on CPUs works). Entries
    whose key starts with ``noreduce_`` stay as they are. All ranks must log the same keys and shapes.

    ``ext_args``: none.

    Raises:
        TypeError: a value of another type (when called).
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def __call__(self, engine: Engine) -> None:
        parts: list[torch.Tensor] = []
        for name, buffer in engine.log_buffer.items():
            _gather(buffer, name, parts)
        if not parts:
            return
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        flat = torch.cat([part.to(device) for part in parts])
        dist.all_reduce(flat)
        means = (flat / dist.get_world_size()).cpu()
        offset = 0
        for buffer in engine.log_buffer.values():
            offset = _scatter(buffer, means, offset)


def _kept(key: object) -> bool:
    return isinstance(key, str) and key.startswith(_KEEP_PREFIX)


def _gather(values: Mapping[str, Any], path: str, parts: list[torch.Tensor]) -> None:
    """Append each value that is to be reduced as a flat float64 tensor."""
    for key, value in values.items():
        where = f"{path}.{key}"
        if _kept(key):
            continue
        if isinstance(value, MutableMapping):
            _gather(value, where, parts)
        elif isinstance(value, (bool, str)) or not isinstance(
            value, (int, float, list, tuple, torch.Tensor, np.ndarray, np.generic)
        ):
            raise TypeError(f"cannot average {where!r} over the ranks: it is a {type(value).__name__}")
        else:
            parts.append(torch.as_tensor(value, dtype=torch.float64).detach().reshape(-1))


def _scatter(values: MutableMapping[str, Any], means: torch.Tensor, offset: int) -> int:
    """Write the means back in the order of :func:`_gather`; returns the next offset."""
    for key, value in list(values.items()):
        if _kept(key):
            continue
        if isinstance(value, MutableMapping):
            offset = _scatter(value, means, offset)
            continue
        shape = torch.as_tensor(value).shape
        count = shape.numel()
        mean = means[offset : offset + count].reshape(shape)
        values[key] = mean.tolist() if isinstance(value, (int, float, list, tuple, np.generic)) else mean
        offset += count
    return offset


def checked_freq(hook_name: str, ext_args: Mapping[str, Any] | None) -> int:
    """``ext_args['freq']``, default 1.

    Raises:
        HookConfigError: it is not a positive whole number.
    """
    freq = (ext_args or {}).get("freq", 1)
    if isinstance(freq, float) and freq.is_integer():
        freq = int(freq)
    if not isinstance(freq, int) or freq < 1:
        raise HookConfigError(f"hook {hook_name!r}: freq must be a whole number of iterations from 1 on, got {freq!r}")
    return int(freq)
