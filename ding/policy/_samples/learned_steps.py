"""Which steps of a sequence are learned, and which step each of them bootstraps from.

A step is learned where its target is defined and the recurrent state before it is known. The target is defined where
the episode ends within ``nstep`` steps, or where the sequence has the step ``nstep`` later. The state is known after
the burn-in, and from the first step on where the episode begins with the sequence.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch

from ding.data import TransitionBatch
from ding.data.roles import Samples
from ding.data.sequences import stacked_sequence
from ding.policy._learning.update import discounted_sum
from ding.policy._samples.segments import marked_real
from ding.policy.errors import PolicyConfigError
from ding.rl_utils.adder import get_train_sample, segment_ends
from ding.utils.nested import map_nested
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
    step_after: Callable[[object], Mapping[str, Any]],
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
    given = marked_real(TransitionBatch.of(transitions))
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
    values: np.ndarray = ~null & known & defined
    return values


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


def _flags(column: object, shape: int | tuple[int, ...]) -> np.ndarray:
    """A column as bools of this shape; all False where there is none."""
    return np.zeros(shape, np.bool_) if column is None else np.asarray(column).reshape(shape).astype(np.bool_)


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


def learned_in_di_engine(batch: dict[str, Any], nstep: int, burnin: int) -> None:
    """Set ``null`` and ``learned`` as DI-engine has them: it learns all steps from ``burnin`` to ``T - nstep``,
    also those that only fill a sequence up.
    """
    batch["null"], batch["learned"] = torch.zeros_like(batch["done"]), torch.zeros_like(batch["done"])
    batch["learned"][burnin : len(batch["done"]) - nstep] = 1


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


def put_time_first(batch: dict[str, Any]) -> None:
    """Turn the fields of B sequences from ``[B, T, ...]`` to ``[T, B, ...]``; ``reward`` becomes ``rewards``, those of
    the n steps from each one on, ``[T, B, n]``.
    """
    rows, steps = batch["done"].shape[:2]
    batch["rewards"] = batch.pop("reward").float().reshape(rows, steps, -1).transpose(0, 1)
    batch["obs"] = map_nested(lambda x: x.transpose(0, 1).contiguous(), batch["obs"])
    for key in ("action", "done", "value_gamma", "null", "learned"):
        if key in batch:
            batch[key] = batch[key].reshape(rows, steps).transpose(0, 1)


def add_targets(batch: dict[str, Any], gamma: float | torch.Tensor, nstep: int) -> None:
    """Add to sequences, time first, what the targets of their steps are made of; the table at
    ``R2D2Policy._learn_batch`` says what.

    Args:
        gamma: discount of a step, or one for each sequence, ``[B]``.

    Raises:
        PolicyDataError: the steps have not the rewards of ``nstep`` steps.
    """
    obs, done, learned = batch["obs"], batch["done"], batch["learned"].float()
    position = torch.arange(len(done), device=done.device).unsqueeze(1)
    # Where the episode was cut, the first step that only fills up holds the observation after the last real one.
    last = (len(done) - batch["null"].long().sum(0)).clamp(max=len(done) - 1)
    num_steps = (last - position).clamp(min=0, max=nstep)
    discount = batch.pop("value_gamma", None)
    batch["ahead"] = position + num_steps
    batch["reward"] = discounted_sum(batch["rewards"], gamma, nstep)
    batch["discount"] = gamma**num_steps if discount is None else discount
    batch["not_done"] = 1 - done
    batch["learned"] = learned
    batch["action_mask"] = obs.get("action_mask") if isinstance(obs, Mapping) else None


def mean_of_learned(values: torch.Tensor, learned: torch.Tensor) -> torch.Tensor:
    """Return the mean of ``values`` ``[T, B]`` over the steps that are learned, 0-d.

    Args:
        learned: ``[T, B]``, 1.0 for such a step, else 0.0.
    """
    return (learned * values).sum() / learned.sum().clamp(min=1)


def sequence_priority(error: torch.Tensor, learned: torch.Tensor) -> torch.Tensor:
    """Return the priorities ``[B]`` of sequences: 0.9 of the largest error and 0.1 of the mean, of learned steps.

    Args:
        error: absolute errors of the steps, ``[T, B]``.
        learned: ``[T, B]``, 1.0 for a step that is learned, else 0.0.
    """
    error = error * learned
    return 0.9 * error.amax(0) + 0.1 * error.sum(0) / learned.sum(0).clamp(min=1)


def burned_in(batch: Mapping[str, Any], nstep: int, burnin: int) -> dict[str, Any]:
    """Cut sequences of T steps, time first, as DI-engine does, for losses that take one step after the other.

    Returns:
        ``burnin_nstep_obs``, the observations of the first ``burnin + nstep`` steps; ``main_obs`` and ``target_obs``,
        those of the S learned steps and of the ones ``nstep`` later; ``action`` int64 ``[S, B]``, ``reward`` ``[S, B,
        nstep]``, ``done`` and ``weight`` (0 for a step that does not count) ``[S, B]``, ``value_gamma`` ``[S, B]`` or a
        list of None; ``prev_state``, whose first entry is the list of B states ``{'h', 'c'}`` of ``[layers, 1, H]``.
    """
    steps = len(batch["done"]) - nstep
    learned, ahead = slice(burnin, steps), slice(burnin + nstep, None)
    parts = {"burnin_nstep_obs": slice(0, burnin + nstep), "main_obs": learned, "target_obs": ahead}
    done, null, gammas = batch["done"][learned], batch["null"].float(), batch.get("value_gamma")
    # Learned are real steps, whose bootstrap value, if they have one, is that of a real step, too.
    weight = (1 - null[learned]) * (1 - null[ahead] * (1 - done))
    weight = weight / weight.mean().clamp(min=1 / weight.numel())
    state: Mapping[str, torch.Tensor] = batch["prev_state"]
    rows = range(done.shape[1])
    return {
        **{name: map_nested(itemgetter(part), batch["obs"]) for name, part in parts.items()},
        "action": batch["action"][learned],
        "reward": batch["rewards"][learned].contiguous(),
        "done": done,
        "weight": weight if batch["weight"] is None else weight * batch["weight"],
        "value_gamma": [None] * (steps - burnin) if gammas is None else gammas[learned],
        "prev_state": [[{key: value[:, [row]] for key, value in state.items()} for row in rows]],
    }
