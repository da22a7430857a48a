"""Data transfer from collectors to buffers, and from buffers and data sets to training."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
from easydict import EasyDict
from torch.utils.data import DataLoader, Dataset

from ding.data import Buffer, DequeBuffer, TransitionBatch
from ding.data.buffer import RecordBatch
from ding.data.buffer.errors import NotEnoughDataError
from ding.data.buffer.middleware import PriorityExperienceReplay
from ding.data.roles import Samples
from ding.data.transition_batch import joined_samples
from ding.framework.context import OfflineRLContext, OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.middleware.trees import as_batch, as_dict
from ding.framework.task import Role
from ding.reward_model.sqil import with_rewards_of_imitation
from ding.utils import SeedTree, one_time_warning
from ding.utils.data.dataset import offline_data_save_type
from ding.utils.rows import num_rows

if TYPE_CHECKING:
    from ding.policy.qgpo import QGPOPolicy

# Number of states for which actions are sampled at once.
_DRAWN_TOGETHER = 4096

Buffers = Buffer | Sequence[tuple[Buffer, float]] | Mapping[str, Buffer]


@for_roles(Role.LEARNER)
def data_pusher(cfg: EasyDict, buffer_: Buffer, group_by_env: bool | None = None) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that pushes ``ctx.trajectories``, or else ``ctx.episodes``, to a buffer, and clears them.

    Each transition becomes a record; an episode is a single record.

    Args:
        cfg: Ignored.
        buffer_: Destination buffer.
        group_by_env: Add the episode number of each record as ``meta['env']``, to sample sequences of an episode.

    Raises:
        RuntimeError: (by the middleware) The context has neither.
    """

    def push(ctx: OnlineRLContext) -> None:
        if ctx.trajectories is not None:
            push_rows(buffer_, ctx.trajectories, _episode_numbers(ctx.trajectories) if group_by_env else None)
            ctx.trajectories = None
        elif ctx.episodes is not None:
            for episode in ctx.episodes:
                buffer_.push(episode)
            ctx.episodes = None
        else:
            raise RuntimeError(
                "data_pusher: neither ctx.trajectories nor ctx.episodes is there; is there a collector before it?"
            )

    return push


def push_rows(buffer: Buffer, rows: Sequence[Any], meta: Mapping[str, Any] | None = None) -> None:
    """Push each row as a record, in one call if the buffer supports it."""
    if isinstance(buffer, DequeBuffer):
        buffer.extend(rows, meta)
        return
    for position, row in enumerate(rows):
        buffer.push(row, {key: column[position] for key, column in (meta or {}).items()})


def _episode_numbers(rows: Sequence[Any]) -> dict[str, list[int]]:
    column = rows.columns["env_data_id"] if isinstance(rows, TransitionBatch) else [one["env_data_id"] for one in rows]
    return {"env": [int(number) for number in np.asarray(column).reshape(-1)]}


@for_roles(Role.LEARNER)
def sqil_data_pusher(cfg: EasyDict, buffer_: Buffer, expert: bool) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that pushes ``ctx.trajectories`` with reward 1 (expert) or 0, and clears them.

    SQIL, Reddy et al. 2020, https://arxiv.org/abs/1905.11108.
    """

    def push(ctx: OnlineRLContext) -> None:
        if ctx.trajectories is None:
            raise RuntimeError("sqil_data_pusher: the context has no trajectories; is there a collector before it?")
        push_rows(buffer_, with_rewards_of_imitation(as_batch(ctx.trajectories), expert))
        ctx.trajectories = None

    return push


@for_roles(Role.LEARNER)
def buffer_saver(
    cfg: EasyDict, buffer_: Buffer, every_envstep: int = 1000, replace: bool = False
) -> Callable[[OnlineRLContext], None]:
    """Return a middleware that saves the buffer to ``<exp_name>/replaybuffer``, at the start and at intervals.

    Args:
        cfg: Config with ``exp_name``.
        every_envstep: Interval in env steps.
        replace: Keep only ``data_latest.hkl``; otherwise write ``data_envstep_<env_step>.hkl``.
    """
    folder = os.path.join(cfg.exp_name, "replaybuffer")
    last_saved = -every_envstep

    def save(ctx: OnlineRLContext) -> None:
        nonlocal last_saved
        if ctx.env_step is None:
            raise RuntimeError("buffer_saver: ctx.env_step is None, there is nothing to count by")
        if ctx.env_step >= every_envstep + last_saved:
            last_saved = ctx.env_step
            name = "data_latest.hkl" if replace else f"data_envstep_{ctx.env_step}.hkl"
            os.makedirs(folder, exist_ok=True)
            buffer_.save_data(os.path.join(folder, name))

    return save


@for_roles(Role.LEARNER)
def offpolicy_data_fetcher(
    cfg: EasyDict, buffer_: Buffers, data_shortage_warning: bool = False
) -> Callable[[OnlineRLContext], Iterator[Any]]:
    """Return a middleware that samples ``policy.learn.batch_size`` records into ``ctx.train_data``.

    ``train_data`` is ``None`` if there are too few records. If the buffer samples by priority
    (:class:`~ding.data.buffer.middleware.PriorityExperienceReplay`), the backward phase writes the policy's new
    priorities back: those of ``ctx.train_output``, or of its last element if it is a list.

    Args:
        cfg: ``policy.learn.batch_size``; ``policy.collect.unroll_len`` above 1 samples sequences of one episode.
        buffer_: A buffer; a list of buffers with their fractions of a batch, whose samples are concatenated; or a dict
            of buffers, each of which contributes a batch to ``train_data``.
        data_shortage_warning: Warn if there are too few records.

    Raises:
        ValueError: Sequences are requested from several buffers.
        TypeError: ``buffer_`` has another type.
    """
    batch_size, unroll_len = cfg.policy.learn.batch_size, cfg.policy.collect.get("unroll_len", 1)
    sample = _sampler(buffer_, batch_size, unroll_len)

    def fetch(ctx: OnlineRLContext) -> Iterator[Any]:
        try:
            ctx.train_data, records = sample()
        except NotEnoughDataError as error:
            ctx.train_data = None
            if data_shortage_warning:
                one_time_warning(f"a batch of {batch_size} cannot be sampled yet: {error}")
            return
        yield
        if records is not None and isinstance(buffer_, Buffer) and _draws_by_priority(buffer_):
            output = ctx.train_output[-1] if isinstance(ctx.train_output, list) else ctx.train_output
            indices = records.indices if isinstance(records, RecordBatch) else [record.index for record in records]
            buffer_.batch_update(indices, metas={"priority": output["priority"]})

    return fetch


def _draws_by_priority(buffer_: Buffer) -> bool:
    return any(isinstance(middleware, PriorityExperienceReplay) for middleware in buffer_.middleware)


def _sampler(buffer_: Any, batch_size: int, unroll_len: int) -> Callable[[], tuple[Any, Any]]:
    """Return a function that returns train data, and the records if there is a single buffer without sequences."""
    if isinstance(buffer_, Buffer) and unroll_len > 1:
        return lambda: (
            [
                _data_of(group)
                for group in buffer_.sample(batch_size, groupby="env", unroll_len=unroll_len, replace=True)
            ],
            None,
        )
    if isinstance(buffer_, Buffer):

        def sample_one() -> tuple[Any, Any]:
            records = buffer_.sample(batch_size)
            return _data_of(records), records

        return sample_one
    if unroll_len > 1:
        raise ValueError(f"policy.collect.unroll_len is {unroll_len}, but sequences are sampled of one buffer only")
    if isinstance(buffer_, Mapping):
        return lambda: ({name: _data_of(one.sample(batch_size)) for name, one in buffer_.items()}, None)
    if isinstance(buffer_, Sequence):
        parts = [(one, int(batch_size * fraction)) for one, fraction in buffer_]
        return lambda: (joined_samples([_data_of(one.sample(size)) for one, size in parts]), None)
    raise TypeError(f"buffer_ is a buffer, a list of (buffer, fraction) or a dict of buffers, got {type(buffer_)}")


def _data_of(records: Any) -> Samples:
    """Return the data of sampled records: a ``TransitionBatch`` for columns, else a list; trees become dicts."""
    if isinstance(records, RecordBatch):
        return records.data
    return [as_dict(record.data) if hasattr(record.data, "json") else record.data for record in records]


@for_roles(Role.LEARNER)
def offline_data_fetcher(
    cfg: EasyDict, dataset: "Dataset[Any]", collate_fn: Callable[[list[Any]], Any] = lambda items: items
) -> Callable[[OfflineRLContext], None]:
    """Return a middleware that writes the next shuffled batch of a data set to ``ctx.train_data``.

    Adds its size to ``trained_env_step``, and counts passes over the data set in ``train_epoch``.

    Args:
        cfg: Config with ``policy.learn.batch_size``.
        dataset: Map-style data set.
        collate_fn: Converts a list of items to a batch; by default the list itself.
    """
    loader = DataLoader(dataset, batch_size=cfg.policy.learn.batch_size, shuffle=True, collate_fn=collate_fn)
    batches = iter(loader)

    def fetch(ctx: OfflineRLContext) -> None:
        nonlocal batches
        try:
            ctx.train_data = next(batches)
        except StopIteration:
            ctx.train_epoch += 1
            batches = iter(loader)
            ctx.train_data = next(batches)
        ctx.trained_env_step += len(ctx.train_data)

    return fetch


class EnergyData(Protocol):
    """Data set of QGPO, such as :class:`ding.utils.data.QGPOD4RLDataset`."""

    states: torch.Tensor
    next_states: torch.Tensor
    fake_actions: torch.Tensor | None
    fake_next_actions: torch.Tensor | None

    def __len__(self) -> int:
        """Return the number of transitions."""

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return a transition."""


@for_roles(Role.LEARNER)
def qgpo_support_data_generator(
    cfg: EasyDict, dataset: EnergyData, policy: "QGPOPolicy"
) -> Callable[[OfflineRLContext], None]:
    """Return a middleware that samples actions of the diffusion model for all states of a data set, to train the
    energies.

    It writes ``fake_actions`` and ``fake_next_actions``, float32 ``[N, M, A]``: once after the diffusion model is
    trained, or in each iteration if the energies start earlier. The samples depend only on the seed and the iteration,
    so a resumed run gets the same actions.

    Args:
        cfg: ``seed``; ``policy.learn.behavior_policy_stop_training_iter`` (missing: never),
            ``energy_guided_policy_begin_training_iter`` (missing: 0), ``M`` and ``diffusion_steps``.
        dataset: Data set with ``states`` and ``next_states``.
        policy: Policy whose model samples.
    """
    learn = cfg.policy.learn
    stop = learn.get("behavior_policy_stop_training_iter", math.inf)
    begin = learn.get("energy_guided_policy_begin_training_iter", 0)
    seeds, done = SeedTree(cfg.get("seed", 0)), False

    def drawn(states: torch.Tensor) -> torch.Tensor:
        chunks = np.array_split(np.arange(len(states)), len(states) // _DRAWN_TOGETHER + 1)
        model = policy.learn_mode.get_attribute("model")
        actions = [
            model.sample(states[torch.from_numpy(places)], learn.M, learn.diffusion_steps, guidance_scale=0.0)
            for places in chunks
        ]
        return torch.as_tensor(np.concatenate(actions), device=states.device)

    def generate(ctx: OfflineRLContext) -> None:
        nonlocal done
        if ctx.train_iter < begin or done:
            return
        done = ctx.train_iter >= stop
        devices = [dataset.states.device] if dataset.states.is_cuda else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(seeds.derived("qgpo", index=int(stop) if done else ctx.train_iter))
            dataset.fake_actions, dataset.fake_next_actions = drawn(dataset.states), drawn(dataset.next_states)

    return generate


@for_roles(Role.LEARNER)
def qgpo_offline_data_fetcher(
    cfg: EasyDict, dataset: EnergyData, collate_fn: Callable[[list[Any]], Any] | None = lambda items: items
) -> Callable[[OfflineRLContext], None]:
    """Return a middleware that writes the next shuffled batch for QGPO to ``ctx.train_data``.

    Batches have ``policy.learn.batch_size`` rows, and from ``energy_guided_policy_begin_training_iter`` on
    ``batch_size_q``. Adds their size to ``trained_env_step``.

    Args:
        dataset: Map-style data set; with ``rows_at`` and ``collate_fn=None`` batches are read as columns.
        collate_fn: Converts a list of items to a batch; None: a dict of tensors ``[B, ...]``.
    """
    learn = cfg.policy.learn
    begin = learn.get("energy_guided_policy_begin_training_iter", 0)
    behaviour, energies = (_endless(dataset, int(learn[key]), collate_fn) for key in ("batch_size", "batch_size_q"))

    def fetch(ctx: OfflineRLContext) -> None:
        ctx.train_data = next(energies if ctx.train_iter >= begin else behaviour)
        ctx.trained_env_step += num_rows(ctx.train_data) or 0

    return fetch


def _endless(dataset: EnergyData, batch_size: int, collate_fn: Callable[[list[Any]], Any] | None) -> Iterator[Any]:
    """Yield the batches of successive passes over a data set, each in a different order."""
    while True:
        if collate_fn is None and hasattr(dataset, "rows_at"):
            for places in torch.randperm(len(dataset)).split(batch_size):
                yield dataset.rows_at(places)
        else:
            rows = cast("Dataset[Any]", dataset)
            yield from DataLoader(rows, batch_size=batch_size, shuffle=True, collate_fn=collate_fn)


def offline_data_saver(data_path: str, data_type: str = "hdf5") -> Callable[[OnlineRLContext], None]:
    """Return a middleware that writes ``ctx.trajectories`` of this and all earlier iterations, and clears them.

    Args:
        data_path: Path of the file, usually ``expert.pkl``; ``hdf5`` writes ``<path without .pkl>_demos.hdf5``.
        data_type: ``naive`` or ``hdf5`` (extra ``offline``).
    """
    collected: list[Any] = []

    def save(ctx: OnlineRLContext) -> None:
        collected.extend(ctx.trajectories or ())
        ctx.trajectories = None
        offline_data_save_type(collected, data_path, data_type)

    return save
