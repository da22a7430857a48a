"""Loading the parts of a state by their names, and what to say of those that do not fit."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ding.data.roles import StateDict
from ding.policy.errors import PolicyStateError, PolicyWeightsError

logger = logging.getLogger(__name__)

# What the learner keeps in its checkpoints beside the policy.
CHECKPOINT_COUNTERS = {"last_iter", "last_step"}
_SHOWN = 6


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
    found = misfits(parts, state)
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
    """A learn state; one of the original API that has no target network gets the network itself for it."""
    return {"target_model": state["model"], **state} if "model" in state else state


def misfits(parts: Mapping[str, Any], state: StateDict) -> list[str]:
    """A text for each network of which the saved parameters have other names or shapes."""
    found = []
    for key, part in parts.items():
        own = part.state_dict() if key in state and not isinstance(part, torch.optim.Optimizer) else {}
        text = misfit(own, state.get(key)) if own and all(map(torch.is_tensor, own.values())) else ""
        if text:
            found.append(f"{key}: {text}")
    return found


def misfit(own: Mapping[str, torch.Tensor], saved: object) -> str:
    """What of a saved network does not fit the parameters of one; empty when all does."""
    if not isinstance(saved, Mapping):
        return f"expected parameters by name, found a {type(saved).__name__}"
    shapes = [
        f"{key} is {list(saved[key].shape)} there and {list(value.shape)} here"
        for key, value in own.items()
        if torch.is_tensor(saved.get(key)) and saved[key].shape != value.shape
    ]
    absent = [key for key in own if not torch.is_tensor(saved.get(key))]
    texts = {
        "not in the file": absent,
        "not in the network": [str(key) for key in saved if key not in own],
        "of another shape": shapes,
    }
    return ", ".join(f"{len(names)} {what} ({_listed(names)})" for what, names in texts.items() if names)


def _listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _group_sizes(part: Any) -> list[int]:
    return _saved_sizes(part.state_dict()) if isinstance(part, torch.optim.Optimizer) else []


def _saved_sizes(saved: object) -> list[int]:
    groups = saved.get("param_groups", []) if isinstance(saved, Mapping) else []
    return [len(group["params"]) for group in groups]
