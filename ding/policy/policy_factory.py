"""Random policies, for filling a buffer before the first update.

Spaces, of gymnasium or of the old gym, are distinguished by class name, so that the old gym need not be imported.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias, cast

import numpy as np
import torch
from easydict import EasyDict
from gymnasium import spaces

from ding.data import EnvBatch, batched, is_batched
from ding.data.columns import Columns
from ding.data.roles import CollectMode, Samples
from ding.envs.env.actions import ActionMapping
from ding.envs.env.spaces import map_space
from ding.policy._acting import modes
from ding.policy.action_kind import HasActionSpace, acts_in_unit_range
from ding.policy.errors import PolicyDataError, PolicyUsageError
from ding.torch_utils.math_helper import usable_mask


class SingleSpace(Protocol):
    """A space of gymnasium or the old gym, as far as all have the same."""

    def seed(self, seed: Any = None) -> object:
        """Seed the generator of the space."""

    def sample(self) -> object:
        """Draw one action."""


Space: TypeAlias = SingleSpace | Sequence[Any]
"""A space, or one space per agent."""


def is_space(space: object, name: str) -> bool:
    """Whether ``space`` is of the class ``name`` of gymnasium or gym, or of a subclass."""
    return any(cls.__name__ == name for cls in type(space).__mro__)


class ActionSampler:
    """Draws actions of one space for ``n`` environments, in the form of a policy: discrete ones count from 0.

    Args:
        space: an action space, a list of spaces (one per agent) or a dict space.
        rng: where all randomness comes from; the space's own generator is left alone.
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.space = space
        self._rng = rng
        self._draw = self._drawer(space)

    def sample(self, n: int) -> Columns:
        """``n`` actions as a column.

        ``Discrete`` int64 ``[n, 1]``; ``MultiDiscrete`` a list of n lists of int64 ``(1,)`` tensors; ``Box`` its dtype
        (float32 for float64) ``[n, *shape]``; a hybrid of ``action_type`` and ``action_args`` a dict of both; several
        spaces of one shape ``[n, spaces, ...]``; ``Tuple`` a list of n tuples.
        """
        return self._draw(n)

    def sample_masked(self, mask: torch.Tensor) -> torch.Tensor:
        """int64 actions ``[...]``, uniform among those that ``mask`` ``[..., N]`` allows (all, if it allows none)."""
        allowed = usable_mask(mask) > 0
        scores = torch.from_numpy(self._rng.random(tuple(mask.shape)))
        return scores.masked_fill_(~allowed, -1.0).argmax(-1)

    def _drawer(self, space: Any) -> Callable[[int], Columns]:
        if isinstance(space, (list, tuple)):
            return self._stack([self._drawer(part) for part in space])
        if is_space(space, "Dict") and set(space.spaces) == {"action_type", "action_args"}:
            drawn = {key: self._drawer(part) for key, part in space.spaces.items()}
            return lambda n: {key: drawer(n) for key, drawer in drawn.items()}
        if is_space(space, "Dict"):
            return self._stack([self._drawer(part) for part in space.spaces.values()])
        if is_space(space, "Tuple"):
            drawers = [self._drawer(part) for part in space.spaces]
            return lambda n: list(zip(*[drawer(n) for drawer in drawers]))
        if is_space(space, "Discrete"):
            return lambda n: torch.from_numpy(self._rng.integers(0, int(space.n), size=(n, 1)))
        if is_space(space, "MultiDiscrete"):
            return self._multi_discrete(space)
        if is_space(space, "Box"):
            return lambda n: self._box(space, n)
        return self._one_by_one(space)

    def _stack(self, drawers: Sequence[Callable[[int], Any]]) -> Callable[[int], torch.Tensor]:
        """One column ``[n, spaces, ...]`` of several spaces; a dim of one action is dropped."""

        def draw(n: int) -> torch.Tensor:
            parts = [drawer(n) for drawer in drawers]
            if len({tuple(part.shape) for part in parts}) != 1:
                shapes = [tuple(part.shape[1:]) for part in parts]
                raise PolicyDataError(f"random actions of several spaces need one shape, found {shapes}")
            if parts[0].shape[1:] == (1,):
                return torch.cat(parts, dim=1)
            return torch.stack(parts, dim=1)

        return draw

    def _multi_discrete(self, space: Any) -> Callable[[int], list[list[torch.Tensor]]]:
        sizes = np.asarray(space.nvec).reshape(-1)

        def draw(n: int) -> list[list[torch.Tensor]]:
            values = torch.from_numpy(self._rng.integers(0, sizes, size=(n, len(sizes))))
            return [list(row.unsqueeze(-1).unbind(0)) for row in values]

        return draw

    def _box(self, space: Any, n: int) -> torch.Tensor:
        shape = (n, *space.shape)
        if np.issubdtype(space.dtype, np.integer):
            low, high = space.low.astype(np.int64), space.high.astype(np.int64)
            whole = self._rng.integers(low, high, size=shape, endpoint=True)
            return torch.from_numpy(whole.astype(space.dtype))
        below, above = np.isfinite(space.low), np.isfinite(space.high)
        if below.all() and above.all():
            values = self._rng.uniform(space.low, space.high, size=shape)
        else:
            values = _unbounded(self._rng, space, below, above, shape)
        return torch.from_numpy(values.astype(np.float32))

    def _one_by_one(self, space: SingleSpace) -> Callable[[int], torch.Tensor]:
        """For spaces without a rule above: their own ``sample``, on a copy seeded from our generator."""
        own = copy.deepcopy(space)
        own.seed(int(self._rng.integers(2**31)))
        return lambda n: torch.from_numpy(np.stack([np.asarray(own.sample()) for _ in range(n)]))


def _unbounded(
    rng: np.random.Generator, space: Any, below: np.ndarray, above: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """As gymnasium does: normal without bounds, exponential from a single bound, uniform between two."""
    low = np.where(below, space.low, 0.0).astype(np.float64)
    high = np.where(above, space.high, 1.0).astype(np.float64)
    free = rng.standard_normal(shape)
    tail = rng.standard_exponential(shape)
    between = rng.uniform(np.minimum(low, high), high, size=shape)
    return np.where(below & above, between, np.where(below, low + tail, np.where(above, high - tail, free)))


class RandomPolicy:
    """Uniform random actions of one action space.

    Its randomness comes from a generator of its own that is seeded from torch's: a seeded run is reproducible, and the
    generator of the space is left alone.

    Args:
        action_space: a space of gymnasium or the old gym, a list of spaces (one per agent) or a dict space.
    """

    def __init__(self, action_space: Space) -> None:
        seed = int(torch.randint(2**62, ()))
        self._space = action_space
        self._sampler = ActionSampler(action_space, np.random.default_rng(seed))

    @batched
    def forward(self, data: EnvBatch, *args: Any, **kwargs: Any) -> EnvBatch:
        """``{env_id: obs}`` -> ``{env_id: {'action': ...}}``; other arguments are ignored.

        ``action`` is int64 ``(1,)`` for ``Discrete``, a list of int64 ``(1,)`` for ``MultiDiscrete``, ``[agents]`` for
        a list of spaces (with a ``logit`` ``[agents, actions]``), a dict for a hybrid of ``action_type`` and
        ``action_args``, else a tensor of the space's shape. Discrete actions count from 0, as those of a network. An
        ``action_mask`` in the observation is obeyed, ``[actions]`` or ``[agents, actions]``.
        """
        columns = data.columns
        mask = columns.get("action_mask") if isinstance(columns, dict) else None
        spaces = self._space if isinstance(self._space, (list, tuple)) else None
        output: dict[str, Any] = {}
        by_agent = mask is not None and mask.ndim == 3 and is_space(self._space, "MultiDiscrete")
        if mask is not None and (spaces is not None or by_agent or is_space(self._space, "Discrete")):
            mask = torch.as_tensor(mask)
            output["action"] = self._sampler.sample_masked(mask)
            if spaces is not None:
                output["logit"] = torch.zeros(mask.shape).masked_fill_(mask <= 0, -1e8)
            elif not by_agent:
                output["action"] = output["action"].reshape(len(data), -1)
        else:
            output["action"] = self._sampler.sample(len(data))
            if spaces is not None and is_space(spaces[0], "Discrete"):
                output["logit"] = torch.ones(len(data), len(spaces), int(spaces[0].n))
        return EnvBatch(data.env_ids, output)


class PolicyFactory:
    """Makes policies that are not learned."""

    random_collect_function = modes.random_collect_function

    @staticmethod
    def get_random_policy(
        policy: CollectMode, action_space: Space | None = None, forward_fn: Callable[..., Any] | None = None
    ) -> CollectMode:
        """The collect mode ``policy`` with random actions in place of its own.

        Where a transition keeps more of the policy's output than the action (recurrent states, the logit of a hybrid
        action), the policy acts, too: its states advance with the episode, and only its actions are replaced.

        Args:
            policy: a ``collect_function``; everything but ``forward`` delegates to it.
            action_space: where the actions come from.
            forward_fn: draws the actions itself, in place of ``action_space``.

        Raises:
            PolicyUsageError: neither an action space nor a function was given (an ``AssertionError``).
        """
        if forward_fn is None:
            if action_space is None:
                raise PolicyUsageError("a random policy needs an action_space or a forward_fn, both are None")
            forward_fn = RandomPolicy(action_space).forward
        reset: Callable[..., None] = _reset_nothing
        if _keeps_outputs(policy):
            forward_fn, reset = _beside(forward_fn, policy.forward), policy.reset
        random_policy = modes.random_collect_function(
            forward_fn,
            policy.process_transition,
            getattr(policy, "get_train_sample", _unchanged),
            reset,
            getattr(policy, "get_attribute", _no_attribute),
        )
        # A collect mode without a state: a collector asks for nothing else.
        return cast(CollectMode, random_policy)


def _reset_nothing(data_id: list[int] | None = None) -> None:
    """A random policy has no state."""


def _unchanged(transitions: Samples) -> Samples:
    """The train samples of a policy that does not make them."""
    return transitions


def _no_attribute(name: str) -> NoReturn:
    """The settings of a policy that has none.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"the policy has no attribute {name!r}")


def _keeps_outputs(policy: CollectMode) -> bool:
    get_attribute = getattr(policy, "get_attribute", None)
    try:
        return callable(get_attribute) and bool(get_attribute("keeps_outputs"))
    except (AttributeError, KeyError, NotImplementedError):
        # A policy of another kind than those of this package.
        return False


def _beside(draw: Callable[..., Any], forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward with the actions that ``draw`` gives, and what else ``forward`` puts out. Epsilon is 1 in there, as the
    actions are all random.
    """

    def certain(kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**kwargs, "eps": 1.0} if isinstance(kwargs.get("eps"), (int, float)) else kwargs

    def rows(data: Any, **kwargs: Any) -> dict[Any, Any]:
        own, drawn = forward(data, **certain(kwargs)), draw(data)
        return {key: _replaced(own[key], drawn[key]) for key in data}

    if not is_batched(forward):
        return rows

    @batched
    def columns(data: EnvBatch, **kwargs: Any) -> EnvBatch:
        own, drawn = forward(data, **certain(kwargs)), draw(data)
        return EnvBatch.unchecked(data.env_ids, _replaced(own.columns, drawn.columns))

    return columns


def _replaced(own: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a policy with other ones in their place, and actions in the form of its own."""
    return {**own, **drawn, "action": _in_form(drawn["action"], own.get("action"))}


def _in_form(action: Any, own: Any) -> object:
    if isinstance(own, Mapping) and isinstance(action, Mapping):
        return {key: _in_form(value, own.get(key)) for key, value in action.items()}
    if not isinstance(own, torch.Tensor):
        return action
    if isinstance(action, (list, tuple)):
        action = torch.as_tensor(np.asarray([np.asarray(one).reshape(-1) for one in action]))
    tensor = torch.as_tensor(action)
    return tensor.to(own.dtype).reshape(own.shape) if tensor.numel() == own.numel() else action


def get_random_policy(cfg: EasyDict, policy: CollectMode, env: HasActionSpace) -> CollectMode:
    """A random policy over ``env.action_space``, or ``policy`` itself where its training data holds its own outputs
    (``cfg.policy.transition_with_policy_data``).
    """
    return warm_up_mode(cfg.policy, policy, env)


def warm_up_mode(policy_cfg: Mapping[str, Any], policy: CollectMode, env: HasActionSpace) -> CollectMode:
    """:func:`get_random_policy` of the section ``policy`` of a config."""
    if policy_cfg.get("transition_with_policy_data", False):
        return policy
    return PolicyFactory.get_random_policy(policy, action_space=warm_up_space(policy_cfg, policy, env.action_space))


def warm_up_space(policy_cfg: Mapping[str, Any], policy: CollectMode, action_space: Any) -> Any:
    """Return the space of random actions with the form and the range of those that a policy puts out.

    Args:
        policy_cfg: section ``policy`` of the config.
        policy: the collect mode.
        action_space: of the env; where no network of ours acts in it, it is returned.
    """
    model = policy_cfg.get("model") or {}
    mapping = ActionMapping(action_space, maps=False) if isinstance(action_space, spaces.Space) else None
    hybrid = isinstance(model.get("action_shape"), Mapping)
    if mapping is None or mapping.kind is None or (mapping.kind == "hybrid") != hybrid:
        return action_space
    agents, shape = model.get("agent_num"), action_space.shape or ()
    if mapping.kind == "continuous" and agents is not None and shape[:1] == (agents,):
        wanted = action_space
    else:
        wanted = mapping.policy_space
    return _in_unit_range(wanted) if acts_in_unit_range(policy) else wanted


def _in_unit_range(space: Any) -> spaces.Space[Any]:
    """The space with each Box in [-1, 1]."""
    return map_space(
        lambda part: spaces.Box(-1.0, 1.0, part.shape, np.float32) if isinstance(part, spaces.Box) else part, space
    )
