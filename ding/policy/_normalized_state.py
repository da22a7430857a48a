"""The statistics of observations and rewards as part of the state dicts of a policy."""

from collections.abc import Callable

from ding.data.roles import StateDict
from ding.rl_utils.normalization import Normalization

KEY = "normalization"


def with_statistics(state_dict: Callable[[], StateDict], statistics: Normalization) -> Callable[[], StateDict]:
    """Return a ``state_dict`` that has the statistics, where there are any, as ``normalization``."""

    def complete() -> StateDict:
        found = statistics.state_dict()
        return {**state_dict(), KEY: found} if found else state_dict()

    return complete


def loading_statistics(
    load_state_dict: Callable[[StateDict], None], statistics: Normalization
) -> Callable[[StateDict], None]:
    """Return a ``load_state_dict`` that takes the statistics out of the state, and loads them."""

    def load(state_dict: StateDict) -> None:
        load_state_dict({key: value for key, value in state_dict.items() if key != KEY})
        if state_dict.get(KEY):
            statistics.load_state_dict(state_dict[KEY])
        elif KEY not in state_dict:
            statistics.note_state_without()

    return load
