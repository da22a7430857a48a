"""Defaults of an agent that fit the spaces of its env."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from ding.bonus.common import AgentConfigError
from ding.envs import BaseEnv
from ding.envs.env.actions import ActionMapping, why_not
from ding.envs.env.spaces import tree_of
from ding.utils import MODEL_REGISTRY, POLICY_REGISTRY
from ding.utils.nested import Tree, map_leaves
from ding.utils.signature import takes_argument

VECTOR_SIZES = [128, 128, 64]
# The last value is the width of the heads of actors and critics.
IMAGE_SIZES = [32, 64, 64, 64]
DEFAULT_WRAPPERS = [{"type": "eval_episode_return"}]


def wrappers_for(space: "spaces.Space[Any]") -> list[dict[str, Any]]:
    """Return wrappers that convert observations of this space to network inputs: vectors, images, or dicts of them."""
    if isinstance(space, spaces.Box) and len(space.shape) == 3:
        transpose = [{"type": "obs_transpose"}] if _channels_last(space.shape) else []
        return transpose + ([{"type": "scaled_float_frame"}] if space.dtype == np.uint8 else [])
    return [] if _is_input(space) else [{"type": "flatten_obs"}]


def fitted_config(
    env: BaseEnv,
    kinds: tuple[str, ...],
    algorithm: str,
    names_action_space: bool = False,
    encodes_vectors: bool = True,
) -> dict[str, Any]:
    """Return the sections ``env`` and ``policy`` for an env with vector, image or dict observations.

    Args:
        env: Env of the agent.
        kinds: Kinds of action spaces that the algorithm supports.
        algorithm: Name of the algorithm, for messages.
        names_action_space: Whether policy and model have a key ``action_space``.
        encodes_vectors: Whether the network can encode vectors.

    Raises:
        AgentConfigError: The algorithm does not support the action space.
    """
    obs, action = env.observation_space, ActionMapping(env.action_space)
    kind = action.kind
    if kind is None:
        raise AgentConfigError(why_not(env.action_space))
    if kind not in kinds:
        raise AgentConfigError(
            f"{algorithm} needs a {' or '.join(kinds)} action space, but that of the env is {env.action_space}"
        )
    model: dict[str, Any] = {"obs_shape": obs_shape_of(obs), "action_shape": action.network_shape}
    if isinstance(obs, spaces.Box) and (encodes_vectors or len(obs.shape) == 3):
        model["encoder_hidden_size_list"] = list(IMAGE_SIZES if len(obs.shape) == 3 else VECTOR_SIZES)
    section: dict[str, Any] = {"collector_env_num": 8, "evaluator_env_num": 5, "n_evaluator_episode": 5}
    policy: dict[str, Any] = {"model": model}
    if names_action_space:
        model["action_space"] = policy["action_space"] = kind
    if kind == "continuous":
        section["act_scale"] = "auto"
    return {"env": {**section, **stop_value_of(env)}, "policy": policy}


def model_section(policy_type: str, model: Mapping[str, Any], written: Collection[str]) -> dict[str, Any]:
    """Return the section ``policy.model`` without keys that a user-defined network does not accept.

    Args:
        policy_type: Registered type of the policy, which names the network if ``model`` does not.
        model: Keys derived from the env, and keys of the user.
        written: Keys of the user, which are kept.
    """
    network = model if "type" in model else _own_default_network(policy_type.removesuffix("_command"))
    if network is None:
        return dict(model)
    made = MODEL_REGISTRY.class_of(network)
    return {key: value for key, value in model.items() if key in written or takes_argument(made, key)}


def _own_default_network(policy_type: str) -> dict[str, Any] | None:
    """Return the default network type of a user-defined policy, and its modules; ``None`` for built-in ones."""
    policy = POLICY_REGISTRY.get(policy_type, None)
    method = getattr(policy, "default_model", None)
    if policy is None or getattr(method, "__module__", "ding").startswith("ding."):
        return None
    # The method needs no state: it returns a class name before a network exists.
    type_, modules = policy.default_model(object.__new__(policy))
    return {"type": type_, "import_names": modules}


def obs_shape_of(space: "spaces.Space[Any]") -> Tree:
    """Return the shape of observations: an int, a list, or a dict of them."""
    return map_leaves(_shape_of, tree_of(space, tuples=False))


def _shape_of(space: "spaces.Space[Any]") -> int | list[int]:
    shape = list(space.shape or ())
    return shape[0] if len(shape) == 1 else shape


def get_hybrid_shape(action_space: "spaces.Dict | spaces.Tuple[Any]") -> dict[str, Any]:
    """Return ``{'action_type_shape', 'action_args_shape'}`` of a hybrid action space."""
    shape: dict[str, Any] = ActionMapping(action_space).network_shape
    return shape


def stop_value_of(env: BaseEnv) -> Mapping[str, float]:
    """Return ``{'stop_value'}``, the mean return at which Gymnasium considers the env solved, if defined."""
    threshold = getattr(getattr(env, "spec", None), "reward_threshold", None)
    return {} if threshold is None else {"stop_value": float(threshold)}


def _is_input(space: "spaces.Space[Any]") -> bool:
    if isinstance(space, spaces.Dict):
        return all(isinstance(part, spaces.Box) and _is_input(part) for part in space.spaces.values())
    if not isinstance(space, spaces.Box):
        return False
    return len(space.shape) == 1 or (len(space.shape) == 3 and not _channels_last(space.shape))


def _channels_last(shape: tuple[int, ...]) -> bool:
    return shape[2] in (1, 3, 4) and shape[0] > shape[2]
