"""Small functions and classes over tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from ding.utils.nested import map_nested

_EPS = 1e-8
Rows = list[torch.Tensor]


def compute_grad_norm(model: nn.Module) -> torch.Tensor:
    """Return the 2-norm of the gradients of all parameters that have one: 0-d."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients])
    total: torch.Tensor = torch.linalg.vector_norm(norms)
    return total


class ExperienceDataset(Dataset[dict[str, torch.Tensor]]):
    """A data set of the rows of a dict of equally long tensors."""

    def __init__(self, data: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.data = data

    def __len__(self) -> int:
        return len(next(iter(self.data.values())))

    def __getitem__(self, ind: int) -> dict[str, torch.Tensor]:
        return {key: value[ind] for key, value in self.data.items()}


def create_shuffled_dataloader(
    data: Mapping[str, torch.Tensor], batch_size: int
) -> DataLoader[dict[str, torch.Tensor]]:
    """Return a loader of shuffled batches of the rows."""
    return DataLoader(ExperienceDataset(data), batch_size=batch_size, shuffle=True)


def parallel_wrapper(forward_fn: Callable[..., object]) -> Callable[..., object]:
    """Wrap ``forward_fn``, which maps ``[B, ...]`` to tensors ``[B, ...]``, to accept ``[T, B, ...]``."""

    def over_time(x: torch.Tensor) -> object:
        steps, rows = x.shape[:2]
        return map_nested(lambda value: value.reshape(steps, rows, *value.shape[1:]), forward_fn(x.flatten(0, 1)))

    return over_time


class StructEncoder(nn.Module):
    """Encoder of structured observations, not implemented here or in DI-engine.

    Raises:
        NotImplementedError: always; use ``DictEncoder``.
    """

    def __init__(self, obs_shape: Mapping[str, object]) -> None:
        super().__init__()
        raise NotImplementedError("StructEncoder was never written; DictEncoder reads dicts")


def sample_action(logit: torch.Tensor | None = None, prob: torch.Tensor | None = None) -> torch.Tensor:
    """Sample an index for each row of logits, or of probabilities, ``[..., N]``: int64 ``[...]``."""
    if prob is None:
        if logit is None:
            raise ValueError("sample_action needs logit or prob")
        prob = logit.softmax(-1)
    rows = (prob + _EPS).reshape(-1, prob.shape[-1])
    return torch.multinomial(rows, 1).reshape(prob.shape[:-1])


def weight_init_(weight: torch.Tensor, init_type: str | None = "xavier", activation: nn.Module | None = None) -> None:
    """Initialise a weight in place: ``xavier`` (normal), ``kaiming`` (normal, for ``activation``), ``orthogonal``; None
    leaves it unchanged.

    Raises:
        KeyError: ``init_type`` is unknown.
        AssertionError: ``kaiming`` without an activation.
    """
    if init_type is None:
        return
    if init_type == "xavier":
        nn.init.xavier_normal_(weight)
    elif init_type == "orthogonal":
        nn.init.orthogonal_(weight)
    elif init_type != "kaiming":
        raise KeyError(f"init_type {init_type!r} is unknown: xavier, kaiming or orthogonal")
    elif activation is None:
        raise AssertionError("init_type 'kaiming' needs the activation")
    elif isinstance(activation, nn.LeakyReLU):
        nn.init.kaiming_normal_(weight, a=activation.negative_slope, nonlinearity="leaky_relu")
    else:
        nn.init.kaiming_normal_(weight, a=0, nonlinearity="relu")


Steps = Mapping[str, Sequence[torch.Tensor] | torch.Tensor]


def collect_data_rnd(iterator: Iterable[Mapping[str, torch.Tensor]]) -> tuple[Rows, Rows]:
    """Return ``obs`` and ``null`` of each sequence."""
    samples = list(iterator)
    return [one["obs"] for one in samples], [one["null"] for one in samples]


collect_data_episodic = collect_data_rnd


def _real_steps(sample: Mapping[str, torch.Tensor | Sequence[bool]]) -> int:
    """Return the number of steps before the padding."""
    null = torch.as_tensor(sample["null"]).reshape(-1).bool()
    return int(null.int().argmax()) if null.any() else len(null)


def collect_data_and_exclude_null_data_rnd(iterator: Iterable[Mapping[str, torch.Tensor]]) -> Rows:
    """Return ``obs`` of each sequence, without padding."""
    return [sample["obs"][: _real_steps(sample)] for sample in iterator]


def collect_data_and_exclude_null_data_episodic(
    iterator: Iterable[Mapping[str, torch.Tensor]],
) -> tuple[Rows, Rows]:
    """Return ``obs`` and ``action`` of each sequence, without padding."""
    cut = [(sample, _real_steps(sample)) for sample in iterator]
    return [sample["obs"][:count] for sample, count in cut], [sample["action"][:count] for sample, count in cut]


def collect_state_action_pairs(
    iterator: Iterable[Mapping[str, torch.Tensor]],
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return observation and action of each sample."""
    return [(sample["obs"], sample["action"]) for sample in iterator]
