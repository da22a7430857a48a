"""Observations passed by a user: one, or several on a new first axis."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from ding.bonus.common import AgentConfigError
from ding.data import EnvBatch
from ding.envs import BaseEnv
from ding.envs.contract import DataProblem, obs_reader
from ding.envs.env.norms import passes_observations
from ding.envs.env.spaces import tree_of
from ding.envs.env_wrappers import FlattenObsWrapper, ObsTransposeWrapper, ScaledFloatFrameWrapper
from ding.rl_utils.normalization import Normalization
from ding.utils.nested import iter_along, iter_nested, map_nested

_PURE = (FlattenObsWrapper, ObsTransposeWrapper, ScaledFloatFrameWrapper)


class ObsLayers(NamedTuple):
    """Wrappers of an env that convert single observations.

    Attributes:
        layers: Wrappers, innermost first; inside of them no other wrapper changes observations, up to ``barrier``.
        space: Observation space of the env inside of them.
        barrier: Next inner wrapper that may change observations, and may depend on earlier steps; if any.
    """

    layers: list[Any]
    space: "spaces.Space[Any]"
    barrier: Any


def obs_layers(env: BaseEnv) -> ObsLayers:
    """Return the wrappers of an env that can be applied to a single observation."""
    inner = getattr(env, "gym_env", None)
    layers: list[Any] = []
    space = env.observation_space
    while isinstance(inner, gymnasium.Wrapper):
        if isinstance(inner, _PURE):
            layers.insert(0, inner)
            space = inner.env.observation_space
        elif not passes_observations(inner):
            return ObsLayers(layers, space, inner)
        inner = inner.env
    return ObsLayers(layers, space, None)


def inner_batch_of(obs: Any, env: BaseEnv) -> tuple[EnvBatch, bool] | None:
    """Apply the wrappers of an env to observations of the inner env; return the result and whether it was a single one.

    Returns:
        ``None`` if the observations do not belong to the inner env, or the wrappers depend on earlier steps.
    """
    layers, space, _ = obs_layers(env)
    if not layers:
        return None
    given = obs.detach().cpu().numpy() if isinstance(obs, torch.Tensor) else obs
    # Arrays and lists of numbers are several observations, even if there is only one.
    rows = None if isinstance(space, spaces.Discrete) and np.ndim(given) else _rows_of([given], space)
    is_single = rows is not None
    if rows is None:
        rows = _rows_of(_several(given), space)
    if not rows:
        return None
    for layer in layers:
        rows = [layer.observation(row) for row in rows]
    return EnvBatch(np.arange(len(rows)), torch.from_numpy(np.stack(rows))), is_single


def _several(given: Any) -> list[Any]:
    """Return single observations from a list of them, or from a dict of arrays ``[N, ...]``."""
    if isinstance(given, Mapping):
        counts = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in iter_nested(given)}
        return [map_nested(itemgetter(row), given) for row in range(counts.pop())] if len(counts) == 1 else []
    return list(given) if isinstance(given, (list, tuple)) or np.ndim(given) else []


def _rows_of(given: list[Any], space: "spaces.Space[Any]") -> list[Any] | None:
    """Return observations in the form of their space; ``None`` if one is not in the space, ignoring Box bounds."""
    read, parts = obs_reader(space), tree_of(space)
    try:
        rows = [read(row) for row in given]
    except DataProblem:
        return None
    for row in rows:
        pairs = zip(iter_nested(parts), iter_along(parts, row))
        if not all(isinstance(part, spaces.Box) or part.contains(value) for part, value in pairs):
            return None
    return rows


def network_batch_of(obs: Any, env: BaseEnv, statistics: Normalization | None) -> tuple[EnvBatch, bool]:
    """Return observations in the form of the network, and whether there was a single one.

    Args:
        obs: Observations of the inner env, or of its wrappers; see :func:`batch_of`.
        env: The env.
        statistics: Statistics for normalisation as in training, if the envs have ``obs_norm``.

    Raises:
        AgentConfigError: The shape fits neither form.
    """
    batch, is_single = inner_batch_of(obs, env) or batch_of(obs, env.observation_space)
    if statistics is None or statistics.obs_constants() is None:
        return batch, is_single
    normalized = torch.from_numpy(statistics.normalized_obs(np.asarray(batch.columns)))
    return EnvBatch.unchecked(batch.env_ids, normalized), is_single


def batch_of(obs: Any, space: "spaces.Space[Any]") -> tuple[EnvBatch, bool]:
    """Return observations as a batch of N environments, and whether there was a single one.

    Args:
        obs: Array (or list) ``[*shape]`` or ``[N, *shape]``; for a dict space, a dict of these.
        space: Space of one observation.

    Raises:
        AgentConfigError: The shape fits neither form.
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
