"""Pad groups to equal length."""

from collections.abc import Callable
from typing import Any

from ding.data.buffer._clone import clone_structure
from ding.data.buffer.buffer import BufferedData, Middleware, batch_aware
from ding.data.buffer.errors import SampleArgumentError
from ding.data.buffer.middleware._sampled import is_grouped
from ding.data.replay.priorities import Draws
from ding.utils import did_you_mean

_POLICIES = ("random", "none")


def padding(policy: str = "random") -> Middleware:
    """Pad all groups of a sample to the length of the longest one.

    Args:
        policy: ``'random'`` appends copies of random members of the group, ``'none'`` records whose data, index and
            meta are ``None``.

    Raises:
        SampleArgumentError: The policy is unknown.
    """
    if policy not in _POLICIES:
        hint = did_you_mean(policy, _POLICIES)
        raise SampleArgumentError(f"the policy of padding must be one of {_POLICIES}, got {policy!r}.{hint}")

    draws = Draws()

    def fill(group: list[BufferedData], missing: int) -> list[BufferedData]:
        if policy == "none":
            return group + [BufferedData(None, None, None) for _ in range(missing)]
        picks = draws.generator.integers(len(group), size=missing)
        return group + [clone_structure(group[i]) for i in picks.tolist()]

    @batch_aware
    def pad(action: str, chain: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        sampled = chain(*args, **kwargs)
        if action != "sample" or not is_grouped(sampled):
            return sampled
        longest = max(len(group) for group in sampled)
        if all(len(group) == longest for group in sampled):
            return sampled
        return [fill(list(group), longest - len(group)) for group in sampled]

    return pad
