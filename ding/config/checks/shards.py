"""Check of ``policy.other.replay_buffer.shards`` in the parallel mode."""

from collections.abc import Mapping
from typing import Any

from ding.config.checks.ranges import COUNT
from ding.config.errors import ConfigValueError

_WHERE = "policy.other.replay_buffer"
TYPES = ("advanced", "naive")
MAX_ROWS = 1 << 22
"""Maximum number of rows per shard whose priorities fit into one message."""


def check_shards(policy: Mapping[str, Any]) -> None:
    """Check that the replay buffer supports the requested number of shards.

    Raises:
        ConfigValueError: It does not; the message gives the reason.
    """
    buffer = policy["other"]["replay_buffer"]
    shards = buffer.get("shards", 1)
    if isinstance(shards, bool) or not isinstance(shards, int) or not COUNT.holds(shards):
        raise ConfigValueError(f"{_WHERE}.shards must be {COUNT.text()}, got {shards!r}")
    if shards == 1:
        return
    where = f"{_WHERE}.shards is {shards}"
    if policy.get("on_policy"):
        raise ConfigValueError(f"{where}, but an on-policy run has no replay buffer (policy.on_policy is True)")
    if buffer["type"] not in TYPES:
        raise ConfigValueError(f"{where}: {_WHERE}.type must be one of {TYPES} for that, got {buffer['type']!r}")
    size = buffer["replay_buffer_size"]
    if shards > size:
        raise ConfigValueError(f"{where}, more than {_WHERE}.replay_buffer_size {size}")
    if size > shards * MAX_ROWS:
        least = -(-size // MAX_ROWS)
        raise ConfigValueError(f"{where} of {MAX_ROWS} rows at most: {size} rows need {least} of them")
