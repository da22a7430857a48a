"""Which steps of a sequence are learned, and which step each of them bootstraps from.

A step is learned where its target is defined and the recurrent state before it is known. The target is defined where
the episode ends within ``nstep`` steps, or where the sequence has the step ``nstep`` later. The state is known after
the burn-in, and from the first step on where the episode begins with the sequence.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ding.data import TransitionBatch
from ding.data.roles import Samples
from ding.data.sequences import stacked_sequence
from ding.policy._samples.segments import marked_real
from ding.policy.errors import PolicyConfigError
from ding.rl_utils.adder import get_train_sample, segment_ends
from ding.utils.rows import take


class SequenceForm(NamedTuple):
    """How the segments of a recurrent policy are cut into sequences."""

    #: Steps of a sequence, of which the first ``burnin`` bring the recurrent state up to date.
    length: int
    burnin: int
    #: Steps that a sequence shares with the one before it.
    shared: int
    nstep: int
    #: Whether values are bootstrapped at the end of an episode, too.
    ignores_done: bool = False


def shared_steps(overlap: int | None, length: int, burnin: int, nstep: int) -> int:
    """How many steps two sequences in a row share: the burn-in of the second one and ``overlap``.

    Args:
        overlap: how many of the steps behind the burn-in are in both; ``None``: half of them, but at least ``nstep``.

    Raises:
        PolicyConfigError: with this overlap some steps would never be learned, or the sequences would not advance.
    """
    behind = length - burnin
    if overlap is None:
        return burnin + min(max(behind // 2, nstep), behind - 1)
    if not nstep <= overlap < behind:
        raise PolicyConfigError(
            f"policy.overlap_step must be at least policy.nstep={nstep}, so that each step is learned, and below the "
            f"{behind} steps behind the burn-in, found {overlap}"
        )
    return burnin + overlap


def learned_sequences(
    transitions: Samples,
    form: SequenceForm,
    with_nstep_returns: Callable[[TransitionBatch], TransitionBatch],
    step_after: Callable[[Any], Mapping[str, Any]],
) -> TransitionBatch:
    """Segments cut into sequences ``[S, T, ...]`` that overlap, with the fields ``null`` (whether a step only fills the
    sequence up) and ``learned``, both bool ``[S, T]``, and the ``prev_state`` before the first step.

    Behind the last step of a segment that the env ended and that is not done (a time limit), there is a step that only
    fills up, and holds the observation after it, of which the value is bootstrapped.

    Args:
        transitions: ``done`` and, where they are known, ``begins`` and ``ends`` (whether an episode begins with this
            step or ends with it, by a time limit, too) and ``next_obs``, which the result does not have.
        with_nstep_returns: adds the returns.
        step_after: makes the fields of a step that only fills up from the ``next_obs`` of the last one.
    """
    given: Any = marked_real(TransitionBatch.of(transitions))
    columns = dict(given.columns)
    lengths, last = given.segment_lengths(), np.cumsum(given.segment_lengths()) - 1
    next_obs, ends = columns.pop("next_obs", None), _flags(columns.pop("ends", None), len(given))
    begins = _flags(columns.pop("begins", None), len(given))
    bootstraps = np.ones(len(last), np.bool_) if form.ignores_done else ~_flags(columns["done"], len(given))[last]
    closed = bootstraps & (ends[last] | (lengths < form.length)) & (next_obs is not None)
    left = segment_ends(len(given), lengths) - np.arange(len(given))
    reachable = np.repeat(closed, lengths) | (left > form.nstep)
    columns["_reach"] = np.where(reachable, np.minimum(left, form.nstep), form.length)
    columns["_begins"] = begins
    steps = with_nstep_returns(TransitionBatch(columns, lengths=lengths))
    if closed.any():
        steps = _closed(steps, closed, step_after(take(next_obs, last[closed])), last[closed])
    sequences = get_train_sample(steps, form.length, overlap=form.shared)
    columns = dict(sequences.columns)
    columns["learned"] = _learned(columns, form, columns.pop("_reach"), columns.pop("_begins"))
    return TransitionBatch(columns, lengths=sequences.lengths)


def _learned(columns: Mapping[str, Any], form: SequenceForm, reach: np.ndarray, begins: np.ndarray) -> np.ndarray:
    shape, position = reach.shape, np.arange(form.length)
    null, done = (_flags(columns[key], shape) for key in ("null", "done"))
    defined = position + reach < form.length
    if not form.ignores_done:
        defined |= done
    known = (position >= form.burnin) | begins[:, :1]
    return ~null & known & defined


def _closed(steps: TransitionBatch, closed: np.ndarray, fields: Mapping[str, Any], last: np.ndarray) -> TransitionBatch:
    """The steps with one more at the end of the segments that are ``closed``.

    Args:
        fields: of the further steps; other fields are those of the ``last`` steps before them.
    """
    lengths = steps.segment_lengths()
    flags = np.ones(len(last), dtype=np.bool_)
    further = steps[last].with_columns(**fields, null=flags, done=flags)
    segment = np.concatenate([np.repeat(np.arange(len(lengths)), lengths), np.flatnonzero(closed)])
    joined = TransitionBatch.concat([steps, further])[segment.argsort(kind="stable")]
    return TransitionBatch(joined.columns, lengths=lengths + closed)


def _flags(column: Any, shape: int | tuple[int, ...]) -> np.ndarray:
    """A column as bools of this shape; all False where there is none."""
    return np.zeros(shape, np.bool_) if column is None else np.asarray(column).reshape(shape).astype(np.bool_)


class LearnedSteps(NamedTuple):
    """The steps of B sequences whose values are learned; S is the number of positions from ``start`` to ``stop``."""

    start: int
    stop: int
    #: float32 ``[S, B]``: 1 for a step that is learned, else 0.
    valid: torch.Tensor
    #: int64 ``[S, B]``: the position of the step whose value is bootstrapped.
    ahead: torch.Tensor

    @property
    def here(self) -> slice:
        """The positions."""
        return slice(self.start, self.stop)


def learned_steps(batch: Mapping[str, Any], nstep: int, burnin: int) -> LearnedSteps:
    """The steps that are learned, by the field ``learned``; without it those from ``burnin`` to ``T - nstep``, as the
    original API cuts them.

    Args:
        batch: time first: ``done`` and, if there are, ``null`` and ``learned`` ``[T, B]``.
    """
    done, learned = batch["done"], batch.get("learned")
    steps = len(done)
    position = torch.arange(steps, device=done.device).unsqueeze(1)
    if learned is None:
        start, stop = burnin, steps - nstep
        ahead = (position[start:stop] + nstep).expand(-1, done.shape[1])
        return LearnedSteps(start, stop, valid_steps(batch, slice(start, stop), slice(start + nstep, steps)), ahead)
    num_real = steps - batch["null"].long().sum(0)
    ahead = torch.minimum(position + nstep, num_real).clamp(max=steps - 1)
    return LearnedSteps(0, steps, learned.float(), ahead)


def with_learned(batch: dict[str, Any], nstep: int, burnin: int) -> None:
    """Add ``null`` and ``learned`` to sequences that lack them: a step behind the burn-in is learned where its episode
    ends within ``nstep`` steps, or where the sequence has the step that much later.

    Args:
        batch: time first: ``done`` ``[T, ...]``.
    """
    done = torch.as_tensor(batch["done"])
    null = batch.setdefault("null", torch.zeros_like(done))
    if "learned" not in batch:
        ahead = torch.cat([torch.as_tensor(null)[nstep:].bool(), torch.ones_like(done[: min(nstep, len(done))]).bool()])
        learned = ~torch.as_tensor(null).bool() & (done.bool() | ~ahead)
        learned[:burnin] = False
        batch["learned"] = learned


def completed_sequences(samples: Samples, nstep: int, burnin: int) -> Samples:
    """Return ``samples`` with ``learned`` in all sequences where only some have it; see :func:`with_learned`.

    A buffer that an older version saved has sequences without the field, and new ones are added to it.
    """
    if isinstance(samples, TransitionBatch) or not 0 < sum("learned" in sample for sample in samples) < len(samples):
        return samples
    rows = [stacked_sequence(sample) for sample in samples]
    for row in rows:
        if "learned" not in row:
            with_learned(row, nstep, burnin)
            row["learned"] = row["learned"].numpy()
    return rows


def valid_steps(batch: Mapping[str, Any], learned: slice, ahead: slice) -> torch.Tensor:
    """1.0 for each learned step that is no filling, and whose bootstrap value, if it has one, is of a real step."""
    done, null = batch["done"][learned], batch.get("null")
    if null is None:
        return torch.ones_like(done)
    null = null.float()
    return (1 - null[learned]) * (1 - null[ahead] * (1 - done))


def at_steps(values: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    """``values`` ``[T, B, N]`` at the positions int64 ``[S, B]`` of each sequence: ``[S, B, N]``."""
    return values.gather(0, position.unsqueeze(-1).expand(-1, -1, values.shape[-1]))
