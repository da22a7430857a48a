"""Interface of replay buffers, and factories that build one by the ``type`` of a config."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ding.data.roles import Samples
from ding.utils import BUFFER_REGISTRY, Configurable

P = ParamSpec("P")
T = TypeVar("T")


def takes_state_dict(method: Callable[P, T]) -> Callable[P, T]:
    """Accept ``state_dict=`` as well as ``_state_dict=``, the name in DI-engine."""

    @wraps(method)
    def load(*args: P.args, **kwargs: P.kwargs) -> T:
        if "state_dict" in kwargs:
            kwargs["_state_dict"] = kwargs.pop("state_dict")
        return method(*args, **kwargs)

    return load


class IBuffer(Configurable, ABC):
    """Interface of replay buffers for the pipelines."""

    @abstractmethod
    def push(self, data: object, cur_collector_envstep: int) -> None:
        """Store one element, the elements of a list, or the rows of a ``TransitionBatch``."""

    @abstractmethod
    def update(self, info: dict[str, Any]) -> None:
        """Update sampled elements with results of the learner, e.g. priorities."""

    @abstractmethod
    def sample(self, batch_size: int, cur_learner_iter: int) -> Samples | None:
        """Sample ``batch_size`` elements; return ``None`` if there are not enough."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all elements."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of elements that can be sampled."""

    @abstractmethod
    def save_data(self, file_name: str) -> None:
        """Write the elements to a file."""

    @abstractmethod
    def load_data(self, file_name: str) -> None:
        """Push the elements of a file written by ``save_data``."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state from which an equal buffer can be restored."""

    @abstractmethod
    def load_state_dict(self, _state_dict: dict[str, Any]) -> None:
        """Restore a ``state_dict``."""

    def close(self) -> None:
        """Release resources; the default does nothing."""


def create_buffer(cfg: Mapping[str, Any], *args: Any, **kwargs: Any) -> IBuffer:
    """Build the buffer of type ``cfg.type``, after importing ``cfg.import_names``.

    Args:
        cfg: Config of the buffer; missing keys take the defaults of its class.
        args, kwargs: ``tb_logger``, ``exp_name`` and ``instance_name``, passed to the constructor.

    Raises:
        KeyError: ``type`` is missing or not registered.
    """
    buffer: IBuffer = BUFFER_REGISTRY.create(cfg, *args, **kwargs)
    return buffer


def get_buffer_cls(cfg: Mapping[str, Any]) -> type:
    """Return the class that :func:`create_buffer` instantiates.

    Raises:
        KeyError: ``type`` is missing or not registered.
    """
    return BUFFER_REGISTRY.class_of(cfg)
