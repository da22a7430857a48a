"""Where the batches of a serial run come from.

A loop collects once in each pass and then trains on every batch that the path yields; which samples are kept, for how
long, and how often they are drawn is the path's business alone. `ReplayPath` is that of the off-policy algorithms,
`OnPolicyPath` that of the on-policy ones, `OfflinePath` (in ``offline_path``) that of those that learn from a data set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, Protocol

import torch

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.data.roles import Samples
from ding.entry.serial.parts import SerialParts
from ding.entry.utils import random_collect
from ding.policy._compiled_updates import joined_updates
from ding.utils import allreduce_data, get_rank, get_world_size

logger = logging.getLogger("ding.entry")


class DataPath(Protocol):
    """From the collector to the learner."""

    @property
    def train_kwargs(self) -> dict[str, Any] | None:
        """Further arguments of ``policy.forward`` for the newest batch."""

    def prepare(self) -> None:
        """Collect what must be there before the first pass."""

    def collect(self) -> None:
        """Collect once, and keep the samples.

        Raises:
            StopNow: A signal came; nothing was kept.
        """

    def batches(self) -> Iterator[Samples]:
        """Yield the batches of a pass; the loop trains once on each."""

    def trained(self) -> None:
        """Take over what the learner found out about the newest batch, e.g. its priorities."""


class ReplayPath:
    """Collects into a replay buffer, and draws ``policy.learn.update_per_collect`` batches from it in each pass.

    Args:
        parts: The workers.
        interruptible: Makes the section that a signal may leave at any point.
        label: Marks what was collected, before it is pushed.
        joins: Whether a policy that can may get the batches of several updates in one.
    """

    train_kwargs: dict[str, Any] | None = None

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        label: Callable[[Samples], Samples] | None = None,
        joins: bool = True,
    ) -> None:
        if parts.buffer is None:
            raise ConfigValueError("learning from a replay buffer needs parts with one")
        self._parts, self.buffer, self._label = parts, parts.buffer, label
        self._interruptible = interruptible
        self._trained = False
        self._updates = int(parts.cfg.policy.learn.update_per_collect)
        #: A number of samples; of a policy with several buffers one for each.
        self._batch_size: Any = parts.learner.policy.get_attribute("batch_size")
        self._uses_priority = bool(parts.learner.policy.get_attribute("priority"))
        # A limiter counts on draws of one batch.
        limited = (parts.cfg.policy.get("other", {}).get("replay_buffer", {}).get("rate_limit") or {}).get(
            "samples_per_insert"
        )
        limit = int(parts.learner.policy.get_attribute("updates_per_call")) if joins and limited is None else 1
        self._joined = joined_updates(self._updates, limit)

    def prepare(self) -> None:
        parts = self._parts
        # A run that goes on has these samples in its buffer.
        resumed = parts.collector.envstep > 0 and self.buffer.count() > 0
        if parts.cfg.policy.get("random_collect_size", 0) > 0 and not resumed:
            with self._interruptible():
                random_collect(
                    parts.cfg.policy, parts.policy, parts.collector, parts.collector_env, parts.commander, self.buffer,
                    self._label,
                )  # fmt: skip

    def collect(self) -> None:
        parts = self._parts
        with self._interruptible():
            samples = collected(parts)
        if self._label is not None:
            samples = self._label(samples)
        self.buffer.push(samples, cur_collector_envstep=parts.collector.envstep)

    def batches(self) -> Iterator[Samples]:
        self.train_kwargs = {"num_updates": self._joined} if self._joined > 1 else None
        for done in range(0, self._updates, self._joined):
            train_iter = self._parts.learner.train_iter
            if self._joined == 1:
                batch = self.buffer.sample(self._batch_size, train_iter)
            else:
                batch = self._draw_joined(self._batch_size, self._joined, train_iter)
            if batch is None:
                # Before the first update the buffer is simply not full enough yet, in a resumed run, too.
                if self._trained:
                    logger.warning(
                        "the buffer gave no batch of %s after %d of %d updates of this pass; collecting on",
                        self._batch_size, done, self._updates,
                    )  # fmt: skip
                return
            yield batch

    def _draw_joined(self, size: int, count: int, train_iter: int) -> Samples | None:
        """The batches of several updates, one behind the other: in one draw where the buffer holds so many."""
        if self.buffer.count() >= size * count:
            return self.buffer.sample(size * count, train_iter)
        drawn: list[Any] = []
        while len(drawn) < count:
            batch = self.buffer.sample(size, train_iter)
            if batch is None:
                return None
            drawn.append(batch)
        return (
            TransitionBatch.concat(drawn) if isinstance(drawn[0], TransitionBatch) else list(chain.from_iterable(drawn))
        )

    def trained(self) -> None:
        self._trained = True
        if self._uses_priority:
            self.buffer.update(self._parts.learner.priority_info)


class OnPolicyPath:
    """Trains once on all that was collected in a pass, and keeps none of it.

    The policy goes through the samples as often as it is told to by its config.

    Args:
        parts: The workers.
        interruptible: Makes the section that a signal may leave at any point.
        label: Marks what was collected.
    """

    train_kwargs: dict[str, Any] | None = None

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        label: Callable[[Samples], Samples] | None = None,
    ) -> None:
        self._parts, self._label = parts, label
        self._interruptible = interruptible
        self._samples: Samples = ()

    def prepare(self) -> None:
        return

    def collect(self) -> None:
        with self._interruptible():
            self._samples = self._collected()
        if self._parts.cfg.policy.get("multi_gpu", False):
            self._samples = self._samples[: _fewest(len(self._samples))]
        if self._label is not None:
            self._samples = self._label(self._samples)

    def _collected(self) -> Samples:
        return collected(self._parts)

    def batches(self) -> Iterator[Samples]:
        samples, self._samples = self._samples, ()
        yield samples

    def trained(self) -> None:
        return


def _fewest(count: int) -> int:
    """The smallest count of all processes: each goes through as many minibatches, for they exchange gradients."""
    counts = torch.zeros(get_world_size(), dtype=torch.int64)
    counts[get_rank()] = count
    return int(allreduce_data(counts, "sum").min())


def collected(parts: SerialParts, **kwargs: Any) -> Samples:
    """Collect once, as the commander says."""
    policy_kwargs = parts.commander.step()
    return parts.collector.collect(train_iter=parts.learner.train_iter, policy_kwargs=policy_kwargs, **kwargs)
