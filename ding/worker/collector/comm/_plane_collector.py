"""Comm collector over planes of any type, with a slave that receives its tasks."""

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from easydict import EasyDict

from ding.data import TransitionBatch
from ding.parallel.planes import EVALUATED, ChunkRef, DataPlane, StorageError, new_writer_name, open_planes
from ding.rl_utils.normalization import Counted
from ding.utils import import_module
from ding.worker._comm_slave import SLAVE_CONFIG, CollectorSlave, make_slave, start_slave
from ding.worker.collector.base_parallel_collector import BaseParallelCollector
from ding.worker.collector.comm._policy_source import PolicySource
from ding.worker.collector.comm._sending import Sending
from ding.worker.collector.comm.base_comm_collector import BaseCommCollector
from ding.worker.collector.comm.outbox import Outbox

logger = logging.getLogger(__name__)

PLANE_CONFIG: dict[str, Any] = {
    **SLAVE_CONFIG,
    # Types and locations of the planes.
    "planes": "file",
    "path_data": "./data",
    "path_policy": "./policy",
    # Modules with user-defined envs, policies and models.
    "import_names": [],
    # Number of unacknowledged chunks at which the collector waits.
    "max_pending_chunks": 64,
    # Maximum number of chunks per answer.
    "max_chunks_per_answer": 256,
    # Size of the data folder, in bytes, at which the collector waits; None: no limit.
    "max_data_bytes": None,
    # Seconds to wait for disk space before the task fails.
    "storage_patience_s": 600.0,
    # Seconds to wait for a collector to end when its task is closed.
    "close_timeout_s": 10.0,
}
_FIRST_RETRY_S = 0.05
_LAST_RETRY_S = 0.25
# Maximum number of chunks without metadata; a collector sends the metadata right after its chunk.
_MAX_UNSENT = 64
_DATA_KEYS = ("data_id", "policy_iter")
_INFO_KEYS = ("collector_done", "cur_episode", "cur_sample", "cur_step")


class PlaneCollector(BaseCommCollector):
    """Runs the collector of one task at a time.

    Chunks go to the data plane, and their references to an outbox that the coordinator polls. If the data cannot be
    stored (:class:`~ding.parallel.planes.StorageError`), the collector waits and retries.

    Args:
        cfg: See :data:`PLANE_CONFIG`; missing keys take the defaults.
    """

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(EasyDict({**self.default_config(), **cfg}))
        import_module(list(self._cfg.import_names))
        self._incarnation = new_writer_name()
        self._planes = open_planes(self._cfg.planes, self._cfg.path_data, self._cfg.path_policy)
        self._data_plane = self._planes.data(self._incarnation, self._cfg.max_data_bytes)
        self._lock = threading.RLock()
        self._task: _RunningTask | None = None
        self._last_seq = 0
        # Normalisation statistics of observations and rewards, by the buffer of the tasks.
        self._counted: dict[Any, Counted] = {}
        self.dropped_rows = 0
        self._slave = make_slave(CollectorSlave, self, self._cfg, self._cfg.port, incarnation=self._incarnation)

    @property
    def data_plane(self) -> DataPlane:
        """Data plane that stores the chunks."""
        return self._data_plane

    @property
    def incarnation(self) -> str:
        """Id of this process (or thread), which distinguishes its results from those of earlier ones.

        The ids of its chunks start with it, so that a coordinator can attribute them.
        """
        return self._incarnation

    @property
    def collector(self) -> "BaseParallelCollector | None":
        """Collector of the current task."""
        return None if self._task is None else self._task.collector

    @property
    def slave(self) -> CollectorSlave:
        """Slave that receives the tasks; once started, ``slave.my_address`` is its address."""
        return self._slave

    # ------------------------------------------------------------------ called by the slave

    def deal_with_resource(self) -> dict[str, Any]:
        """Return the resources of this collector and its current task."""
        task = self._task
        return {"gpu": 1, "cpu": 20, **({} if task is None else {"task_id": task.task_id})}

    def deal_with_collector_start(self, task_info: dict[str, Any]) -> None:
        """Create the collector of a task and run it in a thread.

        Repeating the current task has no effect. Another task ends the current one, because its coordinator has
        abandoned it.
        """
        with self._lock:
            if self._task is not None:
                if self._task.task_id == task_info.get("task_id") and self._task.running:
                    return
                logger.warning("task %s is given up for task %s", self._task.task_id, task_info.get("task_id"))
                self._end_task()
            outbox = Outbox(self._cfg.max_pending_chunks, self._cfg.max_chunks_per_answer, self._last_seq)
            task = _RunningTask(task_info, outbox, PolicySource(self._planes))
            self._task = task
            try:
                task.collector = self._create_collector(task_info)
                task.collector.counted = self._counted.setdefault(task.buffer_id, Counted())
            except BaseException:
                self._task = None
                task.close()
                raise
            task.start()

    def deal_with_collector_data(
        self,
        ack: int = 0,
        max_wait_s: float = 5.0,
        newest_policy: object = None,
        grant: "Mapping[str, int] | None" = None,
    ) -> dict[str, Any]:
        """Return pending references and progress, see :meth:`Outbox.take`.

        Args:
            ack: Number of the last reference that has arrived.
            max_wait_s: Maximum wait for news, in seconds.
            newest_policy: Policy versions known to the coordinator; waiting collectors fetch them at once.
            grant: Steps that an on-policy collector may make: ``{'id', 'version', 'steps'}``.

        Returns:
            ``{'seq', 'refs', 'info', 'blocked'}``: the number of the last reference, the references with their
            metadata, the progress, and the reason why chunks cannot be stored (or ``None``). If observations or rewards
            are normalised, also ``statistics``, see :mod:`ding.rl_utils.normalization`.

        Raises:
            RuntimeError: There is no task.
            BaseException: The error of the collector.
        """
        task = self._require_task()
        if newest_policy is not None:
            task.policies.hint()
        if grant is not None and task.collector is not None:
            task.collector.grant(grant)
        refs, info = task.outbox.take(ack, max_wait_s)
        news = {"seq": refs[-1]["seq"] if refs else ack, "refs": refs, "info": info, "blocked": task.outbox.blocked}
        counted = self._counted[task.buffer_id].contribution() if task.buffer_id in self._counted else {}
        return {**news, "statistics": counted} if counted else news

    def deal_with_collector_close(self, ack: "int | None" = None) -> dict[str, Any]:
        """End the task and delete the chunks that the coordinator has not received.

        Args:
            ack: Number of the last reference that has arrived; later ones are not accepted. ``None``: unknown.

        Returns:
            The summary, with the unacknowledged references that were handed out under ``refs``: only the coordinator
            knows whether it received them, and deletes those it does not need.

        Raises:
            RuntimeError: There is no task.
        """
        with self._lock:
            self._require_task()
            return self._end_task(ack)

    def _end_task(self, ack: "int | None" = None) -> dict[str, Any]:
        task = self._require_task()
        task.closing.set()
        task.outbox.close()
        task.policies.close()
        try:
            ended = task.stop(self._cfg.close_timeout_s)
            if not ended:
                logger.warning("the collector of task %s did not end in time; it is left behind", task.task_id)
            finish_info = task.collector.get_finish_info() if task.collector is not None else {}
            task.sending.close()
            self._keep(task.collector)
        finally:
            self._task = None
        self._last_seq = task.outbox.last_seq
        refs, unknown = task.outbox.rest(ack)
        try:
            self._data_plane.release(unknown)
        except StorageError as error:
            logger.warning("%d chunks of the closed task are left behind: %s", len(unknown), error)
        return {**finish_info, "seq": refs[-1]["seq"] if refs else 0, "refs": refs}

    def _require_task(self) -> "_RunningTask":
        if self._task is None:
            raise RuntimeError("this collector has no task")
        return self._task

    # ------------------------------------------------------------------ called by the collector

    def get_policy_update_info(
        self, path: str, newer_than: int = -1, timeout_s: float = 0.0
    ) -> "dict[str, Any] | None":
        """Return the newest version of a policy unless its number is ``newer_than``; wait up to ``timeout_s`` for one.

        Returns:
            A state dict with the key ``iter``, or ``None`` if there is no newer version or the task is being closed.
        """
        task = self._task
        if task is None or task.closing.is_set():
            return None
        found = task.policies.get(path, newer_than, timeout_s)
        if found is not None:
            task.policy = found
        return found

    def send_stepdata(  # type: ignore[override]
        self, path: str, stepdata: TransitionBatch | Sequence[Mapping[str, Any]]
    ) -> None:
        """Keep a chunk under a name until :meth:`send_metadata` refers to it.

        Rows are copied; a batch must not change afterwards. Of the chunks without metadata only the newest few are
        kept; the rows of the others count as dropped.
        """
        task = self._task
        if task is None:
            return
        batch = stepdata if isinstance(stepdata, TransitionBatch) else TransitionBatch.from_rows(map(dict, stepdata))
        task.unsent[path] = batch
        if len(task.unsent) > _MAX_UNSENT:
            oldest = next(iter(task.unsent))
            self._drop(task.unsent.pop(oldest), f"send_metadata was not called for chunk {oldest!r}")

    def _put(self, task: "_RunningTask", batch: TransitionBatch) -> "ChunkRef | None":
        delay_s, waited_s = _FIRST_RETRY_S, 0.0
        meta = {"task_id": task.task_id, "incarnation": self.incarnation}
        while True:
            try:
                ref = self._data_plane.put(batch, meta)
            except StorageError as error:
                if waited_s >= self._cfg.storage_patience_s:
                    raise
                if task.outbox.blocked is None:
                    logger.warning("a chunk cannot be stored, collecting waits: %s", error)
                    task.outbox.put_blocked(str(error))
            else:
                if task.outbox.blocked is not None:
                    logger.info("chunks can be stored again")
                    task.outbox.put_blocked(None)
                return ref
            if task.closing.wait(delay_s):
                self._drop(batch, "the task ends and they cannot be stored")
                return None
            waited_s += delay_s
            delay_s = min(2 * delay_s, _LAST_RETRY_S)

    def _drop(self, batch: TransitionBatch, why: str) -> None:
        self.dropped_rows += len(batch)
        logger.warning("%d rows are dropped: %s", len(batch), why)

    def send_metadata(self, metadata: dict[str, Any]) -> None:
        """Store a chunk and report it, or report the progress.

        Storing runs in the background. The call blocks while the previous chunk is not stored and reported, e.g. for
        lack of disk space or write permission, or if too many chunks are unacknowledged. Without a task nothing is
        sent.

        Raises:
            AssertionError: ``metadata`` has neither the keys of a chunk nor those of the progress.
            StorageError: An earlier chunk could not be stored for ``storage_patience_s`` seconds.
        """
        is_data, is_info = _has(metadata, _DATA_KEYS), _has(metadata, _INFO_KEYS)
        if not is_data and not is_info:
            raise AssertionError(
                f"metadata needs the keys {list(_DATA_KEYS)} or {list(_INFO_KEYS)}, found {sorted(map(str, metadata))}"
            )
        task = self._task
        if task is not None and not is_data:
            if metadata.get("eval_flag") and metadata["collector_done"]:
                # Before the coordinator can learn that the evaluation has ended.
                self._keep_evaluated(task)
            task.sending.note(partial(task.outbox.put_info, dict(metadata)))
        elif task is not None and metadata["data_id"] in task.unsent:
            batch = task.unsent.pop(metadata["data_id"])
            if not task.sending.submit(partial(self._send, task, batch, dict(metadata))):
                self._drop(batch, "the task has ended")

    def _keep_evaluated(self, task: "_RunningTask") -> None:
        """Publish the evaluated weights; a run has one evaluation at a time."""
        if task.policy is None:
            return
        state = {key: value for key, value in task.policy.items() if key != "iter"}
        try:
            self._planes.weights(EVALUATED).publish(state, int(task.policy["iter"]))
        except StorageError as error:
            logger.warning("the weights that were evaluated are not kept: %s", error)

    def _send(self, task: "_RunningTask", batch: TransitionBatch, metadata: dict[str, Any]) -> None:
        ref = self._put(task, batch)
        if ref is not None:
            who = {
                "task_id": task.task_id,
                "buffer_id": task.buffer_id,
                "worker": self._cfg.get("name") or self._collector_uid,
                "incarnation": self.incarnation,
            }
            task.outbox.put({**metadata, **who, **ref})

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Listen for tasks, and enrol at the coordinator if ``coordinator_address`` is set."""
        super().start()
        start_slave(self._slave, self, self._cfg, self._collector_uid)

    def close(self) -> None:
        """End the task, sign off from the coordinator, and stop listening. Repeated calls have no effect."""
        if self._end_flag:
            return
        super().close()
        # First, so that another collector can take over the task while this one closes its envs.
        self._slave.shutdown()
        with self._lock:
            if self._task is not None:
                self._end_task()
            self._keep(None)
        self._slave.close()

    def __del__(self) -> None:
        # Nothing to close if the constructor failed early. The garbage collector may run in any thread, including this
        # object's own, so do not join one.
        if "_slave" in self.__dict__ and threading.current_thread() is threading.main_thread():
            self.close()


class _RunningTask:
    """A task and the thread that runs its collector."""

    def __init__(self, task_info: Mapping[str, Any], outbox: Outbox, policies: PolicySource) -> None:
        self.task_id = task_info.get("task_id")
        self.buffer_id = task_info.get("buffer_id")
        self.outbox = outbox
        self.policies = policies
        self.collector: BaseParallelCollector | None = None
        self.closing = threading.Event()
        # Latest policy versions of the collector.
        self.policy: dict[str, Any] | None = None
        self.unsent: dict[str, TransitionBatch] = {}
        self.sending = Sending(f"send-{self.task_id}", outbox.fail)
        self._thread = threading.Thread(target=self._run, name=f"collector-{self.task_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            assert self.collector is not None
            try:
                self.collector.start()
            finally:
                self.sending.wait()
        except BaseException as error:
            logger.error("the collector of task %s failed", self.task_id, exc_info=error)
            self.outbox.fail(error)

    @property
    def running(self) -> bool:
        """Whether the collector's thread is alive."""
        return self._thread.is_alive()

    def stop(self, timeout_s: float) -> bool:
        """End the loop; return whether it ended in time."""
        if self.collector is None:
            return True
        ended = self.collector.stop(timeout_s)
        with contextlib.suppress(RuntimeError):  # the thread was never started
            self._thread.join(timeout_s if ended else 0.0)
        return ended

    def close(self) -> None:
        self.sending.close()
        if self.collector is not None:
            self.collector.close()


def _has(mapping: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    return all(key in mapping for key in keys)
