"""Types shared by the losses."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

# Named tuple of a loss (``q_nstep_td_data`` and so on), or any tuple of its fields; optional fields may be None.
Data = tuple[Any, ...]
# A discount, or one tensor ``[B]`` per step.
Gamma = float | Sequence[torch.Tensor]
# The discount of the bootstrap value instead of ``gamma^n``: a number or ``[B]``.
ValueGamma = float | torch.Tensor | None
LossAndPerSample = tuple[torch.Tensor, torch.Tensor]
# Mu and sigma ``[*S, D]`` by name; the output of a policy is this, or logits ``[*S, N]``.
MuSigma = Mapping[str, torch.Tensor]
PolicyOutput = torch.Tensor | MuSigma
