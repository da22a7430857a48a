"""Random policies, for filling a buffer before the first update."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from easydict import EasyDict
from gymnasium import spaces

from ding.data import EnvBatch, batched, is_batched
from ding.data.roles import CollectMode
from ding.envs.env.actions import ActionMapping
from ding.policy._acting import modes
from ding.policy._action_sampling import ActionSampler, Space, is_space
from ding.policy.action_kind import HasActionSpace, acts_in_unit_range
from ding.policy.errors import PolicyUsageError


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
            forward_fn, policy.process_transition, policy.get_train_sample, reset, policy.get_attribute
        )
        # A collect mode without a state: a collector asks for nothing else.
        return cast(CollectMode, random_policy)


def _reset_nothing(data_id: list[int] | None = None) -> None:
    """A random policy has no state."""


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


def _in_form(action: Any, own: Any) -> Any:
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
        wanted: Any = action_space
    else:
        wanted = mapping.policy_space
    return _in_unit_range(wanted) if acts_in_unit_range(policy) else wanted


def _in_unit_range(space: Any) -> Any:
    """The space with each Box in [-1, 1]."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _in_unit_range(part) for key, part in space.spaces.items()})
    return spaces.Box(-1.0, 1.0, space.shape, np.float32) if isinstance(space, spaces.Box) else space
