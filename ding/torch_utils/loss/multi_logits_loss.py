"""Cross entropy for a set of predictions whose order is free."""

import torch
import torch.nn.functional as F
from torch import nn

from ding.torch_utils.loss.cross_entropy_loss import LabelSmoothCELoss
from ding.utils.errors import InvalidArgumentError


def min_cost_assignment(cost: list[list[float]]) -> list[int]:
    """Hungarian method (Kuhn 1955; O(n^3) form with potentials) for a square matrix: the column of each row."""
    size = len(cost)
    inf = float("inf")
    row_potential, col_potential = [0.0] * (size + 1), [0.0] * (size + 1)
    row_of_col, previous_col = [0] * (size + 1), [0] * (size + 1)
    for row in range(1, size + 1):
        row_of_col[0] = row
        col = 0
        slack, used = [inf] * (size + 1), [False] * (size + 1)
        while row_of_col[col] != 0:
            used[col] = True
            current_row, delta, next_col = row_of_col[col], inf, 0
            for j in range(1, size + 1):
                if used[j]:
                    continue
                reduced = cost[current_row - 1][j - 1] - row_potential[current_row] - col_potential[j]
                if reduced < slack[j]:
                    slack[j], previous_col[j] = reduced, col
                if slack[j] < delta:
                    delta, next_col = slack[j], j
            for j in range(size + 1):
                if used[j]:
                    row_potential[row_of_col[j]] += delta
                    col_potential[j] -= delta
                else:
                    slack[j] -= delta
            col = next_col
        while col:
            row_of_col[col] = row_of_col[previous_col[col]]
            col = previous_col[col]
    columns = [0] * size
    for col in range(1, size + 1):
        columns[row_of_col[col] - 1] = col - 1
    return columns


class MultiLogitsLoss(nn.Module):
    """Cross entropy of ``M`` predictions with ``M`` labels under the cheapest one-to-one matching of the two.

    ``criterion`` is ``'cross_entropy'`` (also ``None``) or ``'label_smooth_ce'`` with ``smooth_ratio``.
    Raises ``ValueError`` for another one.
    """

    def __init__(self, criterion: str | None = None, smooth_ratio: float = 0.1) -> None:
        super().__init__()
        if criterion not in (None, "cross_entropy", "label_smooth_ce"):
            raise InvalidArgumentError(f"criterion={criterion!r} is unknown: 'cross_entropy' or 'label_smooth_ce'")
        self.criterion: nn.Module = (
            LabelSmoothCELoss(smooth_ratio) if criterion == "label_smooth_ce" else nn.CrossEntropyLoss()
        )

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """``logits`` float ``[M, N]``, ``labels`` int64 ``[M]`` in any order; a 0-d loss."""
        if logits.dim() != 2 or labels.shape != logits.shape[:1]:
            raise InvalidArgumentError(f"expected [M, N] and [M], got {tuple(logits.shape)} and {tuple(labels.shape)}")
        cost = -F.log_softmax(logits.detach(), dim=1)[:, labels]
        columns = torch.as_tensor(min_cost_assignment(cost.tolist()), device=labels.device)
        output: torch.Tensor = self.criterion(logits, labels[columns])
        return output
