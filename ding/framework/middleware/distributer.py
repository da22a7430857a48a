"""What the processes of a run send each other each iteration. Used before all other middleware."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from ding.data import ModelLoader, StorageLoader, TransitionBatch
from ding.data.storage.file import Storage
from ding.framework._task_events import topic_of
from ding.framework.context import Context
from ding.framework.middleware._roles import in_parallel
from ding.framework.task import Role, VoidMiddleware, current_task

logger = logging.getLogger(__name__)

WAIT_S = 60.0
"""How long a process waits for news until it goes on without them; a learner waits on, and reports it."""
OLD_WAIT_S = 5.0
_DATA = ("trajectories", "episodes")
_COUNTERS = ("env_step", "env_episode")
_EVALUATION = ("last_eval_iter", "last_eval_value")


News = dict[str, Any]


class Mailbox:
    """News that come at any time, until a middleware takes them all at once.

    Concurrency: all methods may be called from any thread.

    Args:
        fold: ``fold(news, payload)`` puts a payload into the news that have not been taken.
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

    def take(self, timeout_s: float, is_enough: Callable[[News], bool] = bool) -> News:
        """Return the news and forget them.

        Waits until they are enough, for ``timeout_s`` seconds at most, and not for a task that has finished.
        """
        self._task.wait_until(lambda: is_enough(self._news), timeout_s)
        with self._lock:
            news, self._news = self._news, {}
            return news


@in_parallel
class ContextExchanger:
    """Sends what a process produces, and puts what the others have produced into its context.

    ==================================  ============  ==================================================
    of the context                      sent by       received by
    ==================================  ============  ==================================================
    trajectories, trajectory_end_idx,   collectors    the learner, which appends them
    episodes
    env_step, env_episode               collectors    others than collectors, which add what was counted
    train_iter                          the learner   the others
    last_eval_iter, last_eval_value     evaluators    the learner
    ==================================  ============  ==================================================

    The learner waits for data of a collector, the others for any news, from iteration ``skip_n_iter`` on. A learner
    whose task finishes meanwhile gets no data: ``trajectories``, or what it got before, is then an empty list.

    Args:
        skip_n_iter: iterations in which nobody but the learner waits.
        storage_loader: send data of collectors through files, which all processes can read.
    """

    def __init__(self, skip_n_iter: int = 1, storage_loader: StorageLoader | None = None) -> None:
        task = current_task()
        if len(task.roles) > 1:
            logger.warning("ContextExchanger: this process has the roles %s; it is made for one", sorted(task.roles))
        self._skip_n_iter = skip_n_iter
        self._storage_loader = storage_loader
        self._learns, self._collects = (role in task.roles for role in (Role.LEARNER, Role.COLLECTOR))
        self._mailbox = Mailbox(self._fold)
        self._counted = dict.fromkeys(_COUNTERS, 0)
        self._kind_of_data = "trajectories"
        for role in Role:
            if role not in task.roles:
                task.on(_event_of(role), self._receive)

    def __call__(self, ctx: Context) -> Iterator[None]:
        self._merge(ctx, self._wait(ctx))
        yield
        task = current_task()
        for role in task.roles:
            if payload := self._produced(ctx, Role(role)):
                task.emit(_event_of(role), payload, only_remote=True)
        if task.finish and self._storage_loader is not None:
            self._storage_loader.shutdown()

    def _wait(self, ctx: Context) -> News:
        if self._learns and not self._collects:
            news = self._mailbox.take(WAIT_S, _has_data)
            while not _has_data(news) and not current_task().finish:
                logger.warning("the learner has waited %.0f s for data of a collector", WAIT_S)
                news |= self._mailbox.take(WAIT_S, _has_data)  # what came before has no data
            return news
        must_wait = ctx.total_step >= self._skip_n_iter
        news = self._mailbox.take(WAIT_S if must_wait else 0.0)
        if must_wait and not news and not current_task().finish:
            logger.warning("nothing came from the other processes within %.0f s", WAIT_S)
        return news

    def _receive(self, payload: Mapping[str, Any]) -> None:
        if "stored" not in payload:
            self._mailbox.put(payload)
        elif self._storage_loader is None:
            raise AssertionError("ContextExchanger: data came as a file, but there is no storage_loader")
        elif self._learns:
            self._storage_loader.load(_handle(payload["stored"]), self._mailbox.put)
        else:
            self._mailbox.put({key: value for key, value in payload.items() if key != "stored"})

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

    def _merge(self, ctx: Any, news: News) -> None:
        for key, value in news.items():
            if key in _COUNTERS:
                setattr(ctx, key, getattr(ctx, key) + value)
            elif key in _DATA:
                setattr(ctx, key, _joined(getattr(ctx, key), value))
                self._kind_of_data = key
            else:
                setattr(ctx, key, value)
        if self._learns and not self._collects and not _has_data(news):
            setattr(ctx, self._kind_of_data, [])

    def _produced(self, ctx: Any, role: Role) -> dict[str, Any]:
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


def _event_of(role: str) -> str:
    return f"context_exchanger_{Role(role).value}"


def _has_data(news: Mapping[str, Any]) -> bool:
    return any(key in news for key in _DATA)


def _sendable(data: Any) -> Any:
    """Transitions as columns, which take a few arrays in all instead of some for each."""
    if isinstance(data, TransitionBatch) or not isinstance(data[0], Mapping):
        return data
    try:
        return TransitionBatch.from_rows(list(data))
    except ValueError:  # rows of different forms
        return list(data)


def _joined(first: Any, second: Any) -> Any:
    """The transitions or episodes of both."""
    if not first:
        return second
    if isinstance(first, TransitionBatch) and isinstance(second, TransitionBatch):
        return first + second
    return [*first, *second]


def _address(storage: Storage) -> dict[str, str]:
    return {"type": type(storage).__name__, "path": storage.path}


def _handle(address: Mapping[str, str]) -> Storage:
    """The handle of what another process has saved.

    Raises:
        ValueError: there is no such class of handles here.
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


class _ModelPost:
    """Sends and receives states of a model under an event, in an envelope ``{"id", "time", "model" | "stored"}``.

    The newest one goes also to processes that connect later.
    """

    def __init__(self, model: torch.nn.Module, loader: ModelLoader | None, event: str) -> None:
        self._model, self._loader, self._event = model, loader, event
        self._task = current_task()
        self._mailbox = Mailbox(lambda news, envelope: news.update(envelope))

    def listen(self) -> None:
        """Begin to receive."""
        self._task.on(self._event, self._mailbox.put)

    def send(self, number: int) -> None:
        """Send the state as it is now."""
        if self._loader is None:
            self._emit(number, {"model": self._model.state_dict()})
        else:
            self._loader.start()
            self._loader.save(lambda storage: self._emit(number, {"stored": _address(storage)}))

    def _emit(self, number: int, content: Mapping[str, Any]) -> None:
        if self._task.running:
            envelope = {"id": number, "time": time.time(), **content}
            self._task.router.emit(topic_of(self._event), envelope, retain=True)

    def newest(self, timeout_s: float) -> News:
        """Return the newest envelope that was not returned yet; empty if none comes in time."""
        return self._mailbox.take(timeout_s)

    def load(self, envelope: News) -> bool:
        """Load a state; returns whether its file was still there."""
        try:
            if self._loader is not None and "stored" in envelope:
                state = self._loader.load(_handle(envelope["stored"]))
            else:
                state = envelope["model"]
            self._model.load_state_dict(state)
        except FileNotFoundError as error:
            logger.warning("a model was removed before it was loaded: %s", error)
            return False
        return True

    def close(self) -> None:
        """End the loader."""
        if self._loader is not None:
            self._loader.shutdown()


@in_parallel
class ModelExchanger:
    """The learner sends its model, at first and after each iteration; the others load the newest before each.

    They wait for a model that they have not loaded yet, a minute at most.

    Args:
        model: the model of the policy.
        model_loader: send models through files, which all processes can read.
    """

    def __init__(self, model: torch.nn.Module, model_loader: ModelLoader | None = None) -> None:
        self._learns = Role.LEARNER in current_task().roles
        self._post = _ModelPost(model, model_loader, "model_exchanger")
        if self._learns:
            # Collectors begin with these weights, instead of random ones of their own.
            self._post.send(0)
        else:
            self._post.listen()

    def __call__(self, ctx: Context) -> Iterator[None]:
        if not self._learns:
            self._load()
        yield
        if self._learns:
            self._post.send(ctx.total_step + 1)
        if current_task().finish:
            self._post.close()

    def _load(self) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while envelope := self._post.newest(deadline_s - time.monotonic()):
            if self._post.load(envelope):
                return
        if not current_task().finish:
            logger.warning("no new model came from the learner within %.0f s; the old one is used", WAIT_S)


class PeriodicalModelExchanger:
    """Sends a model every few iterations, or receives one and goes on with an old one for some time.

    Args:
        model: the model of the policy.
        mode: ``send`` or ``receive``.
        period: iterations between two sends; models with other numbers are not received.
        delay_toleration: a received model is not loaded when it is older, in seconds.
        stale_toleration: iterations for which a model is used before a new one is waited for.
        event_name: the event that carries it.
        model_loader: send through files, which all processes can read.

    Raises:
        NotImplementedError: there is no such mode.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        mode: str,
        period: int = 1,
        delay_toleration: float = float("inf"),
        stale_toleration: int = 1,
        event_name: str = "model_exchanger",
        model_loader: ModelLoader | None = None,
    ) -> None:
        if mode not in ("send", "receive"):
            raise NotImplementedError(f"the mode of a PeriodicalModelExchanger is send or receive, got {mode!r}")
        self._mode, self._period = mode, period
        self._delay_toleration, self._stale_toleration = delay_toleration, stale_toleration
        self._post = _ModelPost(model, model_loader, event_name)
        self._num_sent = 0
        self._staleness, self._newest_s = stale_toleration, -float("inf")  # no model has come yet
        if mode == "receive":
            self._post.listen()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A run of one process exchanges nothing."""
        return object.__new__(cls) if current_task().router.is_active else VoidMiddleware()

    def __call__(self, ctx: Context) -> Iterator[None]:
        if self._mode == "receive" and ctx.total_step > 0:
            self._load()
        yield
        if self._mode == "send":
            if self._num_sent % self._period == 0:
                self._post.send(self._num_sent)
            self._num_sent += 1
        if current_task().finish:
            self._post.close()

    def _load(self) -> None:
        is_old = time.time() - self._newest_s >= self._delay_toleration
        may_wait = is_old or self._staleness >= self._stale_toleration
        deadline_s = time.monotonic() + (WAIT_S if may_wait else 0.0)
        self._staleness += 1
        while envelope := self._post.newest(deadline_s - time.monotonic()):
            is_fresh = time.time() - envelope["time"] < self._delay_toleration
            if envelope["id"] % self._period == 0 and is_fresh and self._post.load(envelope):
                self._staleness, self._newest_s = 1, envelope["time"]
                return
        if may_wait and not current_task().finish:
            logger.warning("no new model came within %.0f s; the old one is used", WAIT_S)


def context_exchanger(
    send_keys: "list[str] | None" = None, recv_keys: "list[str] | None" = None, skip_n_iter: int = 0
) -> Callable[[Context], Iterator[None]]:
    """Return a middleware that sends values of the context, and takes those of the newest message of the others.

    For scripts of old versions; :class:`ContextExchanger` merges what several processes send.

    Args:
        send_keys: names of the values to send.
        recv_keys: names of those to take, where they are not empty.
        skip_n_iter: iterations in which no message is waited for.
    """
    task = current_task()
    messages: list[News] = []

    def receive(payload: News) -> None:
        messages.append(payload)
        task.wake()

    if recv_keys:
        task.on("context_exchanger", receive)

    def exchange(ctx: Context) -> Iterator[None]:
        if recv_keys and ctx.total_step >= skip_n_iter and task.wait_until(lambda: bool(messages)):
            payload = messages.pop()
            for key in recv_keys:
                if payload.get(key):
                    setattr(ctx, key, payload[key])
        yield
        payload = {key: getattr(ctx, key) for key in send_keys or () if getattr(ctx, key, None)}
        if payload:
            task.emit("context_exchanger", payload, only_remote=True)

    return exchange


def model_exchanger(model: torch.nn.Module, is_learner: bool = False) -> Callable[[Context], Iterator[None]]:
    """Return a middleware that sends a model after each iteration, or loads the newest one before each.

    For scripts of old versions; see :class:`ModelExchanger`.

    Args:
        model: the model of the policy.
        is_learner: whether this process sends.
    """
    post = _ModelPost(model, None, "model_exchanger")
    if not is_learner:
        post.listen()

    def exchange(ctx: Context) -> Iterator[None]:
        if not is_learner and ctx.total_step > 0:
            if envelope := post.newest(OLD_WAIT_S):
                post.load(envelope)
            else:
                logger.warning("no new model came within %.0f s; the old one is used", OLD_WAIT_S)
        yield
        if is_learner:
            post.send(ctx.total_step)

    return exchange
