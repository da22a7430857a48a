"""Wrappers of models: the interface, the plain wrapper, and the table of names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from ding.model.template.array_forward import array_logit


class IModelWrapper:
    """Base of wrappers: adds something to ``forward`` and is the wrapped model in everything else.

    Attributes that the wrapper lacks are those of what it wraps, so ``state_dict``, ``train``, ``parameters`` and so
    on reach the module through any number of wrappers.
    """

    def __init__(self, model: nn.Module | IModelWrapper) -> None:
        self._model: Any = model

    def __getattr__(self, key: str) -> Any:
        # Copying asks for attributes before ``_model`` is there.
        if key == "_model" or (key.startswith("__") and key.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}")
        return getattr(self._model, key)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the wrapped model."""
        return self._model.forward(*args, **kwargs)

    def array_forward(self, obs: object, **kwargs: Any) -> dict[str, np.ndarray] | None:
        """What ``forward`` gives for float32 ``obs`` ``[N, features]``, as arrays and without gradients.

        Returns:
            ``None`` where there is no such form (see :func:`array_logit`); no random number was drawn then.
        """
        return None

    def _array_logit(self, obs: object) -> np.ndarray | None:
        inner = self._model
        return array_logit(inner._model, obs) if type(inner) is BaseModelWrapper else None

    def reset(self, data_id: list[int] | None = None, **kwargs: Any) -> None:
        """Forget the state of the rows ``data_id`` (of all if None), in every wrapper that has some."""
        if hasattr(self._model, "reset"):
            self._model.reset(data_id=data_id, **kwargs)

    def info(self, attr_name: str) -> str:
        """The class names from this wrapper down to the object that has ``attr_name``, separated by blanks.

        Raises:
            AttributeError: nothing in the chain has it.
        """
        names = [type(self).__name__]
        item: Any = self
        while attr_name not in dir(type(item)) and attr_name not in vars(item):
            if not isinstance(item, IModelWrapper):
                getattr(item, attr_name)  # a parameter or submodule, or the AttributeError that names it
                break
            item = item._model
            names.append(type(item).__name__)
        return " ".join(names)


class BaseModelWrapper(IModelWrapper):
    """The wrapper that every bare model gets first: changes nothing."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model; a module with its hooks."""
        model = self._model
        return model(*args, **kwargs) if isinstance(model, nn.Module) else model.forward(*args, **kwargs)


class TeacherNetwork(IModelWrapper):
    """Reserved name ``teacher``; cannot be built."""

    def __init__(self, model: nn.Module | IModelWrapper) -> None:
        raise NotImplementedError("the model wrapper 'teacher' is not implemented")


def output_dict(output: object, wrapper: IModelWrapper) -> dict[str, Any]:
    """``output`` of the model, checked to be a dict.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(output, dict):
        return output
    if isinstance(output, Mapping):
        return dict(output)
    raise TypeError(f"{type(wrapper).__name__} needs a model whose output is a dict, got {type(output).__name__}")
