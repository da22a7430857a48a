"""Elements that convert raw data of an env to observations, actions and rewards."""

from abc import abstractmethod
from typing import Any

from ding.envs.common.env_element import EnvElement, EnvElementInfo, IEnvElement
from ding.envs.contract import Obs


class IEnvElementRunner(IEnvElement):
    """Element that also processes data of an env."""

    @abstractmethod
    def get(self, engine: Any) -> Obs:
        """Return the element in the form for the policy."""

    @abstractmethod
    def reset(self, *args: Any, **kwargs: Any) -> None:
        """Prepare a new episode."""


class EnvElementRunner(IEnvElementRunner):
    """Runner around a description ``_core``, which the subclass creates in ``_init``."""

    _core: EnvElement

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._init(*args, **kwargs)
        if not isinstance(getattr(self, "_core", None), EnvElement):
            raise AttributeError(f"{type(self).__name__}._init must set _core to an EnvElement")

    @abstractmethod
    def _init(self, *args: Any, **kwargs: Any) -> None:
        """Create ``_core`` and other fields of the runner."""

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def info(self) -> EnvElementInfo:
        """Return the info of the description."""
        return self._core.info
