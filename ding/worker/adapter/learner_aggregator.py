"""Aggregator that presents several learners to a coordinator as one.

Exceptions::

    CoordinatorError
    └── WorkersMissing      a learner cannot be reached
"""

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from ding.interaction import Slave, TaskFail
from ding.parallel.messages import pack_batches, unpack_batches
from ding.utils import build_logger
from ding.worker.adapter.batch_split import merge_info, merge_reports, split_batch, split_list
from ding.worker.coordinator.errors import CoordinatorError, WorkerLost, WorkersMissing, WorkerTaskFailed
from ding.worker.coordinator.master_hub import MasterHub
from ding.worker.coordinator.operator_server import server_of
from ding.worker.coordinator.operator_sync import OperatorSync, connect_until
from ding.worker.coordinator.protocols import WorkerLink, callbacks_of
from ding.worker.coordinator.worker_links import WorkerLinks

_ANSWER_S = 60.0
_START_S = 120.0
# Time that a task waits for a disconnected learner to return.
_REJOIN_S = 5.0
# Keys of ``cfg.slave`` that are not arguments of the slave.
_ENROL_KEYS = ("host", "port", "coordinator_address", "name")


class LearnerAggregatorSlave(Slave):
    """Forwards the tasks of a coordinator to an aggregator.

    Args:
        callback_fn: ``deal_with_get_resource``, ``deal_with_learner_start``, ``deal_with_get_data``,
            ``deal_with_learn`` and ``deal_with_learner_close``.
    """

    def __init__(self, *args: Any, callback_fn: Mapping[str, Callable[..., Any]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._callback_fn = callback_fn

    def _process_task(self, task: Mapping[str, Any]) -> object:
        """Process a task; raises :class:`TaskFail` if it is unknown."""
        name = task.get("name")
        if name == "resource":
            return self._callback_fn["deal_with_get_resource"]()
        callback = {
            "learner_start_task": "deal_with_learner_start",
            "learner_get_data_task": "deal_with_get_data",
            "learner_learn_task": "deal_with_learn",
            "learner_close_task": "deal_with_learner_close",
        }.get(str(name))
        if callback is None:
            raise TaskFail(result={"message": "task name error"}, message=f"illegal learner task <{str(name)[:60]}>")
        return self._callback_fn[callback](dict(task))


class LearnerAggregator:
    """Slave of the coordinator and master of the learners that train one policy together.

    Every message goes to all learners at once; a batch is split among them. If one learner fails or does not answer,
    the whole message fails with that reason. Learners are ordered by the numbers in their names; values on which all
    agree are taken from the first one. In a pod (``KUBERNETES_SERVER_URL`` is set) the learners are those that the
    operator assigns to this aggregator.

    Args:
        cfg: ``slave`` and ``master`` (``host``, ``port`` and further arguments of both), and ``learner``
            (``{key: (id, host, port)}``). Learners may also enrol at the master; ``learner_num`` is then the required
            number. ``connect_timeout_s`` limits the wait for the learners. With ``coordinator_address`` (and ``name``)
            in ``slave``, the aggregator enrols at the coordinator. ``log_path`` is the log directory.
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self._cfg = cfg
        logger = build_logger(str(cfg.get("log_path", "./log")), "learner_aggregator", need_tb=False)[0]
        assert logger is not None
        self._logger = logger
        self._callback_fn: dict[str, Callable[..., Any]] = {
            "deal_with_get_resource": self.deal_with_get_resource,
            "deal_with_learner_start": self.deal_with_learner_start,
            "deal_with_get_data": self.deal_with_get_data,
            "deal_with_learn": self.deal_with_learn,
            "deal_with_learner_close": self.deal_with_learner_close,
        }
        options = {key: value for key, value in cfg["slave"].items() if key not in _ENROL_KEYS}
        self._slave = LearnerAggregatorSlave(
            cfg["slave"].get("host"), cfg["slave"].get("port"), callback_fn=self._callback_fn, max_tasks=2, **options
        )
        self._hub = MasterHub(cfg["master"])
        self._learner_num = int(cfg.get("learner_num") or 0)
        self._links = WorkerLinks(self._hub, self._logger)
        self._sizes: list[int] = []
        self._operator: OperatorSync | None = None
        self._closing = threading.Event()
        self._listens = False
        # Called with a message if missing learners did not return in time; the task has failed by then.
        self.on_incomplete: Callable[[str], None] = lambda sentence: None

    # ------------------------------------------------------------------ life

    def listen(self) -> str:
        """Listen for learners and return the address at which they enrol. Called by ``start``.

        Raises:
            PortTakenError: The port of ``cfg.master`` is in use.
        """
        if not self._listens:
            self._hub.start(self._connected, self._disconnected)
            self._listens = True
        return self._hub.my_address

    def start(self) -> None:
        """Wait until all learners are connected, then listen for tasks.

        Raises:
            WorkersMissing: A learner did not connect in time, or ``cancel`` was called.
            PortTakenError: A port is in use.
        """
        self.listen()
        deadline = time.monotonic() + float(self._cfg.get("connect_timeout_s", 60.0))
        learners = [(str(name), host, int(port)) for name, host, port in (self._cfg.get("learner") or {}).values()]
        missing = [
            name
            for name, host, port in learners
            if not connect_until(self, (name, "learner", host, port), self._closing, deadline)
        ]
        if missing:
            raise WorkersMissing(f"no connection to {', '.join(missing)}")
        self._start_operator(deadline)
        if not self.wait_complete(deadline - time.monotonic()):
            found = ", ".join(self.learners) or "none"
            raise WorkersMissing(f"{self._learner_num} learners must come, came: {found}")
        self._slave.start()
        self._enrol()

    def _enrol(self) -> None:
        address = self._cfg["slave"].get("coordinator_address")
        if address:
            self._slave.enrol(address, self._cfg["slave"]["name"], "learner", self.deal_with_get_resource())

    def _start_operator(self, deadline: float) -> None:
        address = os.environ.get("KUBERNETES_SERVER_URL")
        if not address:
            return
        server = server_of(address, os.environ.get("KUBERNETES_SERVER_API_VERSION", "/v1alpha1"))
        server.set_worker_type("aggregator")
        target = {"learner_target_num": max(1, self._learner_num)}
        self._operator = OperatorSync(target, self, callbacks_of({}), self._logger, server, roles=("learner",))
        self._operator.start(deadline)

    def connect_worker(self, name: str, role: str, host: str, port: int) -> bool:
        """Connect to a learner; return False if it does not answer."""
        link = self._links.connect(name, role, host, port) if role == "learner" else None
        if link is not None:
            self._connected(link)
        return link is not None

    def drop_worker(self, name: str, role: str, reason: str) -> None:
        """Remove a learner."""
        link = self._links.drop(name)
        if link is not None:
            self._logger.info("%s is dropped: %s", name, reason)
            link.close()

    def _connected(self, link: WorkerLink) -> None:
        try:
            self._links.enter(link)
        except WorkerLost as error:
            self._logger.info("%s", error)
            return
        self._logger.info("learner %s is connected", link.name)

    def _disconnected(self, link: WorkerLink) -> None:
        if self._links.leave(link) and not self._closing.is_set():
            self._logger.warning("learner %s is lost", link.name)

    def _ordered(self) -> list[WorkerLink]:
        return sorted(self._links.all(), key=lambda link: _by_number(link.name))

    def wait_complete(self, timeout_s: float) -> bool:
        """Wait for the required number of learners; return False on time-out.

        Without ``learner_num`` any number is accepted.
        """

        def complete() -> bool:
            return len(self._links.all()) >= self._learner_num

        self._links.wait_for(lambda: complete() or self._closing.is_set(), max(0.0, timeout_s))
        return complete() and not self._closing.is_set()

    def cancel(self) -> None:
        """Abort all waits without blocking. Call ``close`` afterwards."""
        self._closing.set()
        self._links.wake()

    def close(self) -> None:
        """Stop listening and disconnect. Repeated calls have no effect."""
        self.cancel()
        if self._operator is not None:
            self._operator.close()
        self._slave.close()
        if self._listens:
            self._hub.close()

    def __del__(self) -> None:
        if "_listens" in self.__dict__ and threading.current_thread() is threading.main_thread():
            self.close()

    @property
    def learners(self) -> list[str]:
        """Names of the connected learners, in order."""
        return [link.name for link in self._ordered()]

    @property
    def slave(self) -> LearnerAggregatorSlave:
        """Slave that receives the coordinator's tasks."""
        return self._slave

    # ------------------------------------------------------------------ tasks

    def deal_with_get_resource(self) -> dict[str, int]:
        """``{'gpu': number of connected learners}``."""
        return {"gpu": len(self._ordered())}

    def deal_with_learner_start(self, task: dict[str, Any]) -> dict[str, str]:
        """Start the task on all learners.

        Raises:
            TaskFail: There is no learner, or one of them failed.
        """
        self._broadcast({"name": task["name"], "task_info": task["task_info"]}, _START_S)
        return {"message": "learner task has started"}

    def deal_with_get_data(self, task: dict[str, Any]) -> dict[str, Any]:
        """Return the merged demand of the learners; raises like :meth:`deal_with_learner_start`."""
        reports = self._broadcast(task, _ANSWER_S)
        if "batch_size" in reports[0]:
            self._sizes = [report["batch_size"] for report in reports]
            return {**reports[0], "batch_size": sum(self._sizes)}
        return self._merged(task, reports)

    def deal_with_learn(self, task: dict[str, Any]) -> dict[str, Any]:
        """Split batches among the learners; raises like :meth:`deal_with_learner_start`."""
        if "batches" not in task:
            try:
                parts = split_list(task["data"], self._sizes)
            except ValueError as error:
                raise TaskFail(result={"message": str(error)}, message=str(error)) from error
            results = self._broadcast([{**task, "data": part} for part in parts], _ANSWER_S)
            return cast(dict[str, Any], self.merge_info(results))
        try:
            split = [split_batch(batch, self._sizes) for batch in unpack_batches(task["batches"])]
        except ValueError as error:
            raise TaskFail(result={"message": str(error)}, message=str(error)) from error
        number = len(self._sizes)
        messages = [{**task, "batches": pack_batches([parts[rank] for parts in split])} for rank in range(number)]
        return self._merged(task, self._broadcast(messages, _ANSWER_S))

    def deal_with_learner_close(self, task: dict[str, Any]) -> dict[str, Any]:
        """End the task on all learners; raises like :meth:`deal_with_learner_start`."""
        return self._broadcast(task, _START_S)[0]

    def _merged(self, task: Mapping[str, Any], reports: list[dict[str, Any]]) -> dict[str, Any]:
        demands = [report.get("demand") or [] for report in reports]
        if all(demands):
            self._sizes = [demand[0]["batch_size"] for demand in demands]
        ids: dict[str, Any] = {key: reports[0][key] for key in ("task_id", "buffer_id") if key in reports[0]}
        return {**merge_reports(reports, int(task.get("info_ack") or 0)), **ids}

    def _broadcast(self, message: dict[str, Any] | list[dict[str, Any]], timeout_s: float) -> list[dict[str, Any]]:
        """Send one message to all learners, or one message to each, and return their answers in the order of their
        names.

        Raises:
            TaskFail: There are too few learners, or one of them failed or did not answer.
        """
        complete = self.wait_complete(_REJOIN_S)
        links = self._ordered()
        if not links and not self._learner_num:
            raise TaskFail(result={"message": "no learner"}, message="no learner is connected")
        if not complete:
            text = f"{len(links)} of {self._learner_num} learners are connected: {', '.join(one.name for one in links)}"
            self.on_incomplete(text)
            raise TaskFail(result={"message": text}, message=text)
        messages = message if isinstance(message, list) else [message] * len(links)
        if len(messages) != len(links):
            text = f"{len(links)} learners are connected, {len(messages)} worked on the task"
            raise TaskFail(result={"message": text}, message=text)
        with ThreadPoolExecutor(len(links), "aggregator") as pool:
            futures = [pool.submit(link.call, one, timeout_s) for link, one in zip(links, messages)]
            answers, errors = [], []
            for link, future in zip(links, futures):
                try:
                    answers.append(future.result())
                except (WorkerLost, WorkerTaskFailed) as error:
                    errors.append(f"{link.name}: {error}")
        if errors:
            text = "; ".join(errors)
            raise TaskFail(result={"message": text}, message=text)
        return answers

    @staticmethod
    def merge_info(info: list[Any]) -> dict[str, Any] | list[Any]:
        """See :func:`ding.worker.adapter.batch_split.merge_info`."""
        return merge_info(info)


def _by_number(name: str) -> list[Any]:
    """Return a sort key that places ``learner0_rank10`` after ``learner0_rank9``."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]


__all__ = ["CoordinatorError", "LearnerAggregator", "LearnerAggregatorSlave", "WorkersMissing"]
