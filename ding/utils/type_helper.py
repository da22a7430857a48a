"""Names for annotations."""

from __future__ import annotations

from typing import Union

import torch

Tensor = torch.Tensor
SequenceType = Union[list, tuple]  # noqa: UP007 - scripts put it into typing.Union[...] at run time
