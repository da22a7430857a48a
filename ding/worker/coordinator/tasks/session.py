"""Exchange between a coordinator and one worker about a task, and the types of the answers.

All messages are idempotent: data carries sequence numbers, batches carry running numbers, demands follow from the
worker's free slots, and messages carry states instead of changes. A message without an answer is repeated for as long
as the worker's lease lasts.

An answer that matches no type here counts as a failure of the worker; the error names the field. The types contain only
the fields that the coordinator reads. Other keys pass, because custom commanders may use them.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta, Struct

from ding.interaction.errors import SchemaError
from ding.interaction.messages import convert
from ding.parallel.messages import joined_priorities, pack_batches, unpack_infos
from ding.worker.coordinator.errors import WorkerLost, WorkerTaskFailed
from ding.worker.coordinator.protocols import CoordinatorCallbacks, WorkerLink
from ding.worker.coordinator.tasks.ledger import TaskLedger
from ding.worker.coordinator.tasks.records import Holder

log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_MAX_DEMANDS = _MAX_REFS = 4096

Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
Count = Number | Annotated[float, Meta(ge=0.0, lt=2.0**62)]
Return = float | None


class Ref(Struct):
    """Reference to a chunk; ``checked_ref`` validates the remaining keys."""

    chunk: str
    seq: Number = 0


class CollectorNews(Struct):
    """Answer to ``data_task``."""

    seq: Number = 0
    refs: Annotated[list[Ref], Meta(max_length=_MAX_REFS)] | None = None
    info: dict[str, Any] | None = None
    buffer_id: str | None = None
    data_id: str | None = None
    collector_done: bool = False
    statistics: dict[str, dict[str, Any]] | None = None


class CollectorEnd(Struct):
    """Answer to ``close_task`` of a collector."""

    seq: Number = 0
    refs: Annotated[list[Ref], Meta(max_length=_MAX_REFS)] | None = None
    eval_flag: bool | None = False
    step_count: Count | None = 0
    real_episode_count: Count | None = 0
    reward_mean: Return = None


class Demand(Struct):
    """A batch that a learner has room for."""

    batch_size: Annotated[int, Meta(ge=1, le=1 << 24)]
    cur_learner_iter: Annotated[int, Meta(ge=-1, lt=1 << 62)]


class LearnerInfo(Struct):
    """Info of a train iteration."""

    learner_step: Count = 0
    learner_done: bool = False
    priority_info: dict[str, Any] | None = None


class NumberedInfo(Struct):
    """Info of a train iteration with its number."""

    seq: Number
    info: LearnerInfo


class LearnerNews(Struct):
    """Answer to ``get_data_task`` and ``learn_task``."""

    demand: Annotated[list[Demand], Meta(max_length=_MAX_DEMANDS)] | None = None
    infos: list[NumberedInfo] | None = None
    priorities: dict[str, Any] | None = None
    loaded: Number = 0
    broken_chunks: list[str] | None = None
    policy_version: Number = 0
    done: bool = False
    final: dict[str, Any] = {}
    info: LearnerInfo | None = None
    buffer_id: str | None = None
    batch_size: Annotated[int, Meta(ge=1, le=1 << 24)] = 1
    cur_learner_iter: int = 0


class Resource(Struct):
    """Answer to ``resource``."""

    task_id: str | None = None


_KINDS: dict[str, Any] = {
    "resource": Resource,
    "collector_data_task": CollectorNews,
    "collector_close_task": CollectorEnd,
    "learner_get_data_task": LearnerNews,
    "learner_learn_task": LearnerNews,
}


def checked_answer(answer: object, name: str, worker: str, buffer_id: str | None = None) -> dict[str, Any]:
    """Validate and return a worker's answer to the message ``name``.

    Args:
        buffer_id: The only buffer that the answer may name; None: any.

    Raises:
        WorkerTaskFailed: The answer is malformed; the message names the field.
    """
    if not isinstance(answer, dict):
        raise WorkerTaskFailed(f"{worker} answered {name} with {type(answer).__name__}, expected a dict")
    try:
        convert(answer, _KINDS.get(name, dict), f"{worker} answered {name}")
    except SchemaError as error:
        raise WorkerTaskFailed(str(error)) from error
    named = answer.get("buffer_id")
    if buffer_id is not None and named not in (None, "", buffer_id):
        raise WorkerTaskFailed(f"{worker} answered {name}: buffer_id must be {buffer_id!r}, found {str(named)[:80]!r}")
    return answer


class CollectedStatistics:
    """Normalisation statistics of observations and rewards by buffer, the newest of each collector.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, dict[str, Any]] = {}

    def note(self, buffer_id: str, contributions: Mapping[str, Any]) -> None:
        """Store the newest contribution of a collector."""
        with self._lock:
            self._newest[buffer_id] = {**self._newest.get(buffer_id, {}), **contributions}

    def unknown(self, buffer_id: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return the contributions that a learner has not received."""
        with self._lock:
            newest = dict(self._newest.get(buffer_id, {}))
        return {name: one for name, one in newest.items() if told.get(name) != one}


class Cancelled(Exception):
    """The coordinator closes, or the worker no longer holds the task."""


@dataclass(frozen=True)
class Timing:
    """Time-outs of a session, in seconds.

    Attributes:
        long_poll_s: Maximum time that a worker waits for news.
        answer_s: Additional time for an answer.
        start_s: Time that a worker may take to start or end a task.
        retry_s: Pause before a message is repeated to a worker that temporarily refuses.
    """

    long_poll_s: float = 1.0
    answer_s: float = 10.0
    start_s: float = 120.0
    retry_s: float = 0.05


@dataclass
class Session:
    """One task at one worker.

    Attributes:
        link_of: Returns the current connection to the worker, after waiting up to the given seconds; ``None``: none.
        closing: Set when the coordinator closes.
    """

    task: dict[str, Any]
    holder: Holder
    role: str
    ledger: TaskLedger
    callbacks: CoordinatorCallbacks
    link_of: Callable[[Holder, float], WorkerLink | None]
    closing: threading.Event
    timing: Timing
    statistics: CollectedStatistics = field(default_factory=CollectedStatistics)

    @property
    def task_id(self) -> str:
        """Id of the task."""
        text: str = self.task["task_id"]
        return text

    def call(self, name: str, timeout_s: float | None = None, **data: Any) -> dict[str, Any]:
        """Send a message to the worker, repeatedly until it answers or its lease ends.

        Raises:
            WorkerTaskFailed: The worker reported a failure, or its answer is malformed.
            WorkerLost: Its lease ended.
            Cancelled: Another process holds the task.
        """
        timeout_s = self.timing.long_poll_s + self.timing.answer_s if timeout_s is None else timeout_s
        self.ledger.renew(self.task_id, self.holder, max(0.0, timeout_s - self.ledger.lease_s))
        while True:
            left = self.ledger.lease_left(self.task_id, self.holder)
            if left <= 0:
                raise WorkerLost(f"{self.holder.worker} did not answer {name} while its lease lasted")
            # A lease may be long to allow for slow answers; without a connection there will be no answer.
            link = self.link_of(self.holder, min(left, self.ledger.lease_s))
            if link is None:
                raise WorkerLost(f"{self.holder.worker} was lost and did not return before its lease expired")
            try:
                result = link.call(
                    {"name": f"{self.role}_{name}", "task_id": self.task_id, **data}, min(timeout_s, left)
                )
            except WorkerLost as error:
                log.debug("%s: %s", self.holder.worker, error)
                self.closing.wait(self.timing.retry_s)
                if self.closing.is_set():
                    raise
                continue
            break
        if not self.ledger.renew(self.task_id, self.holder):
            raise Cancelled(f"{self.holder.worker} answered {name}, but does not hold the task any more")
        return checked_answer(result, f"{self.role}_{name}", self.holder.worker, self.task.get("buffer_id"))

    def start(self, **extra: Any) -> None:
        """Start the task on the worker."""
        self.call("start_task", self.timing.start_s, task_info={**self.task, **extra})
        if not self.ledger.started(self.task_id, self.holder):
            raise Cancelled("the task was taken away while it started")

    def end(self, timeout_s: float | None = None, **data: Any) -> dict[str, Any]:
        """End the task on the worker; return its summary."""
        return self.call("close_task", self.timing.start_s if timeout_s is None else timeout_s, **data)

    def clean_up(self) -> bool:
        """Make a worker stop its current work, with a short time-out; return whether it answered."""
        link = self.link_of(self.holder, 0.0)
        if link is None:
            return False
        # Untaken chunks will never be taken: the worker deletes them.
        ack = {"ack": self.ledger.seen(self.task_id, self.holder)} if self.role == "collector" else {}
        try:
            link.call({"name": f"{self.role}_close_task", "task_id": self.task_id, **ack}, _CLOSE_TIMEOUT_S)
        except WorkerTaskFailed as error:
            log.info("%s could not end its task: %s", self.holder.worker, error)
        except WorkerLost as error:
            log.info("%s did not end its task: %s", self.holder.worker, error)
            return False
        return True


def run_collector(session: Session) -> dict[str, Any]:
    """Take data from a collector until it is done; return its summary."""
    try:
        return _attend_collector(session)
    finally:
        session.callbacks.buffers.leave(session.task, session.holder)


def _attend_collector(session: Session) -> dict[str, Any]:
    ack = session.ledger.seen(session.task_id, session.holder)
    callbacks, told = session.callbacks, None
    while not session.closing.is_set():
        newest = callbacks.newest_policy(session.task)
        news: dict[str, Any] = {"newest_policy": newest} if newest != told else {}
        grant = callbacks.buffers.grant(session.task, session.holder, session.timing.long_poll_s, session.closing)
        if grant:
            news["grant"] = grant
        # A collector without a grant has no news: it was waited for above.
        wait_s = 0.0 if grant == {} else session.timing.long_poll_s
        result = session.call("data_task", ack=ack, max_wait_s=wait_s, **news)
        told = newest
        if result.get("statistics"):
            session.statistics.note(session.task["buffer_id"], result["statistics"])
        if "data_id" in result:
            callbacks.deal_with_collector_send_data(session.task_id, result["buffer_id"], result["data_id"], result)
            session.ledger.progress(session.task_id, session.holder)
            continue
        refs = result.get("refs") or []
        before, ack = ack, _take_refs(session, result, ack)
        info = result.get("info") if "refs" in result else result
        complete = ack >= int(result.get("seq", ack))
        if info and complete and callbacks.deal_with_collector_judge_finish(session.task_id, info):
            return {**info, **_end_collector(session, ack)}
        if refs and ack == before:  # the worker keeps what the buffer has no room for
            session.closing.wait(session.timing.retry_s)
    raise Cancelled("the coordinator closes")


def _end_collector(session: Session, ack: int) -> dict[str, Any]:
    """End the task and take the remaining references of the collector."""
    try:
        finished = session.end(ack=ack)
    except WorkerTaskFailed as error:
        # All its data has arrived, so the task need not be repeated.
        log.warning("%s is done, but did not end its task: %s", session.holder.worker, error)
        return {}
    refs = finished.get("refs") or []
    while refs and not session.closing.is_set():
        ack = _take_refs(session, {**finished, "refs": refs}, ack)
        refs = [ref for ref in refs if ref["seq"] > ack]
        if refs:
            session.ledger.renew(session.task_id, session.holder)
            session.closing.wait(session.timing.retry_s)
    return {key: value for key, value in finished.items() if key not in ("refs", "seq")}


def _take_refs(session: Session, result: Mapping[str, Any], ack: int) -> int:
    """Pass references to the buffer; return the number up to which they are taken."""
    refs = result.get("refs") or []
    if not refs:
        return ack
    refs = [ref if "seq" in ref else {**ref, "seq": result["seq"]} for ref in refs]
    buffer_id = result.get("buffer_id") or session.task["buffer_id"]
    taken = session.callbacks.buffers.take(session.task_id, buffer_id, session.holder, refs)
    if taken > ack:
        session.ledger.progress(session.task_id, session.holder)
    return max(ack, taken)


def run_learner(session: Session) -> dict[str, Any]:
    """Feed a learner until it is done; return its final report."""
    callbacks, timing = session.callbacks, session.timing
    info_ack, demand = 0, None
    told: dict[str, Any] = {}
    while not session.closing.is_set():
        if not demand:
            env_step = callbacks.buffers.rows_taken
            statistics = session.statistics.unknown(session.task["buffer_id"], told)
            more: dict[str, Any] = {"statistics": statistics} if statistics else {}
            result = session.call(
                "get_data_task", max_wait_s=timing.long_poll_s, info_ack=info_ack, env_step=env_step, **more
            )
            if "batch_size" in result:
                finished = _classic_round(session, result)
                if finished is not None:
                    return finished
                continue
        else:
            batches = callbacks.buffers.sample(session.task["buffer_id"], demand, timing.long_poll_s, session.closing)
            statistics = session.statistics.unknown(session.task["buffer_id"], told)
            more = {"statistics": statistics} if statistics else {}
            result = session.call(
                "learn_task",
                batches=pack_batches(batches),
                max_wait_s=timing.long_poll_s if batches else 0.0,
                info_ack=info_ack,
                env_step=callbacks.buffers.rows_taken,
                **more,
            )
        told |= statistics
        info_ack = _take_infos(session, result, info_ack)
        demand = result.get("demand")
        if result.get("done"):
            return {"buffer_id": session.task["buffer_id"], **result.get("final", {}), **_end_learner(session)}
    raise Cancelled("the coordinator closes")


def _end_learner(session: Session) -> dict[str, Any]:
    """End the task of a learner that is done."""
    try:
        return session.end()
    except WorkerTaskFailed as error:
        # All iterations are done, so the task need not be repeated.
        log.warning("%s is done, but did not end its task: %s", session.holder.worker, error)
        return {}


def _take_infos(session: Session, result: Mapping[str, Any], info_ack: int) -> int:
    """Process the new infos of a learner; return the last number."""
    infos = [info for info in unpack_infos(result) if info["seq"] > info_ack]
    if "policy_version" in result:
        session.callbacks.deal_with_policy_version(session.task, result["policy_version"])
    session.callbacks.buffers.loaded(
        session.task["buffer_id"], int(result.get("loaded", 0)), result.get("broken_chunks") or []
    )
    told = [info["info"] for info in infos]
    joined = joined_priorities(told)
    if joined:  # the buffer takes all priorities in one call
        told = [{**info, "priority_info": {}} for info in told]
        told[0]["priority_info"] = joined
    for info in told:
        session.callbacks.deal_with_learner_send_info(session.task_id, session.task["buffer_id"], info)
    if infos:
        session.ledger.progress(session.task_id, session.holder, told[-1].get("learner_step"))
        number: int = infos[-1]["seq"]
        return number
    return info_ack


def _classic_round(session: Session, demand: Mapping[str, Any]) -> dict[str, Any] | None:
    """Send one batch as a list of meta dicts to a learner that requests one; return the summary after the last."""
    callbacks = session.callbacks
    while True:
        data = callbacks.deal_with_learner_get_data(
            session.task_id, demand["buffer_id"], demand["batch_size"], demand["cur_learner_iter"]
        )
        if data is not None:
            break
        if session.closing.is_set():
            raise Cancelled("the coordinator closes")
        callbacks.buffers.wait_for_data(session.timing.long_poll_s)
        if not session.ledger.renew(session.task_id, session.holder):
            raise Cancelled("the learner does not hold the task any more")
    result = session.call("learn_task", session.timing.start_s, data=list(data))
    info = result["info"]
    if callbacks.deal_with_learner_judge_finish(session.task_id, info):
        return {"buffer_id": demand["buffer_id"], **_end_learner(session)}
    callbacks.deal_with_learner_send_info(session.task_id, demand["buffer_id"], info)
    session.ledger.progress(session.task_id, session.holder, info.get("learner_step"))
    return None
