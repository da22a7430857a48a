"""Observations of an env as tensors, and their conversion by its wrappers: the first part of an exported policy."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces

from ding.bonus.common import AgentConfigError
from ding.envs.env.spaces import AnySpace, tree_of
from ding.envs.env_wrappers import FlattenObsWrapper, ObsTransposeWrapper, ScaledFloatFrameWrapper
from ding.rl_utils.normalization import ObsConstants
from ding.utils.nested import Tree, iter_along, iter_nested, iter_paths, with_leaves

Step: TypeAlias = Callable[[Any], Any]

# Range of the test observations for a file, if the space has wider bounds or none.
_MODERATE = 1.0


class ObsForm:
    """Form in which an exported policy takes N observations of a space.

    A tensor ``[N, *shape]``; for a ``Dict`` a dict of tensors by name, for a ``Tuple`` a tuple of tensors; for nested
    spaces a dict by the names of the parts, joined by dots. Floats are float32, discrete parts int64.

    Args:
        space: Space of one observation.

    Attributes:
        names: Names of the tensors, in their order; ``['obs']`` for a single one.

    Raises:
        AgentConfigError: A part of the space is neither an array nor a number.
    """

    def __init__(self, space: AnySpace) -> None:
        self.space = space
        self._tree = tree_of(space)
        self._leaves = list(_leaves(space))
        self.names = [name for name, _ in self._leaves]
        is_tuple = isinstance(self._tree, tuple) and not any(isinstance(part, (dict, tuple)) for part in self._tree)
        self._form = "tuple" if is_tuple else "dict" if isinstance(space, (spaces.Dict, spaces.Tuple)) else "one"
        if self._form == "one":
            self.names = ["obs"]

    def tensors(self, given: Any) -> list[torch.Tensor]:
        """Return the tensors of observations in this form, in the order of :attr:`names`."""
        if self._form == "one":
            return [given]
        return [given[name] for name in self.names] if self._form == "dict" else list(given)

    def joined(self, tensors: Sequence[Any]) -> Tree:
        """Return the inverse of :meth:`tensors`."""
        if self._form == "one":
            return tensors[0]
        return dict(zip(self.names, tensors)) if self._form == "dict" else tuple(tensors)

    def structured(self, given: Any) -> Tree:
        """Return the tensors in the dicts and tuples of the space."""
        return with_leaves(self._tree, iter(self.tensors(given)))

    def samples(self, count: int) -> list[np.ndarray]:
        """Return N random observations by part, with moderate values if the space is unbounded."""
        random = np.random.default_rng(0)
        return [_sampled(leaf, random, count) for _, leaf in self._leaves]

    def rows(self, columns: Sequence[np.ndarray]) -> list[Any]:
        """Return single observations from such samples, with the dicts and tuples of the space."""
        return [with_leaves(self._tree, iter(entries)) for entries in zip(*columns)]


def steps_of(layers: Sequence[Any], constants: ObsConstants | None) -> list[Step]:
    """Return functions that convert observations of the inner env to those of the network, on tensors ``[N, ...]``.

    Args:
        layers: Wrappers, innermost first.
        constants: Normalisation of the run.
    """
    steps = [_step_of(layer) for layer in layers]
    return [*steps, _normalising(constants)] if constants is not None else steps


def _step_of(layer: Any) -> Step:
    if isinstance(layer, FlattenObsWrapper):
        space = layer.env.observation_space
        return lambda obs: torch.cat(list(_flat(space, obs)), dim=-1)
    if isinstance(layer, ObsTransposeWrapper):
        return _channels_first
    assert isinstance(layer, ScaledFloatFrameWrapper)
    bias, scale = float(layer.bias), float(layer.scale)
    return lambda obs: (obs.to(torch.float32) - bias) / scale


def _channels_first(obs: Any) -> torch.Tensor:
    if isinstance(obs, tuple):
        return torch.stack(list(obs), dim=1).permute(0, 1, 4, 2, 3)
    tensor: torch.Tensor = obs.permute(0, 3, 1, 2)
    return tensor


def _normalising(constants: ObsConstants) -> Step:
    mean, std = torch.from_numpy(constants.mean), torch.from_numpy(constants.std)
    return lambda obs: ((obs.to(torch.float64) - mean) / std).clamp(constants.low, constants.high).to(torch.float32)


def _flat(space: AnySpace, obs: Any) -> Iterator[torch.Tensor]:
    """Yield float32 ``[N, size]`` of each part; discrete parts are one-hot."""
    tree = tree_of(space)
    for part, column in zip(iter_nested(tree), iter_along(tree, obs)):
        if isinstance(part, spaces.Discrete):
            yield _one_hot(column, int(part.start), int(part.n))
        elif isinstance(part, spaces.MultiDiscrete):
            columns = column.reshape(column.shape[0], -1)
            for number, (start, count) in enumerate(zip(part.start.reshape(-1), part.nvec.reshape(-1))):
                yield _one_hot(columns[:, number], int(start), int(count))
        else:
            yield column.reshape(column.shape[0], -1).to(torch.float32)


def _one_hot(column: torch.Tensor, start: int, count: int) -> torch.Tensor:
    return (column.reshape(-1, 1) == torch.arange(start, start + count)).to(torch.float32)


def _leaves(space: AnySpace) -> Iterator[tuple[str, AnySpace]]:
    for keys, part in iter_paths(tree_of(space), sequences=(tuple,)):
        name = ".".join(map(str, keys))
        if not isinstance(part, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
            where = f" (at {name!r})" if keys else ""
            raise AgentConfigError(f"only observations of arrays and numbers can be exported, found {part}{where}")
        yield name, part


def _sampled(space: AnySpace, random: np.random.Generator, count: int) -> np.ndarray:
    shape = (count, *(space.shape or ()))
    if isinstance(space, spaces.Discrete):
        return random.integers(space.start, space.start + space.n, shape)
    if isinstance(space, spaces.MultiDiscrete):
        return random.integers(space.start, space.start + space.nvec, shape)
    if isinstance(space, spaces.MultiBinary):
        return random.integers(0, 2, shape).astype(np.int8)
    assert isinstance(space, spaces.Box)
    if space.dtype.kind != "f":
        low, high = space.low.astype(np.int64), space.high.astype(np.int64)
        return random.integers(low, high, shape, endpoint=True).astype(space.dtype)
    low, high = space.low, space.high
    # As close to 0 as the bounds allow.
    least, most = np.clip(-_MODERATE, low, high), np.clip(_MODERATE, low, high)
    least, most = np.where(least < most, (least, most), (low, high))
    # Values that the space can represent, even if it is float16.
    return random.uniform(least, most, shape).astype(space.dtype).astype(np.float32)


def by_name(output: Any) -> list[tuple[str, Any]]:
    """Return the tensors of nested dicts and tuples with their names; ``action`` for a single one."""
    return [(".".join(map(str, keys)) or "action", value) for keys, value in iter_paths(output, sequences=(tuple,))]
