"""Several devices in one process."""

from collections.abc import Iterator
from typing import Any

from torch import nn


class DataParallel(nn.DataParallel[nn.Module]):
    """``torch.nn.DataParallel`` that exposes the attributes of the wrapped module.

    ``parameters()`` yields those of the module; ``dp.method`` is ``dp.module.method`` when the wrapper has none.
    """

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Return the parameters of the wrapped module."""
        return self.module.parameters(recurse=recurse)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(self.module, name)
