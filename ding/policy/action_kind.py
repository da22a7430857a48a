"""Whether a policy acts as its env asks for, before the first step of a run."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np
from gymnasium import spaces

from ding.config.errors import ConfigValueError
from ding.data.roles import CollectMode, attribute_of, only_declared
from ding.envs.env.actions import ActionMapping, why_not
from ding.model import PDQN, DiscreteQAC
from ding.model.template.q_model import QModel
from ding.utils import one_time_warning

_KINDS = {
    "regression": "continuous",
    "reparameterization": "continuous",
    "continuous": "continuous",
    "hybrid": "hybrid",
    "discrete": "discrete",
}


class HasActionSpace(Protocol):
    """An env, or an env manager. One that maps the actions of policies has an ``action_mapping``, too."""

    @property
    def action_space(self) -> object:
        """The space of the actions of one env."""


def check_action_kind(policy_type: str, model: object, env: HasActionSpace, in_unit_range: bool = False) -> None:
    """Compare the actions of a network with those of the env: discrete, continuous, or a hybrid of both.

    Args:
        policy_type: ``policy.type``, for the message.
        model: the network; only one of ours is judged.
        env: an env or env manager.
        in_unit_range: whether continuous actions lie in [-1, 1]; a warning says so where an env of gymnasium has other
            bounds to which they are not scaled.

    Raises:
        ConfigValueError: the kinds differ, or the sizes of a hybrid action do; or no network acts in such a space.
    """
    wanted, policy_type = _action_kind_of(model), policy_type.removesuffix("_command")
    mapping: ActionMapping | None = getattr(env, "action_mapping", None)
    space = env.action_space
    if wanted is None or not isinstance(space, spaces.Space):
        return
    # What the actions of an own env mean is its own affair; only their kind is known.
    found = mapping or ActionMapping(space, maps=False)
    if found.kind is None:
        if mapping is not None:
            raise ConfigValueError(f"policy.type {policy_type!r}: {why_not(mapping.space)}")
        return
    if wanted != found.kind:
        raise ConfigValueError(
            f"policy.type {policy_type!r} has {wanted} actions here (network {type(model).__name__}), but the env has "
            f"{found.kind} ones: {found.space}; choose a policy for {found.kind} actions, or another env"
        )
    shape = getattr(model, "action_shape", None)
    if wanted == "hybrid" and isinstance(shape, Mapping):
        for name, size in found.network_shape.items():
            if is_shape(shape.get(name)) and as_tuple(shape[name]) != (size,):
                part = name.removesuffix("_shape")
                raise ConfigValueError(
                    f"policy.model.action_shape.{name} is {shape[name]}, but {part} of the env has {size}: "
                    f"{found.space}"
                )
    if in_unit_range and mapping is not None and any(part.is_out_of_reach for part in mapping.parts):
        boxes = [one.space for one in mapping.parts if isinstance(one.space, spaces.Box)]
        way = "set env.act_scale=True, which scales them to its bounds"
        if not all(np.isfinite([box.low, box.high]).all() for box in boxes):
            way = "scale them in a wrapper of your own (there are no bounds for env.act_scale)"
        one_time_warning(
            f"policy.type {policy_type!r} acts in [-1, 1], but actions of the env are {mapping.space}: the rest of it "
            f"is never reached; {way}"
        )


def check_collect_mode(policy_cfg: Mapping[str, Any], policy: CollectMode, env: HasActionSpace) -> None:
    """:func:`check_action_kind` of the collect mode of a policy, where it tells its network.

    Args:
        policy_cfg: section ``policy`` of the config.
        policy: the collect mode.
        env: an env or env manager.

    Raises:
        ConfigValueError: they do not fit.
    """
    model = attribute_of(policy, "model")
    if model is None:  # a policy of the user's
        return
    check_action_kind(str(policy_cfg.get("type", "")), model, env, acts_in_unit_range(policy))


def acts_in_unit_range(policy: CollectMode) -> bool:
    """Return ``acts_in_unit_range`` of the policy to which a collect mode belongs."""
    owner = getattr(policy.forward, "__self__", None)
    return bool(getattr(only_declared(owner), "acts_in_unit_range", False))


def _action_kind_of(model: object) -> str | None:
    if not type(model).__module__.startswith("ding."):
        return None
    if isinstance(model, (QModel, DiscreteQAC)):
        return "discrete"
    return "hybrid" if isinstance(model, PDQN) else _KINDS.get(str(getattr(model, "action_space", None)))


def is_shape(value: object) -> TypeGuard[int | Sequence[int]]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(isinstance(one, int) for one in value)
    return isinstance(value, int)


def as_tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)
