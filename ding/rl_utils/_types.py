"""Types that the losses share."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

# The named tuple of a loss (``q_nstep_td_data`` and so on), or any tuple of its fields; what may be missing is None.
Data = tuple[Any, ...]
# A discount, or one tensor ``[B]`` for each of the n steps.
Gamma = float | Sequence[torch.Tensor]
# The discount of the bootstrap value instead of ``gamma^n``: a number or ``[B]``.
ValueGamma = float | torch.Tensor | None
LossAndPerSample = tuple[torch.Tensor, torch.Tensor]
# Mu and sigma ``[*S, D]`` by name; what a policy gives is that, or logits ``[*S, N]``.
MuSigma = Mapping[str, torch.Tensor]
PolicyOutput = torch.Tensor | MuSigma
