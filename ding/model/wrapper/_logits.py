"""From logits and action masks to discrete actions. Nothing here changes what the model or the observation gave."""

from __future__ import annotations

from typing import Any

import torch

Masks = list[torch.Tensor | None]


def split_heads(output: dict[str, Any]) -> tuple[list[torch.Tensor], Masks, bool]:
    """The logits and masks of ``output`` per head, and whether the model has one head only (its logit is a tensor).

    Raises:
        KeyError: the output has no ``logit``.
        TypeError: the logit is neither a tensor nor a list of tensors.
        ValueError: the number of masks is not that of the heads, or a mask forbids every action of a row.
    """
    if "logit" not in output:
        raise KeyError(f"sampling an action needs 'logit' in the output of the model, got {sorted(output)}")
    logit, mask = output["logit"], output.get("action_mask")
    single = isinstance(logit, torch.Tensor)
    if not single and not isinstance(logit, list | tuple):
        raise TypeError(f"'logit' must be a tensor or a list of tensors, got {type(logit).__name__}")
    logits = [logit] if single else list(logit)
    if mask is None:
        return logits, [None] * len(logits), single
    masks: Masks = [mask] if isinstance(mask, torch.Tensor) else list(mask)
    if len(masks) != len(logits):
        raise ValueError(f"'action_mask' has {len(masks)} entries for {len(logits)} heads")
    for item in masks:
        _check_mask(item)
    return logits, masks, single


def _check_mask(mask: torch.Tensor | None) -> None:
    if mask is None or bool((mask != 0).any(dim=-1).all()):
        return
    rows = (~(mask != 0).any(dim=-1)).nonzero().flatten().tolist()
    raise ValueError(f"'action_mask' forbids every action in row(s) {rows}")


def mask_logits(logit: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """``logit`` with minus infinity where ``mask`` is 0; ``logit`` itself without a mask."""
    return logit if mask is None else logit.masked_fill(mask == 0, float("-inf"))


def greedy_action(logit: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The best allowed action of each row: int64 ``[...]`` from ``[..., N]``."""
    return mask_logits(logit, mask).argmax(dim=-1)


def sample_weights(weight: torch.Tensor) -> torch.Tensor:
    """One index per row, with chances in proportion to ``weight`` ``[..., N]``: int64 ``[...]``."""
    flat = torch.multinomial(weight.reshape(-1, weight.shape[-1]), 1)
    return flat.reshape(weight.shape[:-1])


def softmax_action(logit: torch.Tensor, mask: torch.Tensor | None, alpha: float | None = None) -> torch.Tensor:
    """One allowed action per row, drawn from ``softmax(logit / alpha)``."""
    scaled = logit if alpha is None else logit / alpha
    return sample_weights(mask_logits(scaled, mask).softmax(dim=-1))


def random_action(logit: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """One action per row, uniform or with the chances that ``mask`` gives."""
    if mask is None:
        return torch.randint(logit.shape[-1], logit.shape[:-1], device=logit.device)
    return sample_weights(mask.to(device=logit.device, dtype=torch.float32).expand(logit.shape))
