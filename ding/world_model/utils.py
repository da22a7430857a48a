"""How far a world model is rolled out, as training proceeds."""

from collections.abc import Callable, Mapping
from typing import Any

from ding.utils.names import did_you_mean
from ding.utils.registry import UnknownNameError

_TYPES = ("linear", "constant")


def get_rollout_length_scheduler(cfg: Mapping[str, Any]) -> Callable[[int], int]:
    """Return the function from the env step to the number of imagined steps.

    Args:
        cfg: with ``type``:

            * ``linear``: the length goes from ``rollout_length_min`` at env step ``rollout_start_step`` to
              ``rollout_length_max`` at ``rollout_end_step``, rounded down;
            * ``constant``: the length is ``rollout_length``.

    Raises:
        KeyError: another type, or a key is missing.
    """
    kind = cfg["type"]
    if kind == "constant":
        length = int(cfg["rollout_length"])
        return lambda envstep: length
    if kind != "linear":
        hint = did_you_mean(str(kind), _TYPES)
        raise UnknownNameError(f"world_model.rollout_length_scheduler.type: {kind!r} is unknown.{hint}")
    start, end = cfg["rollout_start_step"], cfg["rollout_end_step"]
    shortest, longest = cfg["rollout_length_min"], cfg["rollout_length_max"]

    def length_at(envstep: int) -> int:
        share = min(max((envstep - start) / (end - start), 0.0), 1.0)
        return int(shortest + (longest - shortest) * share)

    return length_at
