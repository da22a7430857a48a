"""Checks for a ``rate_limit`` of a replay buffer that would block a run forever."""

from collections.abc import Iterator, Mapping
from typing import Any

from ding.config.errors import ConfigValueError
from ding.data.replay.errors import BufferConfigError
from ding.data.replay.limits import limiter_of

_WHERE = "policy.other.replay_buffer"


def check_rate_limit(policy: Mapping[str, Any], pushes_n_sample: bool) -> None:
    """Check the ``rate_limit`` of a policy's buffers against each other and against the batch sizes.

    Args:
        policy: Section ``policy``.
        pushes_n_sample: Whether a whole collection is pushed at once, as in the serial mode.

    Raises:
        ConfigValueError: Pushes and samples would block each other forever.
    """
    for where, section in _sections(policy.get("other", {}).get("replay_buffer", {})):
        limit = section.get("rate_limit")
        if not isinstance(limit, Mapping) or limit.get("samples_per_insert") is None:
            continue
        try:
            limiter_of(section, int(section.get("replay_buffer_size", 1 << 62)))
        except (BufferConfigError, TypeError, ValueError) as error:
            raise ConfigValueError(f"{where}.rate_limit cannot work: {error}") from error
        for key, value, bound in (
            ("policy.learn.batch_size", _batch_size(policy), "sample_size"),
            ("policy.collect.n_sample", policy.get("collect", {}).get("n_sample"), "push_size"),
        ):
            looked_at = bound == "sample_size" or pushes_n_sample
            most = limit.get(bound, 1)
            if looked_at and isinstance(value, int) and value > most:
                raise ConfigValueError(
                    f"{where}.rate_limit cannot work: {bound} is {most}, and {key} is {value}; set {bound} to {value} "
                    "or more"
                )


def _batch_size(policy: Mapping[str, Any]) -> object:
    size = policy.get("batch_size")
    return policy.get("learn", {}).get("batch_size") if size is None else size


def _sections(buffers: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not buffers.get("multi_buffer", False):
        yield _WHERE, buffers
        return
    for name, section in buffers.items():
        if isinstance(section, Mapping):
            yield f"{_WHERE}.{name}", section
