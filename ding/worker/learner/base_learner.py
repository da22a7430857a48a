"""Learner: updates a policy on batches of samples, keeps the counters and calls the hooks.

One *train iteration* corresponds to one log dict returned by ``policy.forward``. A call of ``train`` may run several
(PPO returns one dict per minibatch): the counter and the ``after_iter`` hooks run per dict, ``before_iter`` per call.
"""

import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from easydict import EasyDict

from ding.data import TransitionBatch, is_batched
from ding.data.roles import LearnMode, Samples, Writer, attribute_of
from ding.torch_utils import CountVar, auto_checkpoint, build_log_buffer
from ding.torch_utils.weight_checks import ON_NONFINITE, NonFiniteError
from ding.utils import LEARNER_REGISTRY, Configurable, build_logger, get_rank, get_world_size
from ding.utils.data import AsyncDataLoader
from ding.utils.names import check_choice
from ding.utils.nested import map_leaves
from ding.worker.learner.learner_hook import (
    LearnerHook,
    LogShowHook,
    add_learner_hook,
    build_learner_hook_by_cfg,
    save_learner_checkpoint,
)
from ding.worker.learner.nonfinite_batches import cause_in, save_batch
from ding.worker.learner.saving import CheckpointSaver
from ding.worker.learner.tick_monitor import TickMonitor, get_simple_monitor_type

__all__ = ["BaseLearner", "TickMonitor", "create_learner", "get_simple_monitor_type"]

log = logging.getLogger(__name__)

_SAVE_HOOK_NAME = "save_ckpt_after_run"
# Number of train iterations over which logged values are averaged.
_AVERAGED_ITERS = 10
# Types of logged values that are not converted.
_FIXED = frozenset((bool, int, float, str))
# Maximum number of batches that are saved of skipped updates.
_SAVED_SKIPS = 3


class Loader(Protocol):
    """Source of the batches of ``start``."""

    def __next__(self) -> Samples | None:
        """Return the next batch; ``None`` ends the training."""

    def close(self) -> None:
        """Stop loading."""


class FiniteCheck:
    """Checks each update of a policy for NaN and infinity, and keeps the batch for inspection.

    A check costs microseconds and no device synchronisation: the reported losses are numbers already, and on the CPU
    only one weight tensor is checked, the first of the network, which every non-finite gradient reaches by the chain
    rule. What both checks miss shows in the loss of the next update, so the previous batch is kept, too.

    Args:
        policy: Learn mode; its config defines the reaction (``policy.learn.on_nonfinite``), by default ``'raise'``.
        folder: Folder of the saved batches: ``iteration_<n>.safetensors`` and the batch before it.
    """

    def __init__(self, policy: LearnMode, folder: str) -> None:
        found = attribute_of(policy, "cfg")
        cfg: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        self._mode = cfg.get("learn", {}).get("on_nonfinite", "raise")
        check_choice("policy.learn.on_nonfinite", self._mode, ON_NONFINITE)
        self._folder = folder
        model = attribute_of(policy, "model")
        parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
        first = parameters[0] if parameters else None
        self._probe = first if first is not None and first.device.type == "cpu" and first.is_floating_point() else None
        self._previous: object = None
        #: Number of skipped updates with a non-finite loss.
        self.skipped = 0

    def look(self, logged: Sequence[Mapping[str, Any]], data: object, train_iter: int) -> bool:
        """Check the logged values of an update; return whether they are finite or the check is disabled.

        Raises:
            NonFiniteError: They are not finite, and the run must end. The batches are saved.
        """
        if self._mode == "ignore":
            return True
        bad_losses = [
            f"{key} is {value}"
            for values in logged
            for key, value in values.items()
            if type(value) is float and not math.isfinite(value) and "loss" in key
        ]
        bad_weights = self._probe is not None and not math.isfinite(torch.linalg.vector_norm(self._probe.detach()))
        if not bad_losses and not bad_weights:
            self._previous = data
            return True
        found = bad_losses[:1]
        # Skipping an update cannot repair weights that are already non-finite.
        if self._mode == "skip" and not bad_weights:
            self.skipped += 1
            if self.skipped <= _SAVED_SKIPS or self.skipped & (self.skipped - 1) == 0:
                log.warning(
                    "train iteration %d: %s; its update is left out (no. %d)", train_iter, found[0], self.skipped
                )
            if self.skipped <= _SAVED_SKIPS:
                save_batch(self._folder, data, train_iter)
            return False
        if bad_weights:
            found.append("the weights are NaN or infinite, as the gradient was")
        saved = save_batch(self._folder, data, train_iter)
        save_batch(self._folder, self._previous, train_iter, "_before")
        raise NonFiniteError(
            f"train iteration {train_iter}: {' and '.join(found)}; {cause_in(data)}the batch is in {saved}. The "
            "checkpoints before are good; policy.learn.on_nonfinite='skip' leaves such updates out"
        )


@LEARNER_REGISTRY.register("base")
class BaseLearner(Configurable):
    """Runs train iterations of a policy.

    Not thread-safe, except that ``close`` may be called while another thread is in ``start``.

    Args:
        cfg: Learner config, see :attr:`config`. It is not modified.
        policy: Learn mode of a policy; may also be set later.
        tb_logger: TensorBoard writer to share; ``None``: create one and close it in :meth:`close`.
        dist_info: ``(rank, world_size)``; by default read from ``torch.distributed``.
        exp_name: Experiment directory.
        instance_name: Name of this learner in log files, tags and the checkpoint folder.
    """

    config = {
        # Train iterations of `start()` (parallel mode).
        "train_iterations": int(1e9),
        # Options of `setup_dataloader()` (parallel mode); optional chunk_size, by default the batch size.
        "dataloader": {"num_workers": 0},
        # Log `policy.info()` when a policy is set.
        "log_policy": True,
        # True if every rank trains a separate task: each one monitors.
        "is_multitask_pipeline": False,
        # Only rank 0 keeps averages and writes TensorBoard values.
        "only_monitor_rank0": True,
        # Number of checkpoints named by iteration to keep; None: all.
        "keep_last": None,
        # Reaction to a full disk when a checkpoint is saved: 'end' the run with an error, or 'wait' for space.
        "on_disk_full": "end",
        "hook": {
            # Path of a checkpoint; '' loads none.
            "load_ckpt_before_run": "",
            # Interval in train iterations.
            "log_show_after_iter": 100,
            "save_ckpt_after_iter": 10000,
            # Interval in minutes; None: disabled.
            "save_ckpt_every_minutes": None,
            # False saves no checkpoint at the end.
            "save_ckpt_after_run": True,
        },
    }

    get_data: Callable[[int], Any]
    """Returns a batch of the given size; set by the communication layer, for :meth:`setup_dataloader`."""

    def __init__(
        self,
        cfg: EasyDict,
        policy: LearnMode | None = None,
        tb_logger: Writer | None = None,
        dist_info: tuple[int, int] | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "learner",
    ) -> None:
        self._cfg = cfg
        #: Experiment directory, and name of this learner.
        self.exp_name, self.instance_name = exp_name, instance_name
        #: File name of the next checkpoint; ``None``: named by iteration.
        self.ckpt_name: str | None = None
        #: Writes the checkpoints.
        self.saver = CheckpointSaver(cfg.get("keep_last"), cfg.get("on_disk_full", "end"))
        #: Rank of this process, and number of processes that train together.
        self.rank, self.world_size = (get_rank(), get_world_size()) if dist_info is None else dist_info
        multitask = cfg.get("is_multitask_pipeline", False)
        self.only_monitor_rank0 = bool(cfg.get("only_monitor_rank0", True)) and not multitask
        self._monitors = self.rank == 0 or not self.only_monitor_rank0
        #: Text logger and TensorBoard writer; the latter is ``None`` on a rank that does not monitor.
        self.logger, self.tb_logger = self._make_loggers(tb_logger)
        self._owned_writer = self.tb_logger if tb_logger is None else None
        #: Values logged by the current iteration: ``{'scalar', 'scalars', 'histogram'}``.
        self.log_buffer: dict[str, dict[str, Any]] = {
            name: build_log_buffer() for name in ("scalar", "scalars", "histogram")
        }
        self._monitor: TickMonitor | None = None
        # Values of iterations without a due hook, which the monitor has not received yet. Bounded by the monitor's
        # window.
        self._unmonitored: deque[dict[str, Any]] = deque(maxlen=_AVERAGED_ITERS + 1)
        self._num_unmonitored = 0
        #: Counter of train iterations. ``after_iter`` hooks see the number of the iteration, starting at 0.
        self.last_iter = CountVar(0)
        #: Number of train iterations of a :meth:`start`; a learner resumed from a checkpoint sets the remaining number.
        self.train_iterations = int(cfg.get("train_iterations", 1e9))
        #: Env steps of the collector, as last passed to ``train`` or loaded from a checkpoint.
        self.collector_envstep = 0
        #: ``priority``, ``replay_buffer_idx`` and ``replay_unique_id`` of the last ``train``; ``{}`` if its policy
        #: returned no priorities. The last two are lists or arrays with one entry per sample.
        self.priority_info: dict[str, Any] = {}
        self._learner_done = False
        self._end_flag = False
        self._dataloader: Any = None
        self._policy: Any = None
        #: Position -> hooks, in execution order.
        self.hooks = self._make_hooks()
        if policy is not None:
            self.policy = policy

    def _make_loggers(self, tb_logger: Writer | None) -> tuple[Any, Any]:
        path = f"{self.exp_name}/log/{self.instance_name}"
        own = self._monitors and tb_logger is None
        logger, writer = build_logger(path, self.instance_name, need_tb=own)
        return logger, (writer if own else tb_logger) if self._monitors else None

    def _make_hooks(self) -> dict[str, list[LearnerHook]]:
        cfg = dict(self._cfg.get("hook", {}))
        if self.world_size > 1:
            cfg["log_reduce_after_iter"] = True
        return build_learner_hook_by_cfg(cfg)

    @property
    def train_iter(self) -> int:
        """Number of train iterations so far, including those of a loaded checkpoint."""
        return self.last_iter.val

    @property
    def learn_info(self) -> dict[str, Any]:
        """``{'learner_step', 'priority_info', 'learner_done'}``, the progress for commanders."""
        return {
            "learner_step": self.last_iter.val,
            "priority_info": self.priority_info,
            "learner_done": self._learner_done,
        }

    def info(self, s: str) -> None:
        """Log a line at info level."""
        self.logger.info(f"[RANK{self.rank}]: {s}")

    def debug(self, s: str) -> None:
        """Log a line at debug level."""
        self.logger.debug(f"[RANK{self.rank}]: {s}")

    def register_hook(self, hook: LearnerHook) -> None:
        """Add a hook at its position, ordered by priority."""
        add_learner_hook(self.hooks, hook)

    def call_hook(self, name: str) -> None:
        """Call all hooks of a position (``before_run``, ``after_run``, ``before_iter``, ``after_iter``) in order."""
        for hook in self.hooks[name]:
            hook(self)

    def train(
        self, data: Samples | Mapping[str, Samples], envstep: int = -1, policy_kwargs: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Update the policy with one batch.

        Args:
            data: List of sample dicts, or a :class:`~ding.data.TransitionBatch`, or several of them by name. Policies
                whose forward is not marked ``@batched`` always receive lists of dicts.
            envstep: Env steps of the collector so far; a negative number leaves :attr:`collector_envstep` unchanged.
            policy_kwargs: Further arguments of ``policy.forward``.

        Returns:
            Log dicts of the policy, one per iteration, without ``priority``, ``[scalars]...`` and ``[histogram]...``
            entries.

        Raises:
            AssertionError: No policy was set.
            TypeError: ``policy.forward`` returned neither a dict nor a list of dicts.
            NonFiniteError: A loss or the weights are NaN or infinite, and ``policy.learn.on_nonfinite`` is ``'raise'``.
        """
        if self._policy is None:
            raise AssertionError("the learner has no policy: pass one to the constructor or set `learner.policy`")
        start = time.perf_counter()
        if self.hooks["before_iter"]:
            self.call_hook("before_iter")
        if not self._takes_batches:
            data = _as_rows(data)
        output = self._policy.forward(data, **(policy_kwargs or {}))
        log_vars = [output] if isinstance(output, dict) else output
        if not isinstance(log_vars, list) or not all(isinstance(item, dict) for item in log_vars):
            raise TypeError(f"policy.forward must return a dict or a list of dicts, got {type(output).__name__}")
        priority = None
        for item in log_vars:
            priority = item.pop("priority", None)
        if not self._finite.look(log_vars, data, self.last_iter.val):
            priority = None
        self.priority_info = {} if priority is None else _priority_info(priority, data)
        if envstep >= 0:
            self.collector_envstep = envstep
        train_time = time.perf_counter() - start
        for item in log_vars:
            for key in [key for key in item if "[" in key]:
                for mark, name in (("[scalars]", "scalars"), ("[histogram]", "histogram")):
                    if mark in key:
                        self.log_buffer[name][key.split("]")[-1]] = item.pop(key)
            self._end_iteration(item, train_time)
        return log_vars

    def _end_iteration(self, values: dict[str, Any], train_time: float) -> None:
        """Log the values of a train iteration, call due hooks, and increment the counter."""
        hooks, train_iter = self.hooks["after_iter"], self.last_iter.val
        logged = {**self.log_buffer["scalar"], **values, "train_time": train_time}
        # A tensor or an array may change before it is averaged.
        waits = any(isinstance(hook, LogShowHook) for hook in hooks) and _FIXED.issuperset(map(type, logged.values()))
        if waits and all(train_iter % getattr(hook, "due_every_iters", 1) for hook in hooks):
            self._unmonitored.append(logged)
            self._num_unmonitored += 1
            for buffer in self.log_buffer.values():
                buffer.clear()
        else:
            self.log_buffer["scalar"].update(values, train_time=train_time)
            self.call_hook("after_iter")
        self.last_iter.val += 1

    def setup_dataloader(self, loader: Loader | None = None) -> None:
        """Build the data loader over ``self.get_data(batch_size)``, which the communication layer sets.

        Args:
            loader: Loader to use instead: an iterator over batches with ``close()`` that ends with ``None``.
        """
        if loader is not None:
            self._dataloader = loader
            return
        batch_size = self._policy.get_attribute("batch_size")
        cfg = self._cfg.get("dataloader", {})
        self._dataloader = AsyncDataLoader(
            self.get_data,
            batch_size,
            self._policy.get_attribute("device"),
            chunk_size=cfg.get("chunk_size", batch_size),
            collate_fn=_identity,
            num_workers=cfg.get("num_workers", 0),
        )

    def _next_data(self) -> Any:
        start = time.perf_counter()
        data = next(self._dataloader)
        self.log_buffer["scalar"]["data_time"] = time.perf_counter() - start
        return data

    @auto_checkpoint(reraise=True)
    def start(self) -> None:
        """Train on the batches of the data loader, for :attr:`train_iterations` iterations or until ``close``.

        ``after_run`` hooks run, and ``learn_info['learner_done']`` becomes true, only after all iterations. On an
        exception or a signal, a checkpoint is saved first.
        """
        if self._end_flag:
            self.info(f"{self.instance_name} was closed before it was started")
            return
        self._learner_done = False
        self.call_hook("before_run")
        end = self.last_iter.val + self.train_iterations
        while self.last_iter.val < end:
            data = self._next_data()
            # Several processes detect the last batch by its absence, so none may skip a batch that the others train on.
            if data is None or (self._end_flag and self.world_size == 1):
                return
            self.train(data)
        self._learner_done = True
        self.call_hook("after_run")

    def close(self) -> None:
        """Stop ``start``, close the data loader, flush the writer, and close it unless it is shared.

        Repeated calls have no effect.
        """
        if self._end_flag:
            return
        self._end_flag = True
        self.saver.stop_waiting()
        if self._dataloader is not None:
            self._dataloader.close()
        if self.tb_logger is not None:
            self.tb_logger.flush()
        if self._owned_writer is not None:
            self._owned_writer.close()

    def __del__(self) -> None:
        if "_learner_done" in self.__dict__:  # else the constructor failed
            self.close()

    def save_checkpoint(self, ckpt_name: str | None = None) -> None:
        """Save a checkpoint now, on rank 0.

        The hook ``save_ckpt_after_run`` saves it if there is one, so a custom hook takes effect.

        Args:
            ckpt_name: File name in the checkpoint folder, for this checkpoint only; by default :attr:`ckpt_name`, else
                ``iteration_<train_iter>.pth.tar``.
        """
        if ckpt_name is not None:
            self.ckpt_name = ckpt_name
        try:
            for hook in self.hooks["after_run"]:
                if hook.name == _SAVE_HOOK_NAME:
                    hook(self)
                    return
            if self.rank == 0:
                save_learner_checkpoint(self)
        finally:
            self.ckpt_name = None

    @property
    def monitor(self) -> TickMonitor | None:
        """Moving averages of the logged values; ``None`` without a policy or on a rank that does not monitor."""
        monitor, waiting, number = self._monitor, list(self._unmonitored), self._num_unmonitored
        self._unmonitored.clear()
        self._num_unmonitored = 0
        if monitor is not None and waiting:
            if number > len(waiting):
                monitor.time.step(number - len(waiting))
            for values in waiting:
                monitor.record(values)
                monitor.time.step()
        return monitor

    @monitor.setter
    def monitor(self, monitor: TickMonitor | None) -> None:
        self._monitor = monitor

    @property
    def policy(self) -> Any:
        """Learn mode of the policy. Setting it creates a new monitor from ``policy.monitor_vars()``."""
        return self._policy

    @policy.setter
    def policy(self, policy: LearnMode) -> None:
        self._policy = policy
        self._takes_batches = is_batched(policy.forward)
        self._finite = FiniteCheck(policy, os.path.join(self.exp_name, "nonfinite"))
        if self._monitors:
            self.monitor = get_simple_monitor_type(policy.monitor_vars())(expire=_AVERAGED_ITERS)
        if self._cfg.get("log_policy", True):
            self.info(policy.info())


def create_learner(cfg: EasyDict, **kwargs: Any) -> BaseLearner:
    """Build the learner registered under ``cfg.type``, after importing ``cfg.import_names``.

    Raises:
        KeyError: The type is missing or not registered; the message names the closest one.
    """
    learner: BaseLearner = LEARNER_REGISTRY.create(cfg, **kwargs)
    return learner


def _as_rows(data: Any) -> Any:
    """Convert samples in columns (or samples by name) to lists of dicts."""
    return map_leaves(lambda samples: samples.rows() if isinstance(samples, TransitionBatch) else samples, data)


def _priority_info(priority: object, data: object) -> dict[str, Any]:
    """Return ``priority`` with the ids that locate the samples in a buffer, ``None`` for samples without ids.

    Raises:
        TypeError: ``data`` is not a sequence of samples.
    """
    ids: dict[str, Any] = {}
    for key in ("replay_buffer_idx", "replay_unique_id"):
        if isinstance(data, TransitionBatch):
            ids[key] = data.columns.get(key, [None] * len(data))
        elif isinstance(data, Sequence) and all(isinstance(sample, Mapping) for sample in data):
            ids[key] = [sample.get(key) for sample in data]
        else:
            raise TypeError(
                f"policy.forward returned 'priority' for data without samples ({type(data).__name__}): "
                "expected a list of dicts or a TransitionBatch"
            )
    return {"priority": priority, **ids}


def _identity(data: Samples) -> Samples:
    return data
