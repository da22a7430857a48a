"""Loading the parts of a state by their names, and what to say of those that do not fit."""

import logging
from collections.abc import Mapping
from typing import Any

import torch

from ding.data.roles import StateDict
from ding.policy.errors import PolicyStateError, PolicyWeightsError
from ding.torch_utils.weight_checks import misfit

logger = logging.getLogger(__name__)

# What the learner keeps in its checkpoints beside the policy.
CHECKPOINT_COUNTERS = {"last_iter", "last_step"}


def load_parts(owner: object, parts: Mapping[str, Any], state: StateDict) -> None:
    """Load each part of a policy from the entry of its name.

    Networks are compared before any of them is changed. An optimiser whose groups have other numbers of parameters
    starts anew, with a warning: DI-engine optimises some networks together that are optimised apart here.

    Args:
        owner: the policy, for messages.
        parts: networks, optimisers and what else has a state, by name.
        state: what was saved; counters of the learner do not matter.

    Raises:
        PolicyStateError: the keys are not exactly those of ``parts``.
        PolicyWeightsError: parameters of a network are missing, unknown or have other shapes; the message lists them.
    """
    name = type(owner).__name__
    missing = [key for key in parts if key not in state]
    unknown = sorted(set(state) - parts.keys() - CHECKPOINT_COUNTERS)
    if missing or unknown:
        raise PolicyStateError(
            f"the learn state of {name} has the keys {[*parts]}: missing {missing}, unknown {unknown}"
        )
    own = {key: part.state_dict() for key, part in parts.items() if not isinstance(part, torch.optim.Optimizer)}
    networks = {key: weights for key, weights in own.items() if all(map(torch.is_tensor, weights.values()))}
    found = [text for key, weights in networks.items() if (text := misfit(state[key], weights, key))]
    if found:
        raise PolicyWeightsError(f"the state does not fit {name}: {'; '.join(found)}")
    for key, part in parts.items():
        here, there = _group_sizes(part), _saved_sizes(state[key])
        if isinstance(part, torch.optim.Optimizer) and here != there:
            logger.warning(
                "%s: %s starts anew, as the saved one has groups of %s parameters and this one of %s",
                name, key, there, here,
            )  # fmt: skip
        else:
            part.load_state_dict(state[key])


def with_target(state: StateDict) -> StateDict:
    """A learn state; one of DI-engine that has no target network gets the network itself for it."""
    return {"target_model": state["model"], **state} if "model" in state else state


def _group_sizes(part: Any) -> list[int]:
    return _saved_sizes(part.state_dict()) if isinstance(part, torch.optim.Optimizer) else []


def _saved_sizes(saved: object) -> list[int]:
    groups = saved.get("param_groups", []) if isinstance(saved, Mapping) else []
    return [len(group["params"]) for group in groups]
