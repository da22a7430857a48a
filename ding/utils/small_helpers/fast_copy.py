"""Copies of nested lists and dicts of arrays and tensors."""

from __future__ import annotations

from typing import TypeVar, cast

import numpy as np
import torch

T = TypeVar("T")


class FastCopy:
    """Copy samples without the bookkeeping of ``copy.deepcopy``."""

    def copy(self, data: T) -> T:
        """Return a copy: lists and dicts (of exactly these types) are copied with their entries, arrays are copied,
        tensors cloned with their graph; anything else is shared.
        """
        value: object = data
        copied: object = value
        if type(value) is list:
            copied = [self.copy(one) for one in value]
        elif type(value) is dict:
            copied = {key: self.copy(one) for key, one in value.items()}
        elif isinstance(value, torch.Tensor):
            copied = value.clone()
        elif isinstance(value, np.ndarray):
            copied = value.copy()
        return cast(T, copied)


fastcopy = FastCopy()
