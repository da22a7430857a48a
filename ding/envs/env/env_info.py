"""What ``info()`` of envs for DI-engine before 0.3.1 returns."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any


@dataclass
class BaseEnvInfo:
    """Number of agents, spaces and wrappers of an env. The fields can be iterated over, and assigned.

    Args:
        agent_num: number of agents.
        obs_space, act_space, rew_space: usually an ``EnvElementInfo``.
        use_wrappers: wrappers of the env.
    """

    agent_num: int
    obs_space: Any
    act_space: Any
    rew_space: Any
    use_wrappers: Any

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, field.name) for field in fields(self))
