"""Conversion of actions of a policy to actions of an env.

policy's form   output of networks: a discrete action counts from 0, a continuous one is a vector, several discrete
                ones are a vector of ints (or a list with one int each), and a hybrid one is ``{'action_type',
                'action_args'}``. With ``act_scale`` continuous values are in [-1, 1].
env's form      an element of the env's action space.
part            a ``Discrete``, ``MultiDiscrete``, ``MultiBinary`` or ``Box`` of the space, which may be a (nested)
                ``Dict`` or ``Tuple`` of parts.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ding.envs.env.action_parts import BoxPart, DiscretePart, OtherPart, Part, as_array, plain_action
from ding.envs.env.spaces import AnySpace, tree_of
from ding.utils.names import did_you_mean
from ding.utils.nested import iter_along, iter_nested, map_nested, with_leaves

ActScale: TypeAlias = "bool | Literal['auto'] | None"
"""``True``: scale [-1, 1] to the bounds of each Box; ``'auto'``: of each bounded Box; otherwise no scaling."""

Kind: TypeAlias = Literal["discrete", "continuous", "hybrid"]

Tree: TypeAlias = "Part | dict[Any, Any] | tuple[Any, ...]"
"""A space: a part, or a dict or tuple of trees."""

HYBRID_KEYS = ("action_type", "action_args")


class ActionSpaceError(ValueError):
    """The action is not in the action space of its env."""


class ActionMapping:
    """Converts actions of a policy to those of an env, and back.

    An action has the policy's form, or the structure of the env's space with each part in the policy's form. Values out
    of bounds are clipped.

    Args:
        space: Action space of the env.
        scale: See :data:`ActScale`.
        maps: ``False`` for an env that maps actions itself: values are unchanged, only their form is converted.

    Attributes:
        space: Action space of the env.
        given_space: ``space`` with each part in the policy's form, in the same shape.
        parts: Parts in the order of the space.
        kind: ``discrete``, ``continuous`` or ``hybrid`` (one ``Discrete`` and some ``Box``); ``None`` if no network
            supports the space.

    Raises:
        ValueError: ``scale=True`` with an unbounded Box, or ``scale`` is invalid.
    """

    def __init__(self, space: AnySpace, scale: ActScale = False, maps: bool = True) -> None:
        if scale not in (True, False, None, "auto"):
            hint = did_you_mean(str(scale), ["auto"])
            raise ValueError(f"act_scale must be True, False, 'auto' or None, not {scale!r}.{hint}")
        self.space = space
        self._tree = map_nested(lambda leaf: _part_of(leaf, space, scale, maps), tree_of(space))
        self.parts: tuple[Part, ...] = tuple(iter_nested(self._tree))
        # The only part of the space, as in most envs.
        self._whole = self._tree if isinstance(self._tree, Part) else None
        self.given_space: AnySpace = _given(self._tree)
        self.kind = self._kind()

    def _kind(self) -> Kind | None:
        kinds = [part for part in self.parts if isinstance(part, DiscretePart)]
        boxes = [part for part in self.parts if isinstance(part, BoxPart)]
        if not self.parts or len(kinds) + len(boxes) < len(self.parts):
            return None
        if not boxes or not kinds:
            return "continuous" if boxes else "discrete"
        return "hybrid" if len(kinds) == 1 and isinstance(kinds[0].space, spaces.Discrete) else None

    @property
    def passes_ints(self) -> bool:
        """Whether actions are ints that are passed to the env unchanged."""
        return isinstance(self.space, spaces.Discrete) and self.given_space is self.space

    # spaces for networks

    @property
    def policy_space(self) -> AnySpace:
        """Space of the policy's form: ``Discrete``, ``MultiDiscrete`` or ``Box`` of one axis, or a ``Dict`` of
        ``action_type`` and ``action_args``; :attr:`given_space` if :attr:`kind` is ``None``.
        """
        counts = [int(count) for part in self.parts if isinstance(part, DiscretePart) for count in part.counts]
        boxes = [part.vector for part in self.parts if isinstance(part, BoxPart)]
        if self.kind == "hybrid":
            return spaces.Dict({"action_type": spaces.Discrete(counts[0]), "action_args": _joined(boxes)})
        if self.kind == "continuous":
            return _joined(boxes)
        if self.kind == "discrete":
            single = len(self.parts) == 1 and isinstance(self.parts[0].space, spaces.Discrete)
            return spaces.Discrete(counts[0]) if single else spaces.MultiDiscrete(counts)
        return self.given_space

    @property
    def network_shape(self) -> Any:
        """``action_shape`` of a network: an int, a list of ints, or ``{'action_type_shape', 'action_args_shape'}``;
        ``None`` if :attr:`kind` is ``None``.
        """
        space: Any = self.policy_space
        if self.kind == "discrete":
            return int(space.n) if isinstance(space, spaces.Discrete) else [int(count) for count in space.nvec]
        if self.kind == "continuous":
            return int(space.shape[0])
        if self.kind == "hybrid":
            kinds, numbers = (space[key] for key in HYBRID_KEYS)
            return {"action_type_shape": int(kinds.n), "action_args_shape": int(numbers.shape[0])}
        return None

    # actions

    def to_env(self, action: Any) -> object:
        """Convert one action to the env's form.

        Args:
            action: An int, an array, a tensor, or a dict, tuple or list of them.

        Raises:
            TypeError: The type or the number of entries is wrong.
        """
        if self._whole is not None:
            return self._whole.to_env(action)
        entries = self._entries(action, (tuple, list), lambda one: as_array(one).reshape(-1))
        return with_leaves(self._tree, (part.to_env(entry) for part, entry in zip(self.parts, entries)))

    def rows_to_env(self, columns: Any, count: int) -> object:
        """Convert N actions to the form of a vector env: an array ``[N, *shape]``, or a dict or tuple of arrays.

        Args:
            columns: An array or tensor ``[N, ...]``, a dict or tuple of them, or a list with one action per row.
            count: N.

        Raises:
            TypeError: The type or the number of entries is wrong.
        """
        if self._whole is not None:
            return self._whole.rows_to_env(columns, count)
        if isinstance(columns, list) and columns and isinstance(columns[0], (tuple, Mapping)):
            columns = _columns_of(columns)
        entries = self._entries(columns, (tuple,), lambda one: as_array(one).reshape(count, -1))
        return with_leaves(self._tree, (part.rows_to_env(entry, count) for part, entry in zip(self.parts, entries)))

    def tensors_to_env(self, action: Any) -> object:
        """Apply :meth:`rows_to_env` to tensors in the policy's form, returning tensors: for exported networks.

        Args:
            action: A tensor ``[N]`` or ``[N, size]``, or for a hybrid action a dict of ``action_type`` ``[N]`` and
                ``action_args`` ``[N, size]``.
        """
        entries = self._split(action, lambda one: one if one.ndim > 1 else one.unsqueeze(-1))
        whole = zip(self.parts, entries)
        return with_leaves(self._tree, (part.tensors_to_env(entry) for part, entry in whole))

    def to_policy(self, action: Any) -> object:
        """Convert an action of the env to the policy's form: int64 or float32 ``[size]``, or a dict of ``action_type``
        int64 ``(1,)`` and ``action_args``; if :attr:`kind` is ``None``, with the structure of the env's space.
        """
        entries = [part.to_policy(entry) for part, entry in zip(self.parts, iter_along(self._tree, action))]
        if self.kind is None:
            return with_leaves(self._tree, iter(entries))
        if self.kind != "hybrid":
            return np.concatenate(entries)
        numbers = [entry for part, entry in zip(self.parts, entries) if isinstance(part, BoxPart)]
        kind = next(entry for part, entry in zip(self.parts, entries) if isinstance(part, DiscretePart))
        return {"action_type": kind, "action_args": np.concatenate(numbers)}

    def check(self, action: object, env: str) -> None:
        """Raise an error if an action of the env is not in its space.

        Raises:
            ActionSpaceError: The message names env, action and space.
        """
        if not self.space.contains(action):
            raise _not_in_space(env, action, self.space)

    def check_rows(self, actions: Any, env_ids: npt.ArrayLike, env: str) -> None:
        """Raise an error if one of N actions of a vector env, one per entry of ``env_ids``, is not in the space.

        Raises:
            ActionSpaceError: The message names env, action and space.
        """
        for part, values in zip(self.parts, iter_along(self._tree, actions)):
            inside = part.holds(values)
            if not inside.all():
                row = int(inside.argmin())
                raise _not_in_space(f"env {np.asarray(env_ids)[row]} of {env}", values[row], part.space)

    # splitting into parts

    def _entries(self, action: Any, sequences: tuple[type, ...], flat: Callable[[Any], Any]) -> list[Any]:
        """Return the entry of each part; an action without the structure of the space is split."""
        if _has_structure(self._tree, action, sequences):
            return list(iter_along(self._tree, action))
        is_hybrid = isinstance(action, Mapping) and set(action) >= set(HYBRID_KEYS)
        if self.kind is None or is_hybrid != (self.kind == "hybrid") or (isinstance(action, Mapping) and not is_hybrid):
            keys = f" with the keys {sorted(map(str, action))}" if isinstance(action, Mapping) else ""
            raise TypeError(
                f"an action of type {type(action).__name__}{keys} does not fit the action space {self.space}"
            )
        return self._split(action, flat)

    def _split(self, action: Any, flat: Callable[[Any], Any]) -> list[Any]:
        """Split an action in the policy's form into the entries of each part, ``[..., size]``."""
        kind, numbers = [flat(action[key]) for key in HYBRID_KEYS] if self.kind == "hybrid" else (None, flat(action))
        entries, taken = [], 0
        for part in self.parts:
            if kind is not None and isinstance(part, DiscretePart):
                entries.append(kind)
            else:
                entries.append(numbers[..., taken : taken + part.size])
                taken += part.size
        if taken != numbers.shape[-1]:
            found = tuple(numbers.shape)
            raise TypeError(f"actions of the space {self.space} have {taken} entries, found an array of shape {found}")
        return entries


def why_not(space: object) -> str:
    """Return why no network of this library supports a space, with alternatives; empty if one does."""
    if not isinstance(space, spaces.Space) or ActionMapping(space).kind is not None:
        return ""
    return (
        f"no network acts in the action space {space}; what fits are Discrete, MultiDiscrete and MultiBinary parts, or "
        "Box parts, or one Discrete and some Box parts"
    )


def _part_of(space: AnySpace, whole: AnySpace, scale: ActScale, maps: bool) -> Part:
    if isinstance(space, spaces.Box):
        bounded = bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())
        if scale is True and not bounded:
            raise ValueError(f"act_scale=True scales actions to the bounds of the env, but its action space is {whole}")
        return BoxPart(space, bool(scale) and bounded, maps)
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return DiscretePart(space, maps)
    return OtherPart(space)


def _given(tree: Tree) -> AnySpace:
    if isinstance(tree, dict):
        return spaces.Dict([(key, _given(one)) for key, one in tree.items()])
    if isinstance(tree, tuple):
        return spaces.Tuple([_given(one) for one in tree])
    return tree.given


def _has_structure(tree: Tree, action: Any, sequences: tuple[type, ...]) -> bool:
    """Return whether an action has the dicts and tuples of a space; additional keys are allowed."""
    if isinstance(tree, dict):
        return isinstance(action, Mapping) and all(
            key in action and _has_structure(one, action[key], sequences) for key, one in tree.items()
        )
    if isinstance(tree, tuple):
        entries: Any = action if isinstance(action, sequences) else ()
        return len(entries) == len(tree) and all(
            _has_structure(one, entry, sequences) for one, entry in zip(tree, entries)
        )
    return not isinstance(action, Mapping)


def _columns_of(rows: Sequence[Any]) -> np.ndarray | dict[Any, Any] | tuple[Any, ...]:
    """Convert rows, each a dict or tuple, to one column per entry."""
    first = rows[0]
    if isinstance(first, Mapping):
        return {key: _columns_of([row[key] for row in rows]) for key in first}
    if isinstance(first, tuple):
        return tuple([_columns_of(entries) for entries in zip(*rows)])
    return np.stack([np.asarray(plain_action(row)) for row in rows])


def _joined(boxes: Sequence[spaces.Box]) -> spaces.Box:
    if len(boxes) == 1:
        return boxes[0]
    low, high = (np.concatenate([getattr(box, bound) for box in boxes]) for bound in ("low", "high"))
    return spaces.Box(low, high, dtype=np.float32)


def _not_in_space(env: str, action: object, space: AnySpace) -> ActionSpaceError:
    return ActionSpaceError(f"{env}: the action {action!r} is not in the action space {space}")
