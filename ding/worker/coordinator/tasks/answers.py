"""What workers answer, as types: an answer that is none of them is a failure of the worker, and names the field.

Only what the coordinator itself reads is in them. Keys that are not known here pass: commanders of one's own may need
them.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from ding.interaction.errors import SchemaError
from ding.interaction.messages import convert
from ding.worker.coordinator.errors import WorkerTaskFailed

_MAX_DEMANDS = _MAX_REFS = 4096

Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
Count = Number | Annotated[float, Meta(ge=0.0, lt=2.0**62)]
Return = float | None


class Ref(Struct):
    """A reference to a chunk; ``checked_ref`` looks at the rest of it."""

    chunk: str
    seq: Number = 0


class CollectorNews(Struct):
    """Of ``data_task``."""

    seq: Number = 0
    refs: Annotated[list[Ref], Meta(max_length=_MAX_REFS)] | None = None
    info: dict[str, Any] | None = None
    buffer_id: str | None = None
    data_id: str | None = None
    collector_done: bool = False


class CollectorEnd(Struct):
    """Of ``close_task``."""

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
    """What a train iteration brought."""

    learner_step: Count = 0
    learner_done: bool = False
    priority_info: dict[str, Any] | None = None


class NumberedInfo(Struct):
    """The same with its number."""

    seq: Number
    info: LearnerInfo


class LearnerNews(Struct):
    """Of ``get_data_task`` and ``learn_task``."""

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
    """Of ``resource``."""

    task_id: str | None = None


_KINDS: dict[str, Any] = {
    "resource": Resource,
    "collector_data_task": CollectorNews,
    "collector_close_task": CollectorEnd,
    "learner_get_data_task": LearnerNews,
    "learner_learn_task": LearnerNews,
}


def checked_answer(answer: object, name: str, worker: str, buffer_id: str | None = None) -> dict[str, Any]:
    """Return the answer of a worker to the message ``name``.

    Args:
        buffer_id: the only buffer that it may name; None: any.

    Raises:
        WorkerTaskFailed: it has not the form that it must have; the message names the field.
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
