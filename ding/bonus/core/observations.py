"""Observations as a user gives them: one, or several on a new first axis."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ding.bonus.common import AgentConfigError
from ding.data import EnvBatch
from ding.envs import BaseEnv
from ding.envs.env_wrappers import (
    FlattenObsWrapper,
    ObsNormWrapper,
    ObsTransposeWrapper,
    RewardNormWrapper,
    ScaledFloatFrameWrapper,
)
from ding.rl_utils.normalization import Normalization

_PURE = (FlattenObsWrapper, ObsTransposeWrapper, ScaledFloatFrameWrapper)


def inner_batch_of(obs: Any, env: BaseEnv) -> tuple[EnvBatch, bool] | None:
    """Return what the wrappers of an env make of observations of the env inside, and whether it was a single one.

    Returns:
        ``None`` where these are no such observations, or the wrappers depend on the steps before.
    """
    inner: Any = getattr(env, "gym_env", None)
    layers = []
    while isinstance(inner, (ObsNormWrapper, RewardNormWrapper)) and inner.deferred:
        inner = inner.env
    while isinstance(inner, _PURE):
        layers.append(inner)
        inner = inner.env
    if not layers:
        return None
    given = obs.detach().cpu().numpy() if isinstance(obs, torch.Tensor) else obs
    space = inner.observation_space
    is_single = space.contains(given)
    rows = [given] if is_single else list(given) if isinstance(given, (list, tuple, np.ndarray)) else []
    if not rows or not all(space.contains(row) for row in rows):
        return None
    for layer in reversed(layers):
        rows = [layer.observation(row) for row in rows]
    return EnvBatch(np.arange(len(rows)), torch.from_numpy(np.stack(rows))), is_single


def normalized_batch(batch: EnvBatch, statistics: Normalization) -> EnvBatch:
    """Return a batch of observations normalised as in training, where the envs have ``obs_norm``."""
    if statistics.obs_constants() is None:
        return batch
    obs = statistics.normalized_obs(np.asarray(batch.columns))
    return EnvBatch.unchecked(batch.env_ids, torch.from_numpy(obs))


def batch_of(obs: Any, space: "spaces.Space[Any]") -> tuple[EnvBatch, bool]:
    """Return observations as a batch of N environments, and whether it was a single one.

    Args:
        obs: array (or list) ``[*shape]`` or ``[N, *shape]``; for a dict space, a dict of such.
        space: of one observation.

    Raises:
        AgentConfigError: the shape is neither.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, Mapping) or set(obs) != set(space.spaces):
            shown = sorted(obs) if isinstance(obs, Mapping) else type(obs).__name__
            raise AgentConfigError(f"an observation of this env has the keys {sorted(space.spaces)}, got {shown}")
        parts = {name: batch_of(value, space.spaces[name]) for name, value in obs.items()}
        singles = {single for _, single in parts.values()}
        if len(singles) != 1:
            raise AgentConfigError("some parts of the observation have a batch axis and others have none")
        count = len(next(iter(parts.values()))[0])
        return EnvBatch(np.arange(count), {name: part.columns for name, (part, _) in parts.items()}), singles.pop()
    array = np.asarray(obs.detach().cpu() if isinstance(obs, torch.Tensor) else obs)
    shape = space.shape or ()
    if array.shape != shape and array.shape[1:] != shape:
        raise AgentConfigError(
            f"an observation of this env has the shape {list(shape)}, several have [N, ...] before it; "
            f"got {list(array.shape)}"
        )
    is_single = array.shape == shape
    rows = np.ascontiguousarray(array[None] if is_single else array)
    if not len(rows):
        raise AgentConfigError("predict needs at least one observation, got none")
    if rows.dtype.kind == "f":
        rows = rows.astype(np.float32, copy=False)
    return EnvBatch(np.arange(len(rows)), torch.from_numpy(rows)), is_single
