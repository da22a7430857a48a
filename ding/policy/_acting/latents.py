"""Latent states of environments, which a policy remembers from one step to the next."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ding.utils.data import default_collate

Table = dict[str, torch.Tensor]
"""States by environment id, ``[E, ...]``; ``known`` bool ``[E]``: whether there is one. Empty before the first."""

_KNOWN = "known"


def remembered(table: Table, env_ids: np.ndarray, begin: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the states of N environments; those of ``begin`` ``[N, ...]`` where none is known."""
    if not table:
        return dict(begin)
    rows = torch.from_numpy(env_ids)
    held = rows.clamp(max=len(table[_KNOWN]) - 1)
    known = table[_KNOWN][held] & (held == rows)
    return {
        key: torch.where(known.to(value.device).view(-1, *[1] * (value.ndim - 1)), table[key][held].to(value), value)
        for key, value in begin.items()
    }


def remember(table: Table, env_ids: np.ndarray, states: Mapping[str, torch.Tensor]) -> Table:
    """Return the table with other states ``[N, ...]`` of N environments."""
    rows = torch.from_numpy(env_ids)
    size = max(int(env_ids.max()) + 1, len(table[_KNOWN]) if table else 0)
    given = {**{key: value.cpu() for key, value in states.items()}, _KNOWN: torch.ones(len(rows), dtype=torch.bool)}
    output = {}
    for key, value in given.items():
        output[key] = value.new_zeros(size, *value.shape[1:])
        if table:
            output[key][: len(table[key])] = table[key]
        output[key][rows] = value
    return output


def forget(table: Table, env_ids: Sequence[int] | None) -> Table:
    """Return the table without the states of these environments (``None``: of all)."""
    if env_ids is None or not table:
        return {}
    known = table[_KNOWN].clone()
    known[[env_id for env_id in env_ids if env_id < len(known)]] = False
    return {**table, _KNOWN: known}


def joined_states(states: Sequence[tuple[Mapping[str, Any], Any]], device: torch.device | str) -> Any:
    """Return N states, each a latent dict and an action, as a dict and a tensor of ``[N, ...]``."""
    latents, actions = zip(*states)
    return {key: default_collate([one[key] for one in latents]).to(device) for key in latents[0]}, torch.stack(
        [torch.as_tensor(one) for one in actions]
    ).to(device)


def split_states(latent: Mapping[str, torch.Tensor], action: torch.Tensor) -> list[tuple[dict[str, torch.Tensor], Any]]:
    """Return N pairs of a latent dict and an action, the inverse of :func:`joined_states`."""
    rows = zip(*(value.unbind(0) for value in latent.values()))
    return [(dict(zip(latent, row)), taken) for row, taken in zip(rows, action.unbind(0))]
