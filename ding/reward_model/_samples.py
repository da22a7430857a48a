"""Samples as reward models see them: fields as tensors, a pool to draw from, new rewards."""

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
    """Observations and actions side by side, float32 ``[N, obs + action]``; a discrete action is one number."""
    obs, action = field(data, "obs", device).float(), field(data, "action", device).float()
    return torch.cat([obs.flatten(1), action.reshape(len(action), -1)], dim=1)


def with_rewards(data: Samples, reward_of: Callable[[torch.Tensor], torch.Tensor], **fields: torch.Tensor) -> Samples:
    """Return the samples with other rewards and further fields; what was given stays as it is.

    Args:
        reward_of: the rewards as they are ``[N, n]`` to new ones, of any device: the n rewards of a sample with n-step
            returns, else one.
        fields: ``[N, ...]``.
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
    """Rows that were collected, to draw batches from. Each entry is a tuple of tensors with as many rows."""

    def __init__(self) -> None:
        self._parts: list[tuple[torch.Tensor, ...]] = []

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self._parts)

    def add(self, *tensors: torch.Tensor) -> None:
        """Keep rows, on the CPU."""
        self._parts.append(tuple(tensor.detach().cpu() for tensor in tensors))

    def clear(self) -> None:
        """Forget all rows."""
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
        """Hold what :meth:`state_dict` returned, and nothing else."""
        rows = tuple(state_dict["rows"])
        self._parts = [rows] if rows else []

    def draw(self, size: int, device: str = "cpu") -> tuple[torch.Tensor, ...]:
        """``size`` different rows at random, or all when there are fewer."""
        columns = self.rows()
        chosen = torch.randperm(len(columns[0]))[:size]
        return tuple(column[chosen].to(device) for column in columns)
