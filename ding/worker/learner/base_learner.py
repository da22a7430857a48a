"""The learner: runs a policy's update on batches of samples, keeps the counters and calls the hooks.

One *train iteration* is one log dict that ``policy.forward`` returns. ``train`` may run several (PPO returns one dict
per minibatch): the counter and the ``after_iter`` hooks follow the dicts, ``before_iter`` runs once per call.
"""

import time
from typing import Any

from easydict import EasyDict

from ding.data import TransitionBatch, is_batched
from ding.torch_utils import CountVar, auto_checkpoint
from ding.utils import LEARNER_REGISTRY, build_logger, get_rank, get_world_size
from ding.worker._component import Configurable, build_by_type
from ding.worker.learner._hooks import save_learner_checkpoint
from ding.worker.learner._learner_state import LearnerState
from ding.worker.learner._log_buffer import new_log_buffer
from ding.worker.learner._priority import pop_priority_info
from ding.worker.learner._tick_monitor import TickMonitor, get_simple_monitor_type
from ding.worker.learner.learner_hook import (
    LearnerHook,
    add_learner_hook,
    build_learner_hook_by_cfg,
    merge_hooks,
)

__all__ = ["BaseLearner", "TickMonitor", "create_learner", "get_simple_monitor_type"]

_SAVE_HOOK_NAME = "save_ckpt_after_run"


@LEARNER_REGISTRY.register("base")
class BaseLearner(LearnerState, Configurable):
    """Runs train iterations of a policy.

    Not thread-safe, except that ``close`` may be called while another thread is in ``start``.

    Args:
        cfg: learner config, see :attr:`config`. It is not changed.
        policy: learn mode of a policy; may also be set later.
        tb_logger: tensorboard writer to share. Without one the learner makes its own, and closes it.
        dist_info: ``(rank, world_size)``, instead of what ``torch.distributed`` says.
        exp_name: folder of the experiment.
        instance_name: name of this learner, in log files, tags and the checkpoint folder.
    """

    config = {
        # Iterations of `start()` (parallel mode).
        "train_iterations": int(1e9),
        # Of `setup_dataloader()` (parallel mode); optional chunk_size, by default the batch size.
        "dataloader": {"num_workers": 0},
        # Log `policy.info()` when a policy is set.
        "log_policy": True,
        # Every rank trains a task of its own: each one monitors.
        "is_multitask_pipeline": False,
        # Only rank 0 keeps averages and writes tensorboard values.
        "only_monitor_rank0": True,
        "hook": {
            # Path of a checkpoint; '' loads none.
            "load_ckpt_before_run": "",
            # In train iterations.
            "log_show_after_iter": 100,
            "save_ckpt_after_iter": 10000,
            # False saves none at the end.
            "save_ckpt_after_run": True,
        },
    }

    _end_flag = False
    _owned_writer: Any = None
    _dataloader: Any = None

    def __init__(
        self,
        cfg: EasyDict,
        policy: Any = None,
        tb_logger: Any = None,
        dist_info: tuple[int, int] | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "learner",
    ) -> None:
        self._cfg = cfg
        self._exp_name = exp_name
        self._instance_name = instance_name
        self._ckpt_name: str | None = None
        self._rank, self._world_size = (get_rank(), get_world_size()) if dist_info is None else dist_info
        self.only_monitor_rank0 = bool(cfg.get("only_monitor_rank0", True)) and not cfg.get(
            "is_multitask_pipeline", False
        )
        self._setup_loggers(tb_logger)
        self._log_buffer: dict[str, Any] = new_log_buffer()
        self._monitor: TickMonitor | None = None
        self._last_iter = CountVar(0)
        self._collector_envstep = 0
        self._priority_info: dict[str, Any] = {}
        self._learner_done = False
        self._policy: Any = None
        self._setup_hooks()
        if policy is not None:
            self.policy = policy

    def _setup_loggers(self, tb_logger: Any) -> None:
        path = f"./{self._exp_name}/log/{self._instance_name}"
        need_writer = self._monitors and tb_logger is None
        self._logger, own_writer = build_logger(path, self._instance_name, need_tb=need_writer)
        self._owned_writer = own_writer if need_writer else None
        self._tb_logger = (own_writer if need_writer else tb_logger) if self._monitors else None

    def _setup_hooks(self) -> None:
        self._hooks: dict[str, list[LearnerHook]] = {position: [] for position in LearnerHook.positions}
        hook_cfg = dict(self._cfg.get("hook", {}))
        if self._world_size > 1:
            hook_cfg["log_reduce_after_iter"] = True
        self._hooks = merge_hooks(self._hooks, build_learner_hook_by_cfg(hook_cfg))

    @property
    def _monitors(self) -> bool:
        return self._rank == 0 or not self.only_monitor_rank0

    # ------------------------------------------------------------------ hooks

    def register_hook(self, hook: LearnerHook) -> None:
        """Add a hook at its position, by priority."""
        add_learner_hook(self._hooks, hook)

    def call_hook(self, name: str) -> None:
        """Call all hooks of a position (``before_run``, ``after_run``, ``before_iter``, ``after_iter``) in order."""
        for hook in self._hooks[name]:
            hook(self)

    # ------------------------------------------------------------------ training

    def train(self, data: Any, envstep: int = -1, policy_kwargs: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Update the policy with one batch.

        Args:
            data: a list of sample dicts or a :class:`~ding.data.TransitionBatch`. Policies whose forward is not marked
                ``@batched`` always get a list of dicts.
            envstep: env steps of the collector so far; a negative number leaves :attr:`collector_envstep` as it is.
            policy_kwargs: further arguments of ``policy.forward``.

        Returns:
            The log dicts of the policy, one per iteration, without ``priority``, ``[scalars]...`` and
            ``[histogram]...`` entries.

        Raises:
            AssertionError: no policy was set.
            TypeError: ``policy.forward`` returned something else than a dict or a list of dicts.
        """
        if self._policy is None:
            raise AssertionError("the learner has no policy: pass one to the constructor or set `learner.policy`")
        start = time.perf_counter()
        self.call_hook("before_iter")
        if not self._takes_batches and isinstance(data, TransitionBatch):
            data = data.rows()
        output = self._policy.forward(data, **(policy_kwargs or {}))
        log_vars = [output] if isinstance(output, dict) else output
        if not isinstance(log_vars, list) or not all(isinstance(item, dict) for item in log_vars):
            raise TypeError(f"policy.forward must return a dict or a list of dicts, got {type(output).__name__}")
        self._priority_info = pop_priority_info(log_vars, data)
        if envstep >= 0:
            self._collector_envstep = envstep
        train_time = time.perf_counter() - start
        for item in log_vars:
            self._fill_log_buffer(item, train_time)
            self.call_hook("after_iter")
            self._last_iter.add(1)
        return log_vars

    def _fill_log_buffer(self, log_vars: dict[str, Any], train_time: float) -> None:
        marked = [key for key in log_vars if "[" in key]
        for key in marked:
            for mark, name in (("[scalars]", "scalars"), ("[histogram]", "histogram")):
                if mark in key:
                    self._log_buffer[name][key.split("]")[-1]] = log_vars.pop(key)
        scalars = self._log_buffer["scalar"]
        scalars.update(log_vars)
        scalars["train_time"] = train_time

    # ------------------------------------------------------------------ parallel mode

    def setup_dataloader(self, loader: Any = None) -> None:
        """Build the data loader over ``self.get_data(batch_size)``, which the communication layer sets.

        Args:
            loader: use this one instead: an iterator over batches with ``close()``; ``None`` is its end.
        """
        if loader is not None:
            self._dataloader = loader
            return
        from ding.utils.data import AsyncDataLoader

        batch_size = self._policy.get_attribute("batch_size")
        cfg = self._cfg.get("dataloader", {})
        self._dataloader = AsyncDataLoader(
            self.get_data,  # type: ignore[attr-defined]
            batch_size,
            self._policy.get_attribute("device"),
            chunk_size=cfg.get("chunk_size", batch_size),
            collate_fn=_identity,
            num_workers=cfg.get("num_workers", 0),
        )

    def _next_data(self) -> Any:
        start = time.perf_counter()
        data = next(self._dataloader)
        self._log_buffer["scalar"]["data_time"] = time.perf_counter() - start
        return data

    @auto_checkpoint
    def start(self) -> None:
        """Train on what the data loader delivers, for ``train_iterations`` iterations or until ``close``.

        ``after_run`` hooks run, and ``learn_info['learner_done']`` becomes true, only when all iterations were done. An
        exception or a signal saves a checkpoint first.
        """
        if self._end_flag:
            self.info(f"{self._instance_name} was closed before it was started")
            return
        self._learner_done = False
        self.call_hook("before_run")
        for _ in range(self._cfg.get("train_iterations", int(1e9))):
            data = self._next_data()
            # Several processes agree on the last batch by its absence: none may leave out one that the others train on.
            if data is None or (self._end_flag and self._world_size == 1):
                return
            self.train(data)
        self._learner_done = True
        self.call_hook("after_run")

    def close(self) -> None:
        """Stop ``start``, close the data loader, flush the writer and close it if it is the learner's own.

        A second call does nothing.
        """
        if self._end_flag:
            return
        self._end_flag = True
        if self._dataloader is not None:
            self._dataloader.close()
        if self._tb_logger is not None:
            self._tb_logger.flush()
        if self._owned_writer is not None:
            self._owned_writer.close()

    def __del__(self) -> None:
        if "_learner_done" in self.__dict__:  # else the constructor failed
            self.close()

    # ------------------------------------------------------------------ checkpoints

    def save_checkpoint(self, ckpt_name: str | None = None) -> None:
        """Save a checkpoint now, on rank 0.

        The hook named ``save_ckpt_after_run`` does it if there is one, so that a custom one is honoured.

        Args:
            ckpt_name: file name in the checkpoint folder, by default :attr:`ckpt_name`, else
                ``iteration_<train_iter>.pth.tar``. A name holds for this one checkpoint.
        """
        if ckpt_name is not None:
            self._ckpt_name = ckpt_name
        try:
            for hook in self._hooks["after_run"]:
                if hook.name == _SAVE_HOOK_NAME:
                    hook(self)
                    return
            if self._rank == 0:
                save_learner_checkpoint(self)
        finally:
            self._ckpt_name = None

    # ------------------------------------------------------------------ policy

    @property
    def policy(self) -> Any:
        """Learn mode of the policy. Setting it builds a new monitor from ``policy.monitor_vars()``."""
        return self._policy

    @policy.setter
    def policy(self, policy: Any) -> None:
        self._policy = policy
        self._takes_batches = is_batched(policy.forward)
        if self._monitors:
            self._monitor = get_simple_monitor_type(policy.monitor_vars())(expire=10)
        if self._cfg.get("log_policy", True):
            self.info(policy.info())


def create_learner(cfg: EasyDict, **kwargs: Any) -> BaseLearner:
    """Build the learner registered under ``cfg.type``, after importing ``cfg.import_names``.

    Raises:
        KeyError: the type is missing or not registered; the message names the nearest one.
    """
    return build_by_type(LEARNER_REGISTRY, cfg, **kwargs)


def _identity(data: Any) -> Any:
    return data
