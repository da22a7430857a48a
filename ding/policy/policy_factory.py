"""Random policies, for filling a buffer before the first update."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import numpy as np
import torch
from easydict import EasyDict

from ding.data import EnvBatch, batched
from ding.data.roles import CollectMode
from ding.policy import _modes
from ding.policy._action_sampling import ActionSampler, Space, is_space
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
        a list of spaces (with a ``logit`` ``[agents, actions]``), else a tensor of the space's shape. An
        ``action_mask`` in the observation is obeyed.
        """
        columns = data.columns
        mask = columns.get("action_mask") if isinstance(columns, dict) else None
        spaces = self._space if isinstance(self._space, (list, tuple)) else None
        output: dict[str, Any] = {}
        if mask is not None and (spaces is not None or is_space(self._space, "Discrete")):
            mask = torch.as_tensor(mask)
            output["action"] = self._sampler.sample_masked(mask)
            if spaces is not None:
                output["logit"] = torch.zeros(mask.shape).masked_fill_(mask <= 0, -1e8)
            else:
                output["action"] = output["action"].reshape(len(data), -1)
        else:
            output["action"] = self._sampler.sample(len(data))
            if spaces is not None and is_space(spaces[0], "Discrete"):
                output["logit"] = torch.ones(len(data), len(spaces), int(spaces[0].n))
        return EnvBatch(data.env_ids, output)


class PolicyFactory:
    """Makes policies that are not learned."""

    random_collect_function = _modes.random_collect_function

    @staticmethod
    def get_random_policy(
        policy: CollectMode, action_space: Space | None = None, forward_fn: Callable[..., Any] | None = None
    ) -> CollectMode:
        """The collect mode ``policy`` with random actions in place of its own.

        Args:
            policy: a ``collect_function``; everything but ``forward`` and ``reset`` delegates to it.
            action_space: where the actions come from.
            forward_fn: draws the actions itself, in place of ``action_space``.

        Raises:
            PolicyUsageError: neither an action space nor a function was given (an ``AssertionError``).
        """
        if forward_fn is None:
            if action_space is None:
                raise PolicyUsageError("a random policy needs an action_space or a forward_fn, both are None")
            forward_fn = RandomPolicy(action_space).forward
        random_policy = _modes.random_collect_function(
            forward_fn, policy.process_transition, policy.get_train_sample, _reset_nothing, policy.get_attribute
        )
        # A collect mode without a state: a collector asks for nothing else.
        return cast(CollectMode, random_policy)


def _reset_nothing(data_id: list[int] | None = None) -> None:
    """A random policy has no state."""


class HasActionSpace(Protocol):
    """An env manager, or an env, as far as random actions need it."""

    @property
    def action_space(self) -> Any:
        """The space of the actions of one environment."""


def get_random_policy(cfg: EasyDict, policy: CollectMode, env: HasActionSpace) -> CollectMode:
    """A random policy over ``env.action_space``, or ``policy`` itself where its training data holds its own outputs
    (``cfg.policy.transition_with_policy_data``).
    """
    return warm_up_mode(cfg.policy, policy, env)


def warm_up_mode(policy_cfg: Mapping[str, Any], policy: CollectMode, env: HasActionSpace) -> CollectMode:
    """:func:`get_random_policy` of the section ``policy`` of a config."""
    if policy_cfg.get("transition_with_policy_data", False):
        return policy
    return PolicyFactory.get_random_policy(policy, action_space=env.action_space)
