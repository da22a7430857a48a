"""Adapters for env managers of other libraries, which may return arrays or trees instead of values by env id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ding.data import BaseEnvTimestep
from ding.data.columns import Columns, num_rows, row_list
from ding.data.roles import ByEnv, EnvManager, only_declared
from ding.envs.env_manager._abstract import AbstractEnvManager
from ding.utils.nested import plain_tree

_NEEDED = frozenset({"action_space", "closed", "env_num", "launch", "ready_obs", "reset", "seed", "step"})


def as_manager(env: EnvManager) -> EnvManager:
    """Return a manager of this package unchanged; wrap others in a :class:`ForeignManager`.

    Raises:
        TypeError: The object is not an env manager.
    """
    kind = type(env)
    if isinstance(env, AbstractEnvManager) or hasattr(kind, "run_view") or hasattr(kind, "as_dict_form"):
        return env
    manager = ForeignManager(only_declared(env, _NEEDED))
    if not hasattr(manager, "launch"):
        raise TypeError(f"expected an env manager (see ding.envs.create_env_manager), found {kind.__name__}")
    return cast(EnvManager, manager)


class ForeignManager:
    """An env manager whose ``ready_obs`` is a mapping by env id, an array ``[N, ...]``, or a tree of such.

    A manager that returns arrays takes a list of N actions and returns a list of timesteps: objects or trees with
        ``obs``, ``reward``, ``done``, ``info`` and ``env_id``. All other attributes are those of the manager.
    """

    def __init__(self, env: EnvManager) -> None:
        self._env = env
        self._by_id: bool | None = None

    @property
    def steps_together(self) -> bool:
        """Whether each step takes an action for every env."""
        if self._by_id is None:
            self._look(self._env.ready_obs)
        return not self._by_id

    @property
    def ready_obs(self) -> ByEnv:
        """Observation of each env that waits for an action, by env id."""
        obs = plain_tree(self._env.ready_obs)
        if self._look(obs):
            by_id: ByEnv = obs
            return by_id
        columns: Columns = dict(obs) if isinstance(obs, Mapping) else obs
        return dict(enumerate(row_list(columns, num_rows(columns))))

    def step(self, actions: ByEnv) -> Mapping[int, BaseEnvTimestep]:
        """Perform one step and return timesteps by env id."""
        steps: Mapping[int, BaseEnvTimestep] | Sequence[object]
        steps = self._env.step(list(actions.values()) if self.steps_together else actions)
        return steps if isinstance(steps, Mapping) else dict(map(_timestep, steps))

    def _look(self, obs: Any) -> bool:
        self._by_id = isinstance(obs, Mapping) and all(isinstance(key, (int, np.integer)) for key in obs)
        return self._by_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


def _timestep(step: Any) -> tuple[int, BaseEnvTimestep]:
    """Return a timestep of any form, with the id of its env."""
    tree = plain_tree(step)
    values = tree if isinstance(tree, Mapping) else {name: getattr(tree, name) for name in (*_FIELDS, "env_id")}
    obs, reward, done, info = (plain_tree(values[name]) for name in _FIELDS)
    info = dict(info) if isinstance(info, Mapping) else {"eval_episode_return": info.eval_episode_return}
    return int(_number(values["env_id"])), BaseEnvTimestep(obs, reward, bool(_number(done)), info)


_FIELDS = ("obs", "reward", "done", "info")


def _number(value: Any) -> float:
    return float(np.asarray(value).reshape(-1)[0])
