"""Comm learner over planes of any type, with a slave that receives its tasks."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from easydict import EasyDict

from ding.parallel.messages import pack_infos
from ding.parallel.planes import open_planes
from ding.rollout import statistics_of
from ding.utils import import_module
from ding.worker._comm_slave import SLAVE_CONFIG, LearnerSlave, make_slave, start_slave
from ding.worker.learner.base_learner import BaseLearner, Loader
from ding.worker.learner.comm._comm_hooks import ResumePoint, SendLearnInfoHook, SendPolicyHook, published
from ding.worker.learner.comm._publisher import PolicyPublisher
from ding.worker.learner.comm.base_comm_learner import BaseCommLearner
from ding.worker.learner.comm.batch_loader import BatchLoader
from ding.worker.learner.comm.in_step import DEFAULT_GROUP_TIMEOUT_S, GroupBroken, InStep, explain
from ding.worker.learner.learner_hook import LearnerHook, LoadCkptHook

log = logging.getLogger(__name__)

_HOOK_PRIORITY = 100
# Seconds that few infos wait for more.
_GATHER_S = 0.1
# Seconds that an on-policy learner waits for its policy to be written; afterwards the collectors wait for it.
_PUBLISH_S = 5.0

PLANE_CONFIG: dict[str, Any] = {
    **SLAVE_CONFIG,
    # Types and locations of the planes.
    "planes": "file",
    "path_data": "./data",
    "path_policy": "./policy",
    # Modules with user-defined policies and models.
    "import_names": [],
    # Several processes train one policy, each with its own batches; maximum wait for each other, in seconds.
    "multi_gpu": False,
    "group_timeout_s": DEFAULT_GROUP_TIMEOUT_S,
    # Number of batches requested ahead of their use, and the minimum time that they should last.
    "prefetch_batches": 16,
    "prefetch_s": 0.25,
    # Memory for a copy of the buffer's rows, in bytes; 0: rows are read from their files each time.
    "cache_bytes": 1 << 30,
    # Minimum interval between two published versions of the policy.
    "publish_interval_s": 0.1,
    # Interval of the checkpoints for restarted learners, in iterations and seconds, whichever passes first.
    "resume_ckpt_freq": 5000,
    "resume_ckpt_interval_s": 20.0,
    # Seconds to wait for a learner to end when its task is closed.
    "close_timeout_s": 10.0,
}


class LearnerTask:
    """A task and its objects.

    Args:
        task_info: Task message of the coordinator.
        learner: Learner of the task.
        make_loader: Creates the loader of its batches from a callback for news.
        publisher: Publishes the versions of its policy.
        resume: Saves the checkpoint to resume from.
        failed: Maps an error of the learner to the error to report.
    """

    def __init__(
        self,
        task_info: Mapping[str, Any],
        learner: BaseLearner,
        make_loader: Callable[[Callable[[], None]], BatchLoader],
        publisher: PolicyPublisher,
        resume: ResumePoint,
        failed: Callable[[BaseException], BaseException],
    ) -> None:
        self.info = dict(task_info)
        self.task_id = task_info.get("task_id")
        self.learner = learner
        self.publisher = publisher
        self.resume = resume
        self.done = False
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name=f"learner-{self.task_id}", daemon=True)
        self._failed = failed
        self._changed = threading.Condition()
        self._infos: deque[dict[str, Any]] = deque()
        self._last_seq = 0
        self.loader = make_loader(self.notify)

    def notify(self) -> None:
        """Wake the request that waits for news."""
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            self.learner.start()
        except BaseException as error:  # includes SystemExit: report it to the coordinator
            log.error("the learner of task %s failed", self.task_id, exc_info=error)
            self.error = self._failed(error)
        else:
            self.done = bool(self.learner.learn_info["learner_done"])
        self.notify()

    def add_info(self, learn_info: dict[str, Any]) -> None:
        """Store an info until the coordinator has received it."""
        with self._changed:
            self._last_seq += 1
            self._infos.append({"seq": self._last_seq, "info": learn_info})
            if len(self._infos) == 1:  # a request that waits now waits for more infos, not for this one alone
                self._changed.notify_all()

    def report(self, max_wait_s: float, info_ack: int) -> dict[str, Any]:
        """Drop the infos up to ``info_ack``; wait up to ``max_wait_s`` for news of the task, and return them."""
        loader, deadline = self.loader, time.monotonic() + max_wait_s
        gathered = time.monotonic() + _GATHER_S
        with self._changed:
            while self._infos and self._infos[0]["seq"] <= info_ack:
                self._infos.popleft()
            while not (self.done or self.error or loader.below_watermark):
                # Few news wait a little for more; without news the wait is longer.
                news = self._infos or loader.free_slots
                left = (min(deadline, gathered) if news else deadline) - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            if self.error is not None:
                raise self.error
            infos, done = list(self._infos), self.done
        report: dict[str, Any] = {
            "demand": [] if done else loader.demand(self.learner.train_iter),
            **pack_infos(infos),
            "loaded": loader.loaded,
            "broken_chunks": loader.take_broken(),
            "done": done,
        }
        if self.publisher.version is not None:
            report["policy_version"] = self.publisher.version
        if done:
            report["final"] = {**self.learner.learn_info, "priority_info": {}}
        return report

    def end(self, finished: bool, timeout_s: float) -> bool:
        """Close the learner; return whether it ended in time.

        Args:
            finished: Whether the coordinator ended the task; if the learner is done, its checkpoint is removed.
            timeout_s: Seconds to wait for the learner.
        """
        done = finished and self.done
        self.learner.close()
        self.thread.join(timeout_s)
        ended = not self.thread.is_alive()
        if not ended:
            log.warning("the learner of task %s did not end in time; it is left behind", self.task_id)
        elif self.error is None and not done:
            self.resume.save(self.learner)
        if done:
            self.resume.remove(self.learner)
        self.publisher.close()
        return ended


class PlaneLearner(BaseCommLearner):
    """Runs the learner of one task at a time.

    Batches are prefetched from the data plane, policies are published to the weight plane, and infos of train
    iterations are stored until the coordinator has acknowledged them. The task of a killed learner resumes from its
    last checkpoint.

    Args:
        cfg: See :data:`PLANE_CONFIG`; missing keys take the defaults.
    """

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(EasyDict({**self.default_config(), **cfg}))
        import_module(list(self._cfg.import_names))
        self._planes = open_planes(self._cfg.planes, self._cfg.path_data, self._cfg.path_policy)
        self._data_plane = self._planes.data()
        self._lock = threading.RLock()
        self._task: LearnerTask | None = None
        self._slave = make_slave(LearnerSlave, self, self._cfg, self._port())

    def _port(self) -> "int | str | None":
        port = self._cfg.port
        if isinstance(port, (list, tuple)):
            found: int | str | None = port[self._rank]
            return found
        return port + self._rank if isinstance(port, int) and port and self._world_size > 1 else port

    @property
    def slave(self) -> LearnerSlave:
        """Slave that receives the tasks; once started, ``slave.my_address`` is its address."""
        return self._slave

    @property
    def learner(self) -> "BaseLearner | None":
        """Learner of the current task."""
        return None if self._task is None else self._task.learner

    def _failed(self, error: BaseException) -> BaseException:
        """Return the error to report for a learner's error. If one of several processes fails, all must restart."""
        if self._world_size > 1:
            error = explain(error, self._rank, self._world_size)
            self._break_group(error)
        return error

    def _break_group(self, error: BaseException) -> None:
        self.group_error = self.group_error or error
        self.on_broken()

    # ------------------------------------------------------------------ called by the slave

    def deal_with_resource(self) -> dict[str, Any]:
        """Return the resources of this learner and its current task."""
        task = self._task
        resource: dict[str, Any] = {"gpu": self._world_size}
        if task is not None:
            resource["task_id"] = task.task_id
        return resource

    def deal_with_learner_start(self, task_info: dict[str, Any]) -> None:
        """Create the learner of a task and run it in a thread.

        Repeating the current task has no effect. Another task ends the current one, because its coordinator has
        abandoned it.

        Raises:
            KeyError: The task lacks a key.
        """
        with self._lock:
            if self._task is not None:
                if self._task.task_id == task_info.get("task_id"):
                    return
                log.warning("task %s is given up for task %s", self._task.task_id, task_info.get("task_id"))
                self._end_task(finished=False)
            self._task = self._begin(task_info)
            self._task.thread.start()

    def _begin(self, task_info: dict[str, Any]) -> LearnerTask:
        """Create a task with its objects, without starting its thread."""
        paths = [task_info["policy_id"], task_info.get("league_save_checkpoint_path")]
        learner: Any = self._new_learner(task_info)
        options = {
            "name": f"resume_{task_info.get('task_id')}.pth.tar",
            "freq": self._cfg.resume_ckpt_freq,
            "interval_s": self._cfg.resume_ckpt_interval_s,
        }
        resume = ResumePoint("resume_point", _HOOK_PRIORITY, position="before_iter", ext_args=options)
        publisher = PolicyPublisher(
            [self._planes.weights(path) for path in paths if path], float(self._cfg.publish_interval_s)
        )
        try:
            make_loader = partial(self._set_loader, learner, publisher, int(task_info.get("replay_buffer_size") or 0))
            task = LearnerTask(task_info, learner, make_loader, publisher, resume, self._failed)
            learner.policy_is_due = publisher.due
            for hook in [*_hooks(task_info), resume]:
                learner.register_hook(hook)
            if resume.load(learner):
                # The checkpoint that the run started from is older.
                learner.hooks["before_run"][:] = [
                    hook for hook in learner.hooks["before_run"] if not isinstance(hook, LoadCkptHook)
                ]
                learner.train_iterations = max(0, learner.train_iterations - learner.train_iter)
        except BaseException:
            publisher.close()
            raise
        return task

    def _set_loader(
        self, learner: BaseLearner, publisher: PolicyPublisher, buffer_rows: int, changed: Callable[[], None]
    ) -> BatchLoader:
        """Create a loader and set it as the learner's source of batches."""
        several, policy = self._world_size > 1, learner.policy
        on_policy = bool(policy.get_attribute("on_policy"))
        if on_policy and several:
            raise ValueError("policy.on_policy: several processes cannot train on one collection; use one learner")
        loader = BatchLoader(
            self._data_plane,
            int(policy.get_attribute("n_sample" if on_policy else "batch_size")),
            int(self._cfg.prefetch_batches),
            buffer_rows,
            # Rows that are read once need no cache.
            0 if on_policy else int(self._cfg.cache_bytes),
            changed,
            repeat_last=several,
            prefetch_s=float(self._cfg.prefetch_s),
            publish=partial(_publish_now, learner, publisher) if on_policy else None,
        )
        overridden = type(self).get_data is not PlaneLearner.get_data
        batches: Loader = _OwnBatches(loader, self.get_data) if overridden else loader
        end_s = float(self._cfg.close_timeout_s)
        learner.setup_dataloader(InStep(batches, self._world_size, end_s) if several else batches)
        return loader

    def deal_with_get_data(self, max_wait_s: float = 0.0, info_ack: int = 0) -> dict[str, Any]:
        """Return the demand and the reports of the learner; wait up to ``max_wait_s`` for news.

        Returns:
            ``demand``: ``{'batch_size', 'cur_learner_iter'}`` of each batch that there is room for; ``infos`` and
            ``priorities``: those of the train iterations after ``info_ack`` (see ``unpack_infos``); ``loaded``: running
            number of the last batch that was read; ``broken_chunks``; ``policy_version``, once there is one; ``done``,
            and then ``final`` with the last info.

        Raises:
            RuntimeError: There is no task.
            BaseException: The error of the learner.
        """
        task = self._require_task()
        return task.report(max_wait_s, info_ack)

    def deal_with_learner_learn(
        self, data: Sequence[Mapping[str, Any]], max_wait_s: float = 0.0, info_ack: int = 0
    ) -> dict[str, Any]:
        """Accept batches; returns and raises like :meth:`deal_with_get_data`.

        Raises:
            ValueError: A batch is malformed or has another size than requested.
        """
        task = self._require_task()
        task.loader.offer(data)
        return task.report(max_wait_s, info_ack)

    def note_env_step(self, env_step: int) -> None:
        """Record the number of rows sent by collectors, for checkpoints and curves; the number never decreases."""
        task = self._task
        if task is not None:
            task.learner.collector_envstep = max(task.learner.collector_envstep, env_step)

    def note_statistics(self, contributions: Mapping[str, Mapping[str, Any]]) -> None:
        """Merge normalisation statistics of observations and rewards; see :mod:`ding.rl_utils.normalization`."""
        task = self._task
        statistics = None if task is None else statistics_of(task.learner.policy)
        if statistics is not None:
            statistics.merge(contributions)

    def deal_with_learner_close(self) -> dict[str, Any]:
        """End the task; if the learner is done, its resume checkpoint is removed."""
        with self._lock:
            self._require_task()
            return self._end_task(finished=True)

    def _end_task(self, finished: bool) -> dict[str, Any]:
        task = self._require_task()
        try:
            if not task.end(finished, float(self._cfg.close_timeout_s)) and self._world_size > 1:
                self._break_group(GroupBroken(f"rank {self._rank} waits for others that do not come"))
        finally:
            self._task = None
        return {
            "task_id": task.task_id,
            "buffer_id": task.info.get("buffer_id"),
            "learner_step": task.learner.train_iter,
            "learner_done": task.done,
        }

    def _require_task(self) -> LearnerTask:
        if self._task is None:
            raise RuntimeError("this learner has no task")
        return self._task

    # ------------------------------------------------------------------ called by the learner

    def send_policy(self, state_dict: dict[str, Any]) -> None:
        """Publish ``{'model', 'iter'}``, with ``normalization`` if there is one.

        A thread writes the newest version. Without a task the call has no effect.
        """
        if self._task is not None:
            self._task.publisher.offer(published(state_dict), int(state_dict["iter"]))

    def get_data(self, batch_size: int) -> list[Any]:
        """Return the next batch as functions that each return one sample.

        A subclass that overrides this method changes the learner's training data: it returns a list of samples, or of
        functions that return one. Otherwise the learner takes whole batches from its loader.

        Raises:
            ValueError: ``batch_size`` differs from the policy's batch size.
        """
        loader = self._require_task().loader
        if batch_size != loader.batch_size:
            raise ValueError(f"batches have {loader.batch_size} samples, not {batch_size}")
        batch = next(loader)
        return [] if batch is None else [partial(batch.__getitem__, row) for row in range(len(batch))]

    def send_learn_info(self, learn_info: dict[str, Any]) -> None:
        """Store an info until the coordinator has received it. Without a task the call has no effect."""
        if self._task is not None:
            self._task.add_info(learn_info)

    @property
    def hooks4call(self) -> list[LearnerHook]:
        """Hooks that publish before, during and after the run, and report infos during and after the run."""
        return _hooks({} if self._task is None else self._task.info)

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Listen for tasks, and enrol at the coordinator if ``coordinator_address`` is set."""
        super().start()
        start_slave(self._slave, self, self._cfg, self._learner_uid)

    def close(self) -> None:
        """End the task, if any, with a checkpoint to resume from, and stop listening. Repeated calls have no effect."""
        if self._end_flag:
            return
        with self._lock:
            if self._task is not None:
                self._end_task(finished=False)
        super().close()
        self._slave.close()

    def __del__(self) -> None:
        # Nothing to close if the constructor failed early. The garbage collector may run in any thread, including this
        # object's own, so do not join one.
        if "_slave" in self.__dict__ and threading.current_thread() is threading.main_thread():
            self.close()


class _OwnBatches:
    """Batches of a loader, passed through the ``get_data`` of a subclass.

    Args:
        loader: Loader that prefetches.
        get_data: Function of the number of samples.
    """

    def __init__(self, loader: BatchLoader, get_data: Callable[[int], Sequence[Any]]) -> None:
        self._loader = loader
        self._get_data = get_data

    def __next__(self) -> list[Any] | None:
        samples = self._get_data(self._loader.batch_size)
        return [sample() if callable(sample) else sample for sample in samples] or None

    def close(self) -> None:
        """Close the loader; ``get_data`` returns no samples afterwards."""
        self._loader.close()


def _publish_now(learner: BaseLearner, publisher: PolicyPublisher) -> None:
    """Publish the current policy, and wait until it is written (or the task ends, or the disk is full)."""
    publisher.offer(published(learner.policy.state_dict()), learner.train_iter)
    publisher.flush(_PUBLISH_S)


def _hooks(task_info: Mapping[str, Any]) -> list[LearnerHook]:
    """Return the hooks of a task, see :attr:`PlaneLearner.hooks4call`."""
    cfg = task_info.get("learner_cfg", {})
    # An on-policy learner publishes when it waits for data.
    on_policy = task_info.get("policy", {}).get("on_policy", False)
    publishing = ("after_run",) if on_policy else ("before_run", "after_iter", "after_run")
    kinds: list[tuple[str, type[LearnerHook], tuple[str, ...], dict[str, Any]]] = [
        ("send_policy", SendPolicyHook, publishing, {"send_policy_freq": cfg.get("send_policy_freq", 1)}),
        ("send_learn_info", SendLearnInfoHook, ("after_iter", "after_run"), {"freq": cfg.get("send_info_freq", 1)}),
    ]  # fmt: skip
    return [
        make(f"{name}_{position}", _HOOK_PRIORITY, position=position, ext_args=ext_args)
        for name, make, positions, ext_args in kinds
        for position in positions
    ]
