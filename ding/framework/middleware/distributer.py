"""Exchange between the processes of a run in each iteration. Use it before all other middleware."""

import logging
import time
from collections.abc import Callable, Iterator

import torch

from ding.data import ModelLoader, StorageLoader
from ding.framework.context import Context
from ding.framework.middleware._exchange import ContextPost, ModelPost, News, has_data
from ding.framework.middleware._roles import between_processes, in_parallel
from ding.framework.task import Role, current_task

logger = logging.getLogger(__name__)

WAIT_S = 60.0
"""Time after which a process stops waiting for news; a learner reports it and waits on."""
OLD_WAIT_S = 5.0


@in_parallel
class ContextExchanger:
    """Sends the results of a process, and merges those of the others into its context.

    ==================================  ============  ==================================================
    context values                      sent by       received by
    of the context                      sent by       received by
    ==================================  ============  ==================================================
    trajectories, trajectory_end_idx,   collectors    the learner, which appends them
    episodes
    env_step, env_episode               collectors    non-collectors, which add the counts
    train_iter                          the learner   the others
    last_eval_iter, last_eval_value     evaluators    the learner
    ==================================  ============  ==================================================

    From iteration ``skip_n_iter`` on, the learner waits for data of a collector, and the others for any news. If the
    task
    finishes during the wait, the learner gets no new data: ``trajectories`` is empty, or contains what arrived before.

    Args:
        skip_n_iter: Number of initial iterations in which only the learner waits.
        storage_loader: Transfers collected data through files, which all processes must be able to read.
    """

    def __init__(self, skip_n_iter: int = 1, storage_loader: StorageLoader | None = None) -> None:
        task = current_task()
        if len(task.roles) > 1:
            logger.warning("ContextExchanger: this process has the roles %s; it is made for one", sorted(task.roles))
        self._skip_n_iter = skip_n_iter
        self._storage_loader = storage_loader
        self._post = ContextPost(storage_loader)
        for role in Role:
            if role not in task.roles:
                task.on(_event_of(role), self._post.receive)

    def __call__(self, ctx: Context) -> Iterator[None]:
        self._wait(ctx)
        self._post.merge(ctx, self._post.mailbox.take())
        yield
        task = current_task()
        for role in task.roles:
            if payload := self._post.produced(ctx, Role(role)):
                task.emit(_event_of(role), payload, only_remote=True)
        if task.finish and self._storage_loader is not None:
            self._storage_loader.shutdown()

    def _wait(self, ctx: Context) -> None:
        if self._post.needs_data:
            while not self._post.mailbox.wait(WAIT_S, has_data):
                logger.warning("the learner has waited %.0f s for data of a collector", WAIT_S)
        elif ctx.total_step >= self._skip_n_iter and not self._post.mailbox.wait(WAIT_S):
            logger.warning("nothing came from the other processes within %.0f s", WAIT_S)


def _event_of(role: str) -> str:
    return f"context_exchanger_{Role(role).value}"


@in_parallel
class ModelExchanger:
    """Sends the learner's model at the start and after each iteration; the others load the newest before each
    iteration.

    They wait up to a minute for a model that they have not loaded yet. Statistics of observations and rewards
    (``obs_norm``, ``reward_norm``) are sent with the model; collectors send their contributions to the learner.

    Args:
        model: Model of the policy.
        model_loader: Transfers models through files, which all processes must be able to read.
    """

    def __init__(self, model: torch.nn.Module, model_loader: ModelLoader | None = None) -> None:
        self._learns, self._collects = (role in current_task().roles for role in (Role.LEARNER, Role.COLLECTOR))
        self._post = ModelPost(model, model_loader, "model_exchanger")
        if self._learns:
            # Collectors start with these weights, instead of their own random ones.
            self._post.merge_contributions()
            self._post.send(0)
        else:
            self._post.listen()

    def __call__(self, ctx: Context) -> Iterator[None]:
        if not self._learns:
            self._load()
            if self._collects:
                self._post.contribute()
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


@between_processes
class PeriodicalModelExchanger:
    """Sends a model every few iterations, or receives one and tolerates an older one for some time.

    Args:
        model: Model of the policy.
        mode: ``send`` or ``receive``.
        period: Interval between sends in iterations; models with other numbers are ignored.
        delay_toleration: Maximum age of a received model, in seconds; older ones are not loaded.
        stale_toleration: Number of iterations for which a model is used before waiting for a new one.
        event_name: Name of the event.
        model_loader: Transfers models through files, which all processes must be able to read.

    Raises:
        NotImplementedError: The mode is unknown.
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
        self._post = ModelPost(model, model_loader, event_name)
        self._num_sent = 0
        self._staleness, self._newest_s = stale_toleration, -float("inf")  # no model received yet
        self._collects = mode == "receive" and Role.COLLECTOR in current_task().roles
        if mode == "receive":
            self._post.listen()
        else:
            self._post.merge_contributions()

    def __call__(self, ctx: Context) -> Iterator[None]:
        if self._mode == "receive" and ctx.total_step > 0:
            self._load()
        if self._collects:
            self._post.contribute()
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
    """Return a middleware that sends context values, and applies those of the newest message of the others.

    For older scripts; :class:`ContextExchanger` merges the messages of several processes.

    Args:
        send_keys: Names of the values to send.
        recv_keys: Names of the values to apply, unless they are empty.
        skip_n_iter: Number of initial iterations without waiting for a message.
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

    For older scripts; see :class:`ModelExchanger`.

    Args:
        model: Model of the policy.
        is_learner: Whether this process sends.
    """
    post = ModelPost(model, None, "model_exchanger")
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
