"""Building blocks of the exchangers: mailboxes, context payloads and model envelopes."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ding.data import ModelLoader, StorageLoader, TransitionBatch
from ding.data.storage.file import Storage
from ding.framework._task_events import topic_of
from ding.framework.task import Role, current_task
from ding.rl_utils.normalization import Counted, statistics_of_model

logger = logging.getLogger(__name__)

_DATA = ("trajectories", "episodes")
_COUNTERS = ("env_step", "env_episode")
_EVALUATION = ("last_eval_iter", "last_eval_value")

News = dict[str, Any]


class Mailbox:
    """Accumulates incoming news until a middleware takes them all.

    Concurrency: any thread may call the methods.

    Args:
        fold: ``fold(news, payload)`` merges a payload into the pending news.
    """

    def __init__(self, fold: Callable[[News, Any], None]) -> None:
        self._task, self._fold = current_task(), fold
        self._lock = threading.Lock()
        self._news: News = {}

    def put(self, payload: object) -> None:
        """Add a payload."""
        with self._lock:
            self._fold(self._news, payload)
        self._task.wake()

    def wait(self, timeout_s: float, is_enough: Callable[[News], bool] = bool) -> bool:
        """Wait until the news suffice; return whether they do or the task has finished.

        Args:
            timeout_s: Time-out in seconds.
            is_enough: By default, whether there are any news.
        """
        return self._task.wait_until(lambda: is_enough(self._news), timeout_s) or self._task.finish

    def take(self) -> News:
        """Return the news and clear them."""
        with self._lock:
            news, self._news = self._news, {}
            return news


class ContextPost:
    """Selects the context values that a process sends, and merges those of others, depending on the roles.

    Args:
        storage_loader: Stores the data of collectors in files.
    """

    def __init__(self, storage_loader: StorageLoader | None) -> None:
        task = current_task()
        self._learns, self._collects = (role in task.roles for role in (Role.LEARNER, Role.COLLECTOR))
        self._storage_loader = storage_loader
        self._counted = dict.fromkeys(_COUNTERS, 0)
        self._kind_of_data = "trajectories"
        self.mailbox = Mailbox(self._fold)

    @property
    def needs_data(self) -> bool:
        """Whether this process must wait for data of others."""
        return self._learns and not self._collects

    def receive(self, payload: Mapping[str, Any]) -> None:
        """Accept a payload of another process.

        Raises:
            AssertionError: Its data is in a file, and there is no loader.
        """
        if "stored" not in payload:
            self.mailbox.put(payload)
        elif self._storage_loader is None:
            raise AssertionError("ContextExchanger: data came as a file, but there is no storage_loader")
        elif self._learns:
            self._storage_loader.load(_handle(payload["stored"]), self.mailbox.put)
        else:
            self.mailbox.put({key: value for key, value in payload.items() if key != "stored"})

    def _fold(self, news: News, payload: Mapping[str, Any]) -> None:
        for key, value in payload.items():
            if key in _COUNTERS:
                if not self._collects:
                    news[key] = news.get(key, 0) + value
            elif key in _DATA:
                if self._learns:
                    news[key] = _joined(news.get(key), value)
            elif key == "trajectory_end_idx":
                if self._learns:
                    before = len(news.get("trajectories") or ()) - len(payload["trajectories"])
                    news[key] = [*news.get(key, ()), *(before + position for position in value)]
            elif key == "train_iter" or (key in _EVALUATION and self._learns):
                news[key] = value

    def merge(self, ctx: Any, news: News) -> None:
        """Merge the news into the context."""
        for key, value in news.items():
            if key in _COUNTERS:
                setattr(ctx, key, getattr(ctx, key) + value)
            elif key in _DATA:
                setattr(ctx, key, _joined(getattr(ctx, key), value))
                self._kind_of_data = key
            else:
                setattr(ctx, key, value)
        if self.needs_data and not has_data(news):
            setattr(ctx, self._kind_of_data, [])

    def produced(self, ctx: Any, role: Role) -> News:
        """Return the values that a process with this role sends; each is sent only once."""
        if role is Role.LEARNER:
            return {"train_iter": ctx.train_iter}
        if role is Role.EVALUATOR:
            is_evaluated = ctx.eval_value is not None and ctx.eval_value != -float("inf")
            return {key: getattr(ctx, key) for key in _EVALUATION} if is_evaluated else {}
        if role is not Role.COLLECTOR:
            return {}
        data = {key: _sendable(getattr(ctx, key)) for key in _DATA if getattr(ctx, key, None)}
        if "trajectories" in data and ctx.trajectory_end_idx:
            data["trajectory_end_idx"] = [int(position) for position in ctx.trajectory_end_idx]
        counted = {key: int(getattr(ctx, key)) for key in _COUNTERS}
        increments = {key: number - self._counted[key] for key, number in counted.items()}
        self._counted = counted
        if data and self._storage_loader is not None:
            stored = self._storage_loader.save({**data, **increments})
            return {"stored": _address(stored), **increments}
        return {**data, **increments}


class ModelPost:
    """Sends and receives model states under an event.

    A state is sent in an envelope ``{"id", "time", "model" | "stored"}``, with ``normalization`` if the model's policy
    keeps statistics of observations or rewards. The newest one is also sent to processes that connect later.
    """

    def __init__(self, model: torch.nn.Module, loader: ModelLoader | None, event: str) -> None:
        self._model, self._loader, self._event = model, loader, event
        self._task = current_task()
        self._mailbox = Mailbox(lambda news, envelope: news.update(envelope))
        self._counted: Counted | None = None

    def listen(self) -> None:
        """Start receiving."""
        self._task.on(self._event, self._mailbox.put)

    def contribute(self) -> None:
        """Send this process's statistics of observations and rewards, starting with the first call."""
        statistics = statistics_of_model(self._model)
        if statistics is not None and self._counted is None:
            self._counted = Counted()
            statistics.count_into(self._counted)
        contribution = None if self._counted is None else self._counted.contribution()
        if contribution:
            self._task.emit(f"{self._event}_statistics", contribution, only_remote=True)

    def merge_contributions(self) -> None:
        """Merge the statistics of other processes from now on."""
        self._task.on(f"{self._event}_statistics", self._merge)

    def _merge(self, contribution: Mapping[str, Any]) -> None:
        statistics = statistics_of_model(self._model)
        if statistics is not None:
            statistics.merge(contribution)

    def send(self, number: int) -> None:
        """Send the current state with the statistics of observations and rewards."""
        if self._loader is None:
            self._emit(number, {"model": self._model.state_dict()})
        else:
            self._loader.start()
            self._loader.save(lambda storage: self._emit(number, {"stored": _address(storage)}))

    def _emit(self, number: int, content: Mapping[str, Any]) -> None:
        if self._task.running:
            statistics = statistics_of_model(self._model)
            found = {} if statistics is None else statistics.state_dict()
            envelope = {"id": number, "time": time.time(), **content, **({"normalization": found} if found else {})}
            self._task.router.emit(topic_of(self._event), envelope, retain=True)

    def newest(self, timeout_s: float) -> News:
        """Return the newest envelope not returned yet; empty on time-out."""
        self._mailbox.wait(timeout_s)
        return self._mailbox.take()

    def load(self, envelope: News) -> bool:
        """Load a state; return whether its file still existed."""
        try:
            if self._loader is not None and "stored" in envelope:
                state = self._loader.load(_handle(envelope["stored"]))
            else:
                state = envelope["model"]
            self._model.load_state_dict(state)
            statistics = statistics_of_model(self._model)
            if statistics is not None and envelope.get("normalization"):
                statistics.load_state_dict(envelope["normalization"])
        except FileNotFoundError as error:
            logger.warning("a model was removed before it was loaded: %s", error)
            return False
        return True

    def close(self) -> None:
        """Close the loader."""
        if self._loader is not None:
            self._loader.shutdown()


def has_data(news: Mapping[str, Any]) -> bool:
    """Return whether the news contain trajectories or episodes."""
    return any(key in news for key in _DATA)


def _sendable(data: Any) -> object:
    """Convert transitions to columns, which need only a few arrays in total."""
    if isinstance(data, TransitionBatch) or not isinstance(data[0], Mapping):
        return data
    try:
        return TransitionBatch.from_rows(list(data))
    except ValueError:  # rows with different fields or shapes
        return list(data)


def _joined(first: Sequence[Any] | None, second: Sequence[Any]) -> Sequence[Any]:
    """Concatenate transitions or episodes."""
    if not first:
        return second
    if isinstance(first, TransitionBatch) and isinstance(second, TransitionBatch):
        return first + second
    return [*first, *second]


def _address(storage: Storage) -> dict[str, str]:
    return {"type": type(storage).__name__, "path": storage.path}


def _handle(address: Mapping[str, str]) -> Storage:
    """Return the handle of data that another process saved.

    Raises:
        ValueError: The handle class is unknown here.
    """
    kinds: dict[str, Callable[[str], Storage]] = {}
    todo = Storage.__subclasses__()
    while todo:
        kind = todo.pop()
        kinds[kind.__name__] = kind
        todo += kind.__subclasses__()
    if address["type"] not in kinds:
        raise ValueError(f"a {address['type']} came, which is no Storage of this process")
    return kinds[address["type"]](address["path"])
