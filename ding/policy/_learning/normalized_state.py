"""What a policy learned beside its networks, as part of its state dicts: ``normalization``, the statistics of
observations and rewards, and ``data_statistics``, what a policy that says so was told of its data set.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from ding.data.roles import StateDict
from ding.rl_utils.normalization import Normalization

KEY = "normalization"
DATA_KEY = "data_statistics"


@runtime_checkable
class HasDataStatistics(Protocol):
    """A policy that acts by statistics of the data set that it was trained on."""

    def data_statistics(self) -> StateDict:
        """Return them as tensors and numbers."""

    def load_data_statistics(self, state: StateDict) -> None:
        """Restore what :meth:`data_statistics` returned."""


def with_statistics(
    policy: object, state_dict: Callable[[], StateDict], statistics: Normalization
) -> Callable[[], StateDict]:
    """Return a ``state_dict`` of ``policy`` that has the statistics too, where there are any."""

    def complete() -> StateDict:
        found: dict[str, Any] = {KEY: statistics.state_dict()}
        if isinstance(policy, HasDataStatistics):
            found[DATA_KEY] = policy.data_statistics()
        return {**state_dict(), **{key: value for key, value in found.items() if value}}

    return complete


def loading_statistics(
    policy: object, load_state_dict: Callable[[StateDict], None], statistics: Normalization
) -> Callable[[StateDict], None]:
    """Return a ``load_state_dict`` of ``policy`` that takes the statistics out of the state, and loads them."""

    def load(state_dict: StateDict) -> None:
        load_state_dict({key: value for key, value in state_dict.items() if key not in (KEY, DATA_KEY)})
        if state_dict.get(KEY):
            statistics.load_state_dict(state_dict[KEY])
        elif KEY not in state_dict:
            statistics.note_state_without()
        if DATA_KEY in state_dict and isinstance(policy, HasDataStatistics):
            policy.load_data_statistics(state_dict[DATA_KEY])

    return load
