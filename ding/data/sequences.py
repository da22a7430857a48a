"""Samples that are sequences of T steps, as ``get_train_sample`` cuts them: with lists of T entries, or columns."""

from collections.abc import Mapping
from typing import Any

from ding.data.columns import row_at, stack_rows
from ding.data.roles import Samples
from ding.data.transition_batch import TransitionBatch


def sequence_batch(samples: Samples) -> TransitionBatch:
    """B sequences as columns ``[B, T, ...]``, but ``prev_state``, which is that before the first step.

    Args:
        samples: such columns, or B sequences in a form that :func:`stacked_sequence` takes.
    """
    if isinstance(samples, TransitionBatch) and not isinstance(samples.columns["done"], list):
        return samples
    return TransitionBatch.from_rows([stacked_sequence(sample) for sample in samples])


def stacked_sequences(samples: Samples) -> Samples:
    """Sequences of ``get_train_sample`` with fields ``[T, ...]``, see :func:`stacked_sequence`."""
    return samples if isinstance(samples, TransitionBatch) else [stacked_sequence(sample) for sample in samples]


def stacked_sequence(sample: Mapping[str, Any] | Samples) -> dict[str, Any]:
    """Return a sequence with one tensor or array per field instead of a list of T entries, or instead of T
    transitions.
    """
    if not isinstance(sample, Mapping):
        steps = TransitionBatch.of(sample)
        return {key: row_at(value, 0) if key == "prev_state" else value for key, value in steps.columns.items()}
    result: dict[str, Any] = {}
    for key, value in sample.items():
        if key == "prev_state":
            result[key] = value[0] if isinstance(value, list) else value
        elif isinstance(value, dict):
            result[key] = stacked_sequence(value)
        else:
            result[key] = stack_rows(value) if isinstance(value, list) else value
    return result
