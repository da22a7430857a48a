"""The v2 interface of an env manager: stacked observations out, a list of actions in, a list of timestep trees out."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces

from ding.data import EnvBatch, TimestepBatch
from ding.data.columns import Columns, num_rows
from ding.envs.env_manager._abstract import AbstractEnvManager
from ding.utils import make_key_as_identifier, remove_illegal_item

Actions: TypeAlias = Mapping[Any, Any] | Sequence[Any] | np.ndarray | torch.Tensor


class Tree(dict[str, Any]):
    """A dict whose keys are attributes as well; nested dicts become trees when they are read."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no field {name!r}; fields are {list(self)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if type(value) is dict:
            value = Tree(value)
            self[name] = value
        return value


def as_tree(columns: Columns) -> Any:
    """Columns as they are, a dict of them as a :class:`Tree`."""
    return Tree(columns) if isinstance(columns, dict) else columns


def tree_timesteps(batch: TimestepBatch) -> list[Tree]:
    """One tree with ``obs, reward, done, info, env_id`` per env; ``done`` and ``env_id`` are numpy scalars.

    Keys of ``info`` become identifiers, and its text values are dropped.
    """
    trees = []
    for env_id, step in batch.items():
        info = step.info
        if isinstance(info, dict):
            info = Tree(make_key_as_identifier(remove_illegal_item(info))) if info else Tree()
        done = np.bool_(step.done)
        trees.append(Tree(obs=step.obs, reward=step.reward, done=done, info=info, env_id=np.int64(env_id)))
    return trees


def empty_columns(space: spaces.Space[Any]) -> Any:
    """Observations of no env: an array ``[0, *shape]``, or a tree of such arrays."""
    if isinstance(space, spaces.Dict):
        return Tree({name: empty_columns(part) for name, part in space.spaces.items()})
    if space.shape is not None:
        return np.empty((0, *space.shape), dtype=space.dtype)
    return np.empty((0,), dtype=np.float32)


def batch_of_actions(actions: Actions, env_ids: Sequence[int]) -> EnvBatch:
    """The actions with the ids of the envs they are for.

    Args:
        actions: a mapping env id -> action, or a list, array, tensor or dict of columns in the order of ``env_ids``.
        env_ids: the envs whose observations were handed out.

    Raises:
        AssertionError: another number of actions than envs.
    """
    if isinstance(actions, EnvBatch):
        return actions
    ids = np.array(env_ids, dtype=np.int64)
    if isinstance(actions, Mapping):
        if all(isinstance(key, (int, np.integer)) for key in actions):
            return EnvBatch.from_dict(actions)
        columns: Any = dict(actions)
        size = num_rows(columns)
    else:
        columns = actions
        size = len(actions)
    if size != len(ids):
        raise AssertionError(f"{size} actions for the {len(ids)} envs {list(env_ids)} of the last ready_obs")
    if isinstance(columns, (dict, np.ndarray, torch.Tensor)):
        return EnvBatch(ids, columns)
    return EnvBatch.from_dict(dict(zip(env_ids, columns)))


class V2Interface(AbstractEnvManager):
    """Gives a manager with the v1 interface, which stands behind it in the order of base classes, the v2 interface.

    Actions belong to the envs of the ``ready_obs`` that was read last, by id: an env that changed its state in between
    does not shift them.
    """

    _handed_ids: list[int] | None = None

    @property
    def ready_batch(self) -> EnvBatch:
        """``ready_obs`` of the v1 interface."""
        return super().ready_obs  # type: ignore[safe-super]

    def step_batch(self, actions: Mapping[int, Any]) -> TimestepBatch:
        """``step`` of the v1 interface."""
        return super().step(actions)  # type: ignore[safe-super]

    @property
    def ready_obs(self) -> Any:
        """Observations ``[N, ...]`` (or a tree of them) of the envs that wait for an action; N may be 0."""
        batch = self.ready_batch
        self._handed_ids = batch.env_ids.tolist()
        if not len(batch):
            return empty_columns(self._observation_space)
        return as_tree(batch.columns)

    def step(self, actions: Actions) -> list[Tree]:
        """Do one step in each env of the last ``ready_obs``.

        Args:
            actions: one action per env, as a list, array, tensor or tree ``[N, ...]``; or a mapping env id -> action.

        Returns:
            One tree per env with ``obs, reward, done, info, env_id``.

        Raises:
            AssertionError: another number of actions than envs.
        """
        env_ids = self._handed_ids if self._handed_ids is not None else self.ready_batch.env_ids.tolist()
        self._handed_ids = None
        return tree_timesteps(self.step_batch(batch_of_actions(actions, env_ids)))

    def as_dict_form(self) -> "V1View":
        """This manager with the v1 interface, which is the one that the workers speak."""
        return V1View(self)


class V1View:
    """The v1 interface of a manager with the v2 interface: ``ready_obs``, actions and timesteps keyed by env id.

    Everything else is the manager's own.
    """

    def __init__(self, manager: V2Interface) -> None:
        self._manager = manager

    @property
    def ready_obs(self) -> EnvBatch:
        return self._manager.ready_batch

    def step(self, actions: Mapping[int, Any]) -> TimestepBatch:
        return self._manager.step_batch(actions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)
