"""Helpers for samples: fields as tensors, a pool to draw from, new rewards."""

from collections.abc import Callable

import torch

from ding.data import TransitionBatch
from ding.data.roles import Samples, StateDict


def field(data: Samples, name: str, device: str = "cpu") -> torch.Tensor:
    """Return a field of N samples as a tensor ``[N, ...]``."""
    if isinstance(data, TransitionBatch):
        return torch.as_tensor(data.columns[name]).to(device)
    return torch.stack([torch.as_tensor(sample[name]) for sample in data]).to(device)


def obs_action(data: Samples, device: str = "cpu") -> torch.Tensor:
    """Concatenate observations and actions, float32 ``[N, obs + action]``; a discrete action is one number."""
    obs, action = field(data, "obs", device).float(), field(data, "action", device).float()
    return torch.cat([obs.flatten(1), action.reshape(len(action), -1)], dim=1)


def with_rewards(data: Samples, reward_of: Callable[[torch.Tensor], torch.Tensor], **fields: torch.Tensor) -> Samples:
    """Return copies of the samples with other rewards and additional fields.

    Args:
        reward_of: Maps the rewards ``[N, n]`` to new ones, on any device; n is the number of steps for n-step returns,
            else 1.
        fields: Additional fields, ``[N, ...]``.
    """
    old = field(data, "reward").float()
    old = old.reshape(len(old), -1)
    new = reward_of(old).cpu()
    fields = {name: value.cpu() for name, value in fields.items()}
    if isinstance(data, TransitionBatch):
        return data.with_columns(reward=new, **fields)
    return [
        {**sample, "reward": new[row], **{name: value[row] for name, value in fields.items()}}
        for row, sample in enumerate(data)
    ]


class Pool:
    """Pool of collected rows to draw batches from. Each entry is a tuple of tensors with equal numbers of rows."""

    def __init__(self) -> None:
        self._parts: list[tuple[torch.Tensor, ...]] = []

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self._parts)

    def add(self, *tensors: torch.Tensor) -> None:
        """Add rows, which are kept on the CPU."""
        self._parts.append(tuple(tensor.detach().cpu() for tensor in tensors))

    def clear(self) -> None:
        """Remove all rows."""
        self._parts.clear()

    def rows(self) -> tuple[torch.Tensor, ...]:
        """Return all rows."""
        if len(self._parts) > 1:
            self._parts = [tuple(torch.cat(column) for column in zip(*self._parts))]
        return self._parts[0]

    def state_dict(self) -> StateDict:
        """Return all rows."""
        return {"rows": list(self.rows()) if len(self) else []}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Replace the contents by a :meth:`state_dict`."""
        rows = tuple(state_dict["rows"])
        self._parts = [rows] if rows else []

    def draw(self, size: int, device: str = "cpu") -> tuple[torch.Tensor, ...]:
        """Return ``size`` distinct random rows, or all if there are fewer."""
        columns = self.rows()
        chosen = torch.randperm(len(columns[0]))[:size]
        return tuple(column[chosen].to(device) for column in columns)
