"""Parts of an action space, and their conversion from the policy's form to the env's; see :mod:`.actions`."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from ding.envs.env.spaces import AnySpace
from ding.utils.nested import map_leaves, map_nested


class DiscretePart:
    """Maps ints counted from 0 to those of a ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``.

    Attributes:
        space: Part of the env's space.
        counts: int64 ``[size]``, number of actions of each entry.
        start: int64 ``[size]``, smallest action of each entry.

    Args:
        maps: ``False``: actions are already numbered as in the env.
    """

    is_out_of_reach = False

    def __init__(self, space: AnySpace, maps: bool = True) -> None:
        self.space = space
        self._single = isinstance(space, spaces.Discrete)
        if isinstance(space, spaces.Discrete):
            self.counts, self.start = np.array([space.n], np.int64), np.array([space.start], np.int64)
        elif isinstance(space, spaces.MultiDiscrete):
            start = getattr(space, "start", np.zeros_like(space.nvec))
            self.counts, self.start = space.nvec.reshape(-1).astype(np.int64), start.reshape(-1).astype(np.int64)
        else:
            self.counts = np.full(math.prod(space.shape or ()), 2, np.int64)
            self.start = np.zeros_like(self.counts)
        if not maps:
            self.start = np.zeros_like(self.start)
        self.size = len(self.counts)
        self._first = int(self.start[0]) if self._single else 0
        self._shift = self.start if self.start.any() else None
        self._shape, self._dtype = tuple(space.shape or ()), np.dtype(space.dtype)

    @property
    def given(self) -> AnySpace:
        """Space of the policy's form, in the shape of the env's."""
        if self._shift is None:
            return self.space
        if self._single:
            return spaces.Discrete(int(self.counts[0]))
        return spaces.MultiDiscrete(self.counts.reshape(self.space.shape), dtype=np.dtype(self.space.dtype))

    def to_env(self, action: object) -> int | np.ndarray:
        """Return one action of the env: an int, or an array of the space's shape.

        Raises:
            TypeError: The number of ints differs.
        """
        if self._single:
            return as_index(action) + self._first
        return self._rows(as_array(action), ())

    def rows_to_env(self, column: object, count: int) -> np.ndarray:
        """Return N actions of the env, ``[N, *shape]``."""
        return self._rows(as_array(column), (count,))

    def _rows(self, actions: np.ndarray, rows: tuple[int, ...]) -> np.ndarray:
        shape = rows + self._shape
        if actions.size != math.prod(shape):
            raise _wrong_shape(actions, self.space, rows)
        if self._shift is not None:
            actions = actions.reshape(*rows, -1) + self._shift
        actions = actions.reshape(shape)
        return actions if actions.dtype == self._dtype else actions.astype(self._dtype)

    def to_policy(self, action: npt.ArrayLike) -> np.ndarray:
        """Return int64 ``[size]``, counted from 0."""
        return np.asarray(action).reshape(-1).astype(np.int64) - self.start

    def tensors_to_env(self, actions: torch.Tensor) -> torch.Tensor:
        """Return :meth:`rows_to_env` of a tensor ``[N, size]``, int64."""
        actions = actions.to(torch.int64) + torch.from_numpy(self.start)
        return actions.reshape(-1, *(self.space.shape or ()))

    def holds(self, actions: np.ndarray) -> np.ndarray:
        """Return which of N actions of the env are in the space, bool ``[N]``."""
        values = actions.reshape(len(actions), -1)
        result: np.ndarray = np.all((values >= self.start) & (values < self.start + self.counts), axis=1)
        return result


class BoxPart:
    """Maps vectors to a ``Box``: scaled from [-1, 1] to its bounds, or only clipped to them; integers are rounded.

    Attributes:
        space: Part of the env's space.
        size: Number of entries of a vector.
        scaled: Whether the vector is in [-1, 1].

    Args:
        maps: ``False``: no clipping.
    """

    def __init__(self, space: spaces.Box, scaled: bool, maps: bool = True) -> None:
        self.space, self.scaled, self._clips = space, scaled, maps
        self.size = math.prod(space.shape)
        self._whole = space.dtype.kind not in "f"
        kind = np.float64 if self._whole else space.dtype
        self._low, self._high = space.low.astype(kind), space.high.astype(kind)
        self._half = np.asarray(0.5 * (self._high - self._low)) if scaled else None

    @property
    def is_out_of_reach(self) -> bool:
        """Whether vectors in [-1, 1] do not cover the space."""
        return not self.scaled and bool((self._low < -1.0).any() or (self._high > 1.0).any())

    @property
    def given(self) -> AnySpace:
        """Space of the policy's form, in the shape of the env's."""
        if not self.scaled:
            return self.space
        return spaces.Box(-1.0, 1.0, self.space.shape, np.float32)

    @property
    def vector(self) -> spaces.Box:
        """Space of the policy's form as a vector ``[size]``."""
        if self.scaled:
            return spaces.Box(-1.0, 1.0, (self.size,), np.float32)
        if len(self.space.shape) == 1 and not self._whole:
            return self.space
        low, high = (bound.reshape(-1).astype(np.float32) for bound in (self._low, self._high))
        return spaces.Box(low, high, dtype=np.float32)

    def to_env(self, action: object) -> np.ndarray:
        """Return one action of the env, ``[*shape]``.

        Raises:
            TypeError: The number of entries differs.
        """
        return self._rows(as_array(action), ())

    def rows_to_env(self, column: object, count: int) -> np.ndarray:
        """Return N actions of the env, ``[N, *shape]``."""
        return self._rows(as_array(column), (count,))

    def _rows(self, actions: np.ndarray, rows: tuple[int, ...]) -> np.ndarray:
        shape = (*rows, *self.space.shape)
        if actions.shape != shape:
            if actions.size != math.prod(shape):
                raise _wrong_shape(actions, self.space, rows)
            actions = actions.reshape(shape)
        if actions.dtype.kind != "f" or self.scaled:
            actions = actions.astype(np.float32, copy=False)
        # Faster than numpy.clip by a factor, for a single action.
        if self._half is not None:
            actions = self._low + (np.minimum(np.maximum(actions, -1.0), 1.0) + 1.0) * self._half
        # Also after scaling: rounding may exceed a bound.
        if self._clips:
            actions = np.minimum(np.maximum(actions, self._low), self._high)
        # NumPy returns scalars for a Box without axes.
        return np.asarray(np.rint(actions) if self._whole else actions, dtype=self.space.dtype)

    def to_policy(self, action: npt.ArrayLike) -> np.ndarray:
        """Return the vector float32 ``[size]`` of an action of the env."""
        actions = np.asarray(action, dtype=self._low.dtype)
        if self._half is not None:
            # A Box with a single value ignores the policy.
            width = np.where(self._half > 0, self._half, 1.0)
            actions = np.where(self._half > 0, (actions - self._low) / width - 1.0, 0.0)
        return actions.reshape(-1).astype(np.float32)

    def tensors_to_env(self, actions: torch.Tensor) -> torch.Tensor:
        """Return :meth:`rows_to_env` of a tensor ``[N, size]``."""
        # Round halves as in `rows_to_env`.
        kind = np.float64 if self._whole else np.float32
        low, high = (torch.from_numpy(bound.astype(kind)) for bound in (self._low, self._high))
        actions = actions.reshape(-1, *self.space.shape)
        if self._half is not None:
            half = torch.from_numpy(self._half.astype(kind))
            actions = low + (actions.to(torch.float32).clamp(-1.0, 1.0) + 1.0) * half
        actions = torch.minimum(torch.maximum(actions, low), high)
        return actions.round().to(torch.int64) if self._whole else actions

    def holds(self, actions: np.ndarray) -> np.ndarray:
        """Return which of N actions of the env are in the space, bool ``[N]``; NaN is not."""
        inside = (actions >= self.space.low) & (actions <= self.space.high)
        values: np.ndarray = np.all(inside.reshape(len(actions), -1), axis=1)
        return values


class OtherPart:
    """Space without a network form, such as ``Text``: actions are passed on unchanged."""

    size = 0
    is_out_of_reach = False

    def __init__(self, space: AnySpace) -> None:
        self.space = self.given = space

    def to_env(self, action: object) -> object:
        """Return the action, with tensors as arrays."""
        return plain_action(action)

    def rows_to_env(self, column: Any, count: int) -> object:
        """Return the column, with tensors as arrays."""
        return map_leaves(_array, column)

    def tensors_to_env(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the tensor."""
        return actions

    def to_policy(self, action: Any) -> Any:
        """Return the action."""
        return action

    def holds(self, actions: Any) -> np.ndarray:
        """Return True for all N actions, bool ``[N]``, without a check."""
        return np.ones(len(actions), np.bool_)


Part: TypeAlias = DiscretePart | BoxPart | OtherPart


def as_index(action: object) -> int:
    """Return a discrete action as an int.

    Raises:
        TypeError: The action is not a single number.
    """
    if isinstance(action, (int, np.integer)):
        return int(action)
    array = as_array(action)
    if array.size != 1:
        raise TypeError(f"a discrete action must be a single int, found an array of shape {array.shape}")
    return int(array.item())


def as_array(action: object) -> np.ndarray:
    """Convert a number, a tensor, or a list of them to an array.

    Raises:
        TypeError: The action has another type.
    """
    if isinstance(action, np.ndarray):
        return action
    if isinstance(action, torch.Tensor):
        return action.detach().cpu().numpy()
    if isinstance(action, (tuple, list)):
        return np.asarray([as_array(one) for one in action])
    if isinstance(action, (int, float, np.generic)):
        return np.asarray(action)
    raise TypeError(f"an action must be an int, an array, a tensor, a dict or a tuple, not {type(action).__name__}")


def _array(leaf: npt.ArrayLike) -> np.ndarray:
    return leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)


def plain_action(action: Any) -> object:
    """Convert an action of an unknown space: single int64 numbers to ints, tensors to arrays, per entry."""
    if isinstance(action, Mapping):
        return {key: plain_action(value) for key, value in action.items()}
    if isinstance(action, (tuple, list)):
        return tuple(plain_action(value) for value in action)
    if isinstance(action, str):
        return action
    array = as_array(action)
    if array.ndim == 0 or (array.shape == (1,) and array.dtype == np.int64):
        return array.item()
    return array


def from_sample(sample: object) -> object:
    """Convert a sample of an action space to the form of policies: ints become int64 ``(1,)``, per entry."""
    return map_nested(
        lambda leaf: np.array([leaf], dtype=np.int64) if isinstance(leaf, (int, np.integer)) else leaf, sample
    )


def _wrong_shape(actions: np.ndarray, space: AnySpace, rows: tuple[int, ...]) -> TypeError:
    expected = (*rows, *(space.shape or ()))
    return TypeError(f"actions of the space {space} have the shape {expected}, found an array of shape {actions.shape}")
