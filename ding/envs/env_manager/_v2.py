"""The v2 interface of an env manager: stacked observations, lists of actions, and lists of timestep trees."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from easydict import EasyDict
from gymnasium import spaces

from ding.data import EnvBatch, TimestepBatch
from ding.data.columns import num_rows
from ding.envs.contract import Obs
from ding.envs.env.spaces import tree_of
from ding.envs.env_manager._abstract import AbstractEnvManager
from ding.utils import make_key_as_identifier, remove_illegal_item
from ding.utils.nested import map_leaves

Actions: TypeAlias = Mapping[Any, Any] | Sequence[Any] | np.ndarray | torch.Tensor


def tree_timesteps(batch: TimestepBatch) -> list[EasyDict]:
    """Return one tree with ``obs, reward, done, info, env_id`` per env; ``done`` and ``env_id`` are NumPy scalars.

    Keys of ``info`` become identifiers, and its string values are dropped.
    """
    trees = []
    for env_id, step in batch.items():
        info = make_key_as_identifier(remove_illegal_item(step.info)) if isinstance(step.info, dict) else step.info
        done = np.bool_(step.done)
        trees.append(EasyDict(obs=step.obs, reward=step.reward, done=done, info=info, env_id=np.int64(env_id)))
    return trees


def empty_columns(space: spaces.Space[Any]) -> Obs:
    """Return observations of zero envs: an array ``[0, *shape]``, or a tree of such arrays."""
    columns = map_leaves(_no_rows, tree_of(space, tuples=False))
    return EasyDict(columns) if isinstance(columns, dict) else columns


def _no_rows(space: spaces.Space[Any]) -> np.ndarray:
    return np.empty((0,), np.float32) if space.shape is None else np.empty((0, *space.shape), space.dtype)


def batch_of_actions(actions: Actions, env_ids: Sequence[int]) -> EnvBatch:
    """Return the actions with the ids of their envs.

    Args:
        actions: Mapping from env id to action, or a list, array, tensor or dict of columns in the order of ``env_ids``.
        env_ids: Envs of the last returned observations.

    Raises:
        AssertionError: The number of actions differs from the number of envs.
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
    """Adds the v2 interface to a manager with the v1 interface, which follows it in the order of base classes.

    Actions belong, by id, to the envs of the last read ``ready_obs``: an env that changed its state in between does not
    shift them.
    """

    _handed_ids: list[int] | None = None

    @property
    def ready_batch(self) -> EnvBatch:
        """``ready_obs`` of the v1 interface."""
        batch: EnvBatch = super().ready_obs  # type: ignore[safe-super]
        return batch

    def step_batch(self, actions: Mapping[int, Any]) -> TimestepBatch:
        """``step`` of the v1 interface."""
        timesteps: TimestepBatch = super().step(actions)  # type: ignore[safe-super]
        return timesteps

    @property
    def ready_obs(self) -> Obs:
        """Observations ``[N, ...]`` (or a tree of them) of the envs that wait for an action; N may be 0."""
        batch = self.ready_batch
        self._handed_ids = batch.env_ids.tolist()
        if not len(batch):
            return empty_columns(self.observation_space)
        columns = batch.columns
        return EasyDict(columns) if isinstance(columns, dict) else columns

    def step(self, actions: Actions) -> list[EasyDict]:
        """Step each env of the last ``ready_obs``.

        Args:
            actions: One action per env, as a list, array, tensor or tree ``[N, ...]``; or a mapping from env id to
                action.

        Returns:
            One tree per env with ``obs, reward, done, info, env_id``.

        Raises:
            AssertionError: The number of actions differs from the number of envs.
        """
        env_ids = self._handed_ids if self._handed_ids is not None else self.ready_batch.env_ids.tolist()
        self._handed_ids = None
        return tree_timesteps(self.step_batch(batch_of_actions(actions, env_ids)))

    def _v1(self) -> "V1View":
        return self.as_dict_form()

    def as_dict_form(self) -> "V1View":
        """Return this manager with the v1 interface, which the workers use."""
        return V1View(self)


class V1View:
    """The v1 interface of a manager with the v2 interface: ``ready_obs``, actions and timesteps keyed by env id.

    All other attributes are the manager's.
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
