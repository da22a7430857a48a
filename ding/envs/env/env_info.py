"""Return value of ``info()`` of envs for DI-engine before 0.3.1."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any


@dataclass
class BaseEnvInfo:
    """Number of agents, spaces and wrappers of an env. The fields are iterable and assignable.

    Args:
        agent_num: Number of agents.
        obs_space, act_space, rew_space: Usually an ``EnvElementInfo``.
        use_wrappers: Wrappers of the env.
    """

    agent_num: int
    obs_space: Any
    act_space: Any
    rew_space: Any
    use_wrappers: Any

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, field.name) for field in fields(self))
