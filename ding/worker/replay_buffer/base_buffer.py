"""The interface of replay buffers, and the factories that build one by the ``type`` of a config."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ding.data.roles import Samples
from ding.utils import BUFFER_REGISTRY, Configurable

P = ParamSpec("P")
T = TypeVar("T")


def takes_state_dict(method: Callable[P, T]) -> Callable[P, T]:
    """Let ``state_dict=`` stand for ``_state_dict=``, the name of DI-engine."""

    @wraps(method)
    def load(*args: P.args, **kwargs: P.kwargs) -> T:
        if "state_dict" in kwargs:
            kwargs["_state_dict"] = kwargs.pop("state_dict")
        return method(*args, **kwargs)

    return load


class IBuffer(Configurable, ABC):
    """What the pipelines ask of a replay buffer."""

    @abstractmethod
    def push(self, data: object, cur_collector_envstep: int) -> None:
        """Store one element, the elements of a list, or the rows of a ``TransitionBatch``."""

    @abstractmethod
    def update(self, info: dict[str, Any]) -> None:
        """Take over what a learner found out about sampled elements, e.g. their priorities."""

    @abstractmethod
    def sample(self, batch_size: int, cur_learner_iter: int) -> Samples | None:
        """Draw ``batch_size`` elements; ``None`` when there are not enough."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all elements."""

    @abstractmethod
    def count(self) -> int:
        """Number of elements that can be sampled."""

    @abstractmethod
    def save_data(self, file_name: str) -> None:
        """Write the elements to a file."""

    @abstractmethod
    def load_data(self, file_name: str) -> None:
        """Push the elements of a file that ``save_data`` wrote."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything that is needed to go on with an equal buffer, as copies."""

    @abstractmethod
    def load_state_dict(self, _state_dict: dict[str, Any]) -> None:
        """Become the buffer that a ``state_dict`` describes."""

    def close(self) -> None:
        """Release what the buffer holds: nothing, unless a subclass says otherwise."""


def create_buffer(cfg: Mapping[str, Any], *args: Any, **kwargs: Any) -> IBuffer:
    """Build the buffer that ``cfg.type`` names, after importing ``cfg.import_names``.

    Args:
        cfg: config of the buffer; keys that are missing take the defaults of its class.
        args, kwargs: ``tb_logger``, ``exp_name`` and ``instance_name``, handed to the constructor.

    Raises:
        KeyError: ``type`` is missing or names nothing that is registered.
    """
    buffer: IBuffer = BUFFER_REGISTRY.create(cfg, *args, **kwargs)
    return buffer


def get_buffer_cls(cfg: Mapping[str, Any]) -> type:
    """The class that :func:`create_buffer` would build.

    Raises:
        KeyError: ``type`` is missing or names nothing that is registered.
    """
    return BUFFER_REGISTRY.class_of(cfg)
