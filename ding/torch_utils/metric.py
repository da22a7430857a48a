"""Distances between sequences and sets of labels."""

from collections.abc import Callable

import torch

from ding.utils.errors import InvalidArgumentError


def levenshtein_distance(
    pred: torch.Tensor,
    target: torch.Tensor,
    pred_extra: torch.Tensor | None = None,
    target_extra: torch.Tensor | None = None,
    extra_fn: Callable[[torch.Tensor, torch.Tensor], float] | None = None,
) -> torch.Tensor:
    """Edit distance of two sequences of ids, int64 ``[N1]`` and ``[N2]``; a float tensor ``[1]``.

    ``pred_extra`` ``[N1, *E]`` and ``target_extra`` ``[N2, *E]`` with
    ``extra_fn(pred_extra[i], target_extra[j]) -> float`` add a cost where two ids match; ids that match are always
    paired. Raises ``InvalidArgumentError`` for another shape of ids or when only a part of the extras is given.
    """
    if pred.dim() != 1 or target.dim() != 1:
        raise InvalidArgumentError(f"expected 1-D sequences, got {tuple(pred.shape)} and {tuple(target.shape)}")
    given = [value is not None for value in (pred_extra, target_extra, extra_fn)]
    if any(given) and not all(given):
        raise InvalidArgumentError("pred_extra, target_extra and extra_fn must be given together")
    left, right = pred.tolist(), target.tolist()
    previous = [float(j) for j in range(len(right) + 1)]
    for i, left_id in enumerate(left):
        current = [float(i + 1)]
        for j, right_id in enumerate(right):
            if left_id != right_id:
                current.append(min(previous[j], previous[j + 1], current[j]) + 1)
                continue
            cost = 0.0
            if pred_extra is not None and target_extra is not None and extra_fn is not None:
                cost = float(extra_fn(pred_extra[i], target_extra[j]))
            current.append(previous[j] + cost)
        previous = current
    return torch.tensor([previous[-1]])


def hamming_distance(pred: torch.Tensor, target: torch.Tensor, weight: float | torch.Tensor = 1.0) -> torch.Tensor:
    """Weighted number of differing entries per row: 0/1 tensors ``[B, N]`` give a float tensor ``[B]``.

    Raises ``ValueError`` for other shapes or for entries that are not 0 or 1.
    """
    if pred.dim() != 2 or pred.shape != target.shape:
        raise InvalidArgumentError(f"expected two [B, N] tensors, got {tuple(pred.shape)} and {tuple(target.shape)}")
    for name, value in (("pred", pred), ("target", target)):
        if not bool(((value == 0) | (value == 1)).all()):
            raise InvalidArgumentError(f"{name} must hold only 0 and 1")
    return ((pred != target).float() * weight).sum(dim=1)
