"""Elements at work: what turns raw data of an env into observations, actions and rewards."""

from abc import abstractmethod
from typing import Any

from ding.envs.common.env_element import EnvElement, EnvElementInfo, IEnvElement
from ding.envs.contract import Obs


class IEnvElementRunner(IEnvElement):
    """An element that also works on the data of an env."""

    @abstractmethod
    def get(self, engine: Any) -> Obs:
        """The element as the policy sees it."""

    @abstractmethod
    def reset(self, *args: Any, **kwargs: Any) -> None:
        """Prepare for a new episode."""


class EnvElementRunner(IEnvElementRunner):
    """A runner around a description ``_core``, which the subclass makes in ``_init``."""

    _core: EnvElement

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._init(*args, **kwargs)
        if not isinstance(getattr(self, "_core", None), EnvElement):
            raise AttributeError(f"{type(self).__name__}._init must set _core to an EnvElement")

    @abstractmethod
    def _init(self, *args: Any, **kwargs: Any) -> None:
        """Make ``_core`` and what the runner needs."""

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def info(self) -> EnvElementInfo:
        """Info of the description."""
        return self._core.info
