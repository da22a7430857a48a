"""Learning with a recurrent actor-critic network from the steps of a collection, in the order of their segments.

The steps are cut into sequences of ``policy.learn_unroll_len``, whatever the lengths of their episodes are: a sequence
may hold the end of one episode and the begin of the next. It begins with the state that the collector had there. Where
a segment begins inside of it, it goes on with the stored state of that step, which is zero where an episode begins.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from ding.policy._acting.observations import network_columns
from ding.policy.errors import PolicyConfigError
from ding.torch_utils.data_helper import to_device
from ding.utils.nested import map_nested
from ding.utils.rows import take, take_rows

Network = Callable[[Any], dict[str, Any]]
"""Observations to ``logit`` and ``value``."""


class Histories:
    """How a recurrent network sees the steps of a collection.

    Args:
        model: see :class:`ding.model.RecurrentVAC`.
        length: steps of a sequence.
        device: where the network is.

    Raises:
        PolicyConfigError: the network has no states, or the length is no positive int.
    """

    def __init__(self, model: nn.Module, length: int, device: torch.device | str) -> None:
        if not getattr(model, "is_recurrent", False):
            raise PolicyConfigError(
                f"policy.recurrent=True needs a recurrent network such as policy.model.type='recurrent_vac', found a "
                f"{type(model).__name__}"
            )
        if not isinstance(length, int) or length < 1:
            raise PolicyConfigError(f"policy.learn_unroll_len must be an int of at least 1, found {length!r}")
        self._model, self._length, self._device = model, length, device

    def values(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the values of ``obs`` and of ``next_obs`` of all steps, both ``[N]``, without gradients.

        The value of ``next_obs`` is that with the state after the step, whatever comes next.

        Args:
            batch: ``obs, next_obs, prev_state, traj_flag`` of N steps.
        """
        rows = self._rows(len(batch["traj_flag"]))
        flat = rows.reshape(-1)
        inputs = {key: take_rows(batch[key], flat, key) for key in ("obs", "prev_state")}
        with torch.no_grad():
            output = self._model({**inputs, "starts": _starts(batch)[rows]}, mode="compute_critic")
            # The last sequence may repeat steps of the one before it.
            first = np.unique(flat, return_index=True)[1]
            state = take(output["next_state"].columns, first)
            following = self._model({"obs": batch["next_obs"], "prev_state": state}, mode="compute_critic")
        return output["value"][first], following["value"]

    def values_after(self, columns: Mapping[str, Any], rows: np.ndarray) -> torch.Tensor:
        """Return the values after these steps of a collection, ``[S]``, without gradients.

        Args:
            columns: ``obs, next_obs, prev_state``.
            rows: int64 ``[S]``.
        """
        obs, next_obs = (network_columns(take(columns[key], rows), self._device) for key in ("obs", "next_obs"))
        state = to_device(take(columns["prev_state"], rows), self._device)
        with torch.no_grad():
            state = self._model({"obs": obs, "prev_state": state}, mode="compute_critic")["next_state"]
            value: torch.Tensor = self._model({"obs": next_obs, "prev_state": state}, mode="compute_critic")["value"]
        return value

    def sequences(self, batch: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``fields`` of N steps as ``[S, T, ...]``, with ``prev_state`` and ``starts`` of ``batch``."""
        rows = self._rows(len(batch["traj_flag"]))
        kept = {**fields, "prev_state": batch["prev_state"], "starts": _starts(batch)}
        return {key: take_rows(column, rows, key) for key, column in kept.items()}

    def minibatch_size(self, num_steps: int) -> int:
        """Return the number of sequences of a minibatch of so many steps, at least 1."""
        return max(1, num_steps // self._length)

    def unrolled(self, batch: Mapping[str, Any]) -> tuple[Network, dict[str, Any]]:
        """Return a network over the steps of B sequences, and their fields as ``[B * T, ...]``."""
        starts = batch["starts"]
        flat = {key: map_nested(lambda x: x if x is None else x.flatten(0, 1), value) for key, value in batch.items()}

        def network(obs: Any) -> dict[str, Any]:
            inputs = {"obs": obs, "prev_state": flat["prev_state"], "starts": starts}
            output: dict[str, Any] = self._model(inputs, mode="compute_actor_critic")
            return output

        return network, flat

    def _rows(self, num_steps: int) -> np.ndarray:
        """The steps of each sequence, int64 ``[S, T]``; the last one begins earlier where it would be too short."""
        length = min(self._length, num_steps)
        begins = np.minimum(np.arange(0, num_steps, length), num_steps - length)
        rows: np.ndarray = begins[:, None] + np.arange(length)
        return rows


def _starts(batch: Mapping[str, Any]) -> torch.Tensor:
    """Whether a segment begins with a step: bool ``[N]``."""
    ends = batch["traj_flag"].bool().reshape(-1)
    return torch.cat([torch.ones_like(ends[:1]), ends[:-1]])
