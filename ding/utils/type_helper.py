"""Type aliases for annotations."""

from typing import Union

import torch

Tensor = torch.Tensor
SequenceType = Union[list, tuple]  # type: ignore[type-arg, unused-ignore]  # noqa: UP007 - as scripts have it in Union[...]
