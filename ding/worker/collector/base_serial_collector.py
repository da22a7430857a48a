"""The collector interface, its factories, and the public pieces of the classic per-transition path."""

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from easydict import EasyDict

from ding.torch_utils import to_tensor
from ding.utils import SERIAL_COLLECTOR_REGISTRY
from ding.worker._component import Configurable, build_by_type, class_by_type

INF = float("inf")


class ISerialCollector(Configurable, ABC):
    """What a serial collector offers: it steps an env manager with a policy and returns training samples."""

    @abstractmethod
    def reset_env(self, _env: Any = None) -> None:
        """Reset the env manager, or replace and launch it."""

    @abstractmethod
    def reset_policy(self, _policy: Any = None) -> None:
        """Reset the policy, or replace it."""

    @abstractmethod
    def reset(self, _policy: Any = None, _env: Any = None) -> None:
        """Reset (or replace) policy and env, forget trajectories and zero the counters."""

    @abstractmethod
    def collect(self, per_collect_target: Any) -> Any:
        """Collect ``per_collect_target`` samples or episodes (``None``: the policy's default)."""

    @property
    @abstractmethod
    def envstep(self) -> int:
        """Total number of env steps so far."""


def create_serial_collector(cfg: EasyDict, **kwargs: Any) -> ISerialCollector:
    """Build the collector registered under ``cfg.type`` after importing ``cfg.import_names``.

    Raises:
        KeyError: ``cfg.type`` is not registered; the message names the nearest type.
    """
    return build_by_type(SERIAL_COLLECTOR_REGISTRY, cfg, **kwargs)


def get_serial_collector_cls(cfg: EasyDict) -> type:
    """The collector class registered under ``cfg.type``.

    Raises:
        AssertionError: ``cfg`` has no ``type``.
        KeyError: ``cfg.type`` is not registered.
    """
    if not hasattr(cfg, "type"):
        raise AssertionError(
            "collector config: key `type` is missing, expected one of the registered serial collectors"
        )
    return class_by_type(SERIAL_COLLECTOR_REGISTRY, cfg)


class CachePool:
    """One slot per environment, for what must wait until that environment's timestep arrives.

    Args:
        name: name of the cached thing, for messages.
        env_num: number of environments.
        deepcopy: store deep copies.
    """

    def __init__(self, name: str, env_num: int, deepcopy: bool = False) -> None:
        self.name = name
        self._slots: list[Any] = [None] * env_num
        self._deepcopy = deepcopy

    def update(self, data: "Mapping[int, Any] | list[Mapping[int, Any]]") -> None:
        """Store values by env id. A list of mappings (one per battle policy) makes each slot a list."""
        if isinstance(data, Mapping):
            data = [data]
        for i, values in enumerate(data):
            for env_id, value in values.items():
                value = copy.deepcopy(value) if self._deepcopy else value
                if i == 0:
                    self._slots[env_id] = [value]
                else:
                    self._slots[env_id].append(value)

    def __getitem__(self, env_id: int) -> Any:
        slot = self._slots[env_id]
        return slot[0] if slot is not None and len(slot) == 1 else slot

    def reset(self, env_id: int) -> None:
        """Empty the slot of an environment."""
        self._slots[env_id] = None


class TrajBuffer(list):
    """A list of transitions that drops its oldest element when it is full.

    Args:
        maxlen: largest length, ``None`` for no limit.
        items: what it begins with, as for a list.
        deepcopy: append deep copies.
    """

    def __init__(self, maxlen: "int | float | None", items: Iterable[Any] = (), deepcopy: bool = False) -> None:
        super().__init__(items)
        self._maxlen = maxlen
        self._deepcopy = deepcopy

    def append(self, data: Any) -> None:
        """Append ``data``, after dropping what would exceed ``maxlen``."""
        if self._maxlen is not None:
            while self and len(self) >= self._maxlen:
                del self[0]
        super().append(copy.deepcopy(data) if self._deepcopy else data)


def to_tensor_transitions(data: list[dict[str, Any]], shallow_copy_next_obs: bool = True) -> list[dict[str, Any]]:
    """Turn the arrays of transitions into tensors (float64 into float32) and leave Python scalars alone.

    Args:
        data: consecutive transitions of one environment.
        shallow_copy_next_obs: make ``next_obs`` of each transition the very object that is ``obs`` of the next one.
            The last transition keeps its own.

    Returns:
        A new list of new dicts.
    """
    if not data:
        return []
    if "next_obs" not in data[0] or not shallow_copy_next_obs:
        return [to_tensor(transition, transform_scalar=False) for transition in data]
    last = len(data) - 1
    tensors = [
        {k: to_tensor(v, transform_scalar=False) for k, v in transition.items() if k != "next_obs" or i == last}
        for i, transition in enumerate(data)
    ]
    for current, following in itertools.pairwise(tensors):
        current["next_obs"] = following["obs"]
    return tensors
