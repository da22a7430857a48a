"""A comm learner over a data plane, a weight plane and the tasks of a slave, whatever these are made of."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from easydict import EasyDict

from ding.data.exchange import DataPlane, WeightPlane
from ding.utils import import_module
from ding.worker._packed import pack_infos
from ding.worker.learner.base_learner import BaseLearner
from ding.worker.learner.comm._batch_loader import BatchLoader
from ding.worker.learner.comm._comm_hooks import ResumePoint, SendLearnInfoHook, SendPolicyHook
from ding.worker.learner.comm._group import DEFAULT_GROUP_TIMEOUT_S, GroupBroken, InStep, explain
from ding.worker.learner.comm._publisher import PolicyPublisher
from ding.worker.learner.comm.base_comm_learner import BaseCommLearner
from ding.worker.learner.learner_hook import LearnerHook

log = logging.getLogger(__name__)

_HOOK_PRIORITY = 100
# How long little news waits for more.
_GATHER_S = 0.1

PLANE_CONFIG: dict[str, Any] = {
    # Modules with policies and models of one's own.
    "import_names": [],
    # Several processes train one policy, each with batches of its own; longest wait for each other, in seconds.
    "multi_gpu": False,
    "group_timeout_s": DEFAULT_GROUP_TIMEOUT_S,
    # Batches that are asked for ahead of their use, and for how long they should last at least.
    "prefetch_batches": 16,
    "prefetch_s": 0.25,
    # Memory for a copy of the buffer's rows, in bytes; 0: rows are read from their files each time.
    "cache_bytes": 1 << 30,
    # Least time between two published versions of the policy.
    "publish_interval_s": 0.1,
    # When a checkpoint is saved from which a restarted learner goes on: iterations and seconds, what passes first.
    "resume_ckpt_freq": 5000,
    "resume_ckpt_interval_s": 20.0,
    # Seconds to wait for a learner to end when its task is closed.
    "close_timeout_s": 10.0,
}


class LearnerTask:
    """A task, and what was made for it.

    Args:
        failed: gives the error that is told instead of the one that the learner failed with.
    """

    def __init__(self, task_info: Mapping[str, Any], failed: Callable[[BaseException], BaseException]) -> None:
        self.info = dict(task_info)
        self._failed = failed
        self.task_id = task_info.get("task_id")
        self.learner: Any = None
        self.loader: BatchLoader | None = None
        self.publisher: PolicyPublisher | None = None
        self.resume: ResumePoint | None = None
        self.changed = threading.Condition()
        self.infos: deque[dict[str, Any]] = deque()
        self.last_seq = 0
        self.done = False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None

    def notify(self) -> None:
        """Something happened that the coordinator may want to hear of."""
        with self.changed:
            self.changed.notify_all()

    def run(self) -> None:
        """The thread of the learner."""
        try:
            self.learner.start()
        except BaseException as error:  # SystemExit too: the coordinator must hear of it
            log.error("the learner of task %s failed", self.task_id, exc_info=error)
            self.error = self._failed(error)
        else:
            self.done = bool(self.learner.learn_info["learner_done"])
        self.notify()


class PlaneLearner(BaseCommLearner):
    """Runs the learner of one task at a time.

    Batches are read ahead from the data plane; policies go to the weight plane; what train iterations brought is kept
    until the coordinator has acknowledged it. A task that a killed learner had begun goes on from its last checkpoint.

    Args:
        cfg: see :data:`PLANE_CONFIG`; missing keys get the defaults.
    """

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(EasyDict({**self.default_config(), **cfg}))
        import_module(list(self._cfg.import_names))
        self._data_plane = self._make_data_plane()
        self._lock = threading.RLock()
        self._task: LearnerTask | None = None
        self._creating: LearnerTask | None = None

    def _failed(self, error: BaseException) -> BaseException:
        """What to tell of an error of the learner. Of several processes none can go on without the others."""
        if self._world_size > 1:
            error = explain(error, self._rank, self._world_size)
            self._break_group(error)
        return error

    def _break_group(self, error: BaseException) -> None:
        self.group_error = self.group_error or error
        self.on_broken()

    def _make_data_plane(self) -> DataPlane:
        raise NotImplementedError

    def _make_weight_plane(self, policy_id: str) -> WeightPlane:
        raise NotImplementedError

    # ------------------------------------------------------------------ what the slave calls

    def deal_with_resource(self) -> dict[str, Any]:
        """What this learner offers, and what it does."""
        task = self._task
        resource: dict[str, Any] = {"gpu": self._world_size}
        if task is not None:
            resource["task_id"] = task.task_id
        return resource

    def deal_with_learner_start(self, task_info: dict[str, Any]) -> None:
        """Make the learner of a task and run it in a thread.

        The same task again is no mistake. Another one ends the one before: its coordinator has given it up.

        Raises:
            KeyError: the task lacks something.
        """
        with self._lock:
            if self._task is not None:
                if self._task.task_id == task_info.get("task_id"):
                    return
                log.warning("task %s is given up for task %s", self._task.task_id, task_info.get("task_id"))
                self._end_task(finished=False)
            task = self._creating = LearnerTask(task_info, self._failed)
            try:
                self._begin(task)
                self._task = task
            finally:
                self._creating = None

    def _begin(self, task: LearnerTask) -> None:
        paths = [task.info["policy_id"], task.info.get("league_save_checkpoint_path")]
        planes = [self._make_weight_plane(path) for path in paths if path]
        task.publisher = PolicyPublisher(planes, float(self._cfg.publish_interval_s))
        try:
            task.learner = self._create_learner(task.info)
        except BaseException:
            task.publisher.close()
            raise
        learner: Any = task.learner
        learner.policy_is_due = task.publisher.due
        task.resume = ResumePoint(
            "resume_point",
            _HOOK_PRIORITY,
            position="before_iter",
            ext_args={
                "name": f"resume_{task.task_id}.pth.tar",
                "freq": self._cfg.resume_ckpt_freq,
                "interval_s": self._cfg.resume_ckpt_interval_s,
            },
        )
        for hook in [*self.hooks4call, task.resume]:
            learner.register_hook(hook)
        if task.resume.load(learner):
            total = int(learner._cfg.get("train_iterations", 1e9))
            learner._cfg.train_iterations = max(0, total - learner.train_iter)
        task.thread = threading.Thread(target=task.run, name=f"learner-{task.task_id}", daemon=True)
        task.thread.start()

    def _setup_dataloader(self, learner: BaseLearner) -> None:
        task = self._creating
        if task is None:
            raise RuntimeError("a data loader is made while a task begins")
        task.loader = BatchLoader(
            self._data_plane,
            int(learner.policy.get_attribute("batch_size")),
            int(self._cfg.prefetch_batches),
            int(task.info.get("replay_buffer_size") or 0),
            int(self._cfg.cache_bytes),
            task.notify,
            repeat_last=self._world_size > 1,
            prefetch_s=float(self._cfg.prefetch_s),
        )
        end_s = float(self._cfg.close_timeout_s)
        several = self._world_size > 1
        learner.setup_dataloader(InStep(task.loader, self._world_size, end_s) if several else task.loader)

    def deal_with_get_data(self, max_wait_s: float = 0.0, info_ack: int = 0) -> dict[str, Any]:
        """What the learner wants and has to tell; waits up to ``max_wait_s`` for something.

        Returns:
            ``demand``: ``{'batch_size', 'cur_learner_iter'}`` of each batch that there is room for; ``infos`` and
            ``priorities``: those of the train iterations after ``info_ack`` (see ``unpack_infos``); ``loaded``: running
            number of the last batch that was read; ``broken_chunks``; ``policy_version``, once there is one; ``done``,
            and then ``final`` with the last info.

        Raises:
            RuntimeError: there is no task.
            BaseException: what the learner failed with.
        """
        return self._report(self._require_task(), max_wait_s, info_ack)

    def deal_with_learner_learn(
        self, batches: Sequence[Mapping[str, Any]], max_wait_s: float = 0.0, info_ack: int = 0
    ) -> dict[str, Any]:
        """Take batches; returns and raises as :meth:`deal_with_get_data`.

        Raises:
            ValueError: a batch has not the form or size that was asked for.
        """
        task = self._require_task()
        if task.loader is not None:
            task.loader.offer(batches)
        return self._report(task, max_wait_s, info_ack)

    def _report(self, task: LearnerTask, max_wait_s: float, info_ack: int) -> dict[str, Any]:
        loader, publisher = task.loader, task.publisher
        if loader is None or publisher is None:
            raise RuntimeError(f"task {task.task_id} has not begun")
        deadline = time.monotonic() + max_wait_s
        gathered = time.monotonic() + _GATHER_S
        with task.changed:
            while task.infos and task.infos[0]["seq"] <= info_ack:
                task.infos.popleft()
            while not (task.done or task.error or loader.hungry):
                # Something to tell waits a little for more; nothing at all waits longer.
                news = task.infos or loader.room
                left = (min(deadline, gathered) if news else deadline) - time.monotonic()
                if left <= 0:
                    break
                task.changed.wait(left)
            if task.error is not None:
                raise task.error
            infos, done = list(task.infos), task.done
        report: dict[str, Any] = {
            "demand": [] if done else loader.demand(task.learner.train_iter),
            **pack_infos(infos),
            "loaded": loader.loaded,
            "broken_chunks": loader.take_broken(),
            "done": done,
        }
        if publisher.version is not None:
            report["policy_version"] = publisher.version
        if done:
            report["final"] = {**task.learner.learn_info, "priority_info": {}}
        return report

    def deal_with_learner_close(self) -> dict[str, Any]:
        """End the task: of one that is done, the checkpoint to go on from is removed."""
        with self._lock:
            self._require_task()
            return self._end_task(finished=True)

    def _end_task(self, finished: bool) -> dict[str, Any]:
        task = self._require_task()
        try:
            learner, resume, publisher = task.learner, task.resume, task.publisher
            learner.close()
            if task.thread is not None:
                task.thread.join(float(self._cfg.close_timeout_s))
                if task.thread.is_alive():
                    log.warning("the learner of task %s did not end in time; it is left behind", task.task_id)
                    if self._world_size > 1:
                        self._break_group(GroupBroken(f"rank {self._rank} waits for others that do not come"))
                elif resume is not None and task.error is None and not (finished and task.done):
                    resume.save(learner)
            if resume is not None and finished and task.done:
                resume.remove(learner)
            if publisher is not None:
                publisher.close()
        finally:
            self._task = None
        return {"task_id": task.task_id, "buffer_id": task.info.get("buffer_id"), **_final(task)}

    def _require_task(self) -> LearnerTask:
        if self._task is None:
            raise RuntimeError("this learner has no task")
        return self._task

    # ------------------------------------------------------------------ what the learner calls

    def _current(self) -> LearnerTask:
        task = self._task or self._creating
        if task is None:
            raise RuntimeError("this learner has no task")
        return task

    def send_policy(self, state_dict: dict[str, Any]) -> None:
        """Publish ``{'model', 'iter'}``: written by a thread, the newest version wins."""
        publisher = self._current().publisher
        if publisher is not None:
            publisher.offer({"model": state_dict["model"]}, int(state_dict["iter"]))

    def get_data(self, batch_size: int) -> list[Any]:
        """The next batch as functions of which each gives one sample.

        The learner itself takes whole batches from its loader; this is for loaders of one's own.

        Raises:
            ValueError: another size than the policy's batch size.
        """
        loader = self._current().loader
        if loader is None or batch_size != loader.batch_size:
            raise ValueError(f"batches have {None if loader is None else loader.batch_size} samples, not {batch_size}")
        batch = next(loader)
        return [] if batch is None else [partial(batch.__getitem__, row) for row in range(len(batch))]

    def send_learn_info(self, learn_info: dict[str, Any]) -> None:
        """Keep an info until the coordinator has it."""
        task = self._current()
        with task.changed:
            task.last_seq += 1
            task.infos.append({"seq": task.last_seq, "info": learn_info})
            if len(task.infos) == 1:  # whoever waits now waits for more of them, not for this one alone
                task.changed.notify_all()

    @property
    def hooks4call(self) -> list[LearnerHook]:
        """Publishing before and during the run and at its end; infos during the run and at its end."""
        cfg = self._current().info.get("learner_cfg", {})
        policy = {"send_policy_freq": cfg.get("send_policy_freq", 1)}
        info = {"freq": cfg.get("send_info_freq", 1)}
        policies = [
            SendPolicyHook(f"send_policy_{position}", _HOOK_PRIORITY, position=position, ext_args=policy)
            for position in ("before_run", "after_iter", "after_run")
        ]
        infos = [
            SendLearnInfoHook(f"send_learn_info_{position}", _HOOK_PRIORITY, position=position, ext_args=info)
            for position in ("after_iter", "after_run")
        ]
        return [*policies, *infos]

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """End the task if there is one, with a checkpoint to go on from."""
        if self._end_flag:
            return
        with self._lock:
            if self._task is not None:
                self._end_task(finished=False)
        self._data_plane.close()
        super().close()


def _final(task: LearnerTask) -> dict[str, Any]:
    if task.learner is None:
        return {}
    return {"learner_step": task.learner.train_iter, "learner_done": task.done}
