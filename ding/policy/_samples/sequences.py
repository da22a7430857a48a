"""Learning from sequences of steps that somewhat older policies collected."""

from abc import abstractmethod
from collections.abc import Mapping, Set
from typing import Any, ClassVar

import numpy as np
import torch

from ding.data import TransitionBatch, batched
from ding.data.roles import Samples
from ding.data.sequences import sequence_batch
from ding.model import model_wrap
from ding.policy._acting.stochastic import StochasticPolicy
from ding.policy._samples.segments import as_given, marked_real
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_train_sample
from ding.utils.nested import map_nested, map_together

_FIELDS = frozenset({"obs", "action", "logit", "reward", "done", "null"})


class SequencePolicy(StochasticPolicy):
    """A policy whose train sample is a sequence of steps of one episode, with the logits of the policy that collected
    them. What a short rest of an episode lacks is filled up and marked (``null``).
    """

    output_fields: ClassVar[tuple[str, ...]] = ("logit", "action")
    _learns_from_transitions = False

    @abstractmethod
    def _steps_of_sample(self) -> int:
        """Steps of a train sample, by the config."""

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """B sequences, as :meth:`_get_train_sample` makes them (or as lists of T), with time first.

        Returns:
            ``obs`` ``[T + 1, B, ...]``, whose last entry comes after the last step; ``action``; ``logit``; ``reward,
            done`` and ``null`` (1.0: a step that only fills the sequence up) ``[T, B]``. With ``reference_numerics``
            there is no ``null``.
        """
        return time_first(
            super()._learn_batch(sequence_batch(data), weighted),
            _FIELDS - {"null"} if self._reference_numerics else _FIELDS,
        )

    def _init_collect(self) -> None:
        self._unroll_len = self._steps_of_sample()
        if self._unroll_len < 2:
            raise PolicyConfigError(f"policy.unroll_len must be at least 2, found {self._unroll_len}")
        self._collect_model = model_wrap(self._model, wrapper_name=self._samplers()[0])

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``unroll_len`` steps: each field ``[T, ...]``; ``null``: whether a step only fills it up."""
        batch = marked_real(TransitionBatch.of(transitions))
        filling = None if self._reference_numerics else steps_after(batch)
        return as_given(get_train_sample(batch, self._unroll_len, "last", filling), transitions)


def steps_after(batch: TransitionBatch) -> TransitionBatch:
    """Return a step for each segment, which fills up the sequence with its end: it holds the observation after the last
    step, whose value is bootstrapped.
    """
    last = batch[np.cumsum(batch.segment_lengths()) - 1]
    ended = np.ones(len(last), dtype=np.bool_)
    return last.with_columns(obs=last.columns["next_obs"], null=ended, done=ended)


def time_first(batch: Mapping[str, Any], fields: Set[str]) -> dict[str, Any]:
    """Return fields of B sequences with time first.

    Args:
        batch: tensors ``[B, T, ...]``: ``obs``, ``next_obs``, ``action``, ``reward``, ``done``, perhaps ``null``.
        fields: which of them to return.

    Returns:
        ``obs`` ``[T + 1, B, ...]``, whose last entry comes after the last step; ``reward``, ``done``, ``null`` and an
        int64 ``action`` ``[T, B]``, others ``[T, B, ...]``.
    """
    flat = {"reward", "null"} | ({"action"} if batch["action"].dtype is torch.int64 else set())
    parts = {
        key: batch[key].reshape(batch["done"].shape) if key in flat else batch[key] for key in batch.keys() & fields
    }
    if "null" in parts:
        parts["null"] = parts["null"].float()
    if "obs" in parts:
        parts["obs"] = _joined(batch["obs"], batch["next_obs"])
    return {key: map_nested(lambda x: x.transpose(0, 1), value) for key, value in parts.items()}


def _joined(obs: Any, next_obs: Any) -> object:
    """``[B, T + 1, ...]``: the observations and the last one of ``next_obs``, both ``[B, T, ...]``."""
    return map_together(lambda column, following: torch.cat([column, following[:, -1:]], dim=1), obs, next_obs)
