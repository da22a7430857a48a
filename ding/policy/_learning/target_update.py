"""When and how the target network of a Q policy follows the learner."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from ding.model import model_wrap
from ding.policy.errors import PolicyConfigError
from ding.utils.names import did_you_mean

_RULES = ("assign", "momentum")


def target_network(
    model: torch.nn.Module, learn_cfg: Mapping[str, Any], defaults: Mapping[str, Any], reference_numerics: bool = False
) -> Any:
    """A copy of ``model`` in the wrapper ``target``, which follows it by the rule of :func:`target_update_rule`."""
    rule, kwargs = target_update_rule(learn_cfg, defaults, reference_numerics)
    return model_wrap(copy.deepcopy(model), wrapper_name="target", update_type=rule, update_kwargs=kwargs)


def target_update_rule(
    learn_cfg: Mapping[str, Any], defaults: Mapping[str, Any], reference_numerics: bool = False
) -> tuple[str, dict[str, float]]:
    """``('assign', {'freq': n})`` or ``('momentum', {'theta': t})`` from a ``learn`` section.

    ``learn.target_update_type`` decides. Without it (None):

    1. ``target_update_freq`` is None or absent: momentum with ``target_theta``;
    2. ``target_theta`` differs from its default while ``target_update_freq`` has its default: momentum, since only
       theta was chosen (DI-engine keeps copying every ``target_update_freq`` updates here, and so does
       ``reference_numerics``);
    3. else: copied every ``target_update_freq`` updates.

    Args:
        learn_cfg: the merged ``learn`` section.
        defaults: the ``learn`` section of the policy's default config.
        reference_numerics: leave rule 2 out.

    Raises:
        PolicyConfigError: an unknown type, a missing or a meaningless value (a ``RuntimeError``).
    """
    rule = learn_cfg.get("target_update_type")
    freq, theta = learn_cfg.get("target_update_freq"), learn_cfg.get("target_theta")
    if rule is None:
        only_theta = theta != defaults.get("target_theta") and freq == defaults.get("target_update_freq")
        rule = "momentum" if freq is None or (theta is not None and only_theta and not reference_numerics) else "assign"
    if rule not in _RULES:
        raise PolicyConfigError(f"policy.learn.target_update_type: {rule!r} is unknown.{did_you_mean(rule, _RULES)}")
    if rule == "assign":
        if not isinstance(freq, int) or freq < 1:
            raise PolicyConfigError(f"policy.learn.target_update_freq must be an int of at least 1, found {freq!r}")
        return rule, {"freq": freq}
    if theta is None:
        raise PolicyConfigError(
            "the target network has no update rule: give policy.learn.target_update_freq (copy every so many updates) "
            "or policy.learn.target_theta (momentum)"
        )
    if not 0 < theta <= 1:
        raise PolicyConfigError(f"policy.learn.target_theta must lie in (0, 1], found {theta!r}")
    return rule, {"theta": theta}


def actor_turns(optimizer: torch.optim.Optimizer, freq: int) -> Callable[[int], list[dict[str, bool]]] | None:
    """Return a function that gives ``{'with_actor': ...}`` for so many of the next updates: whether each is one of the
    actor, too; ``None``: all are.

    Args:
        optimizer: of the critics, which counts the updates.
        freq: updates of the critics per update of the actor, which comes with the last of them.
    """
    return None if freq == 1 else partial(_turns, optimizer, freq)


def _turns(optimizer: torch.optim.Optimizer, freq: int, num_updates: int) -> list[dict[str, bool]]:
    first = num_steps(optimizer) + 1
    return [{"with_actor": turn % freq == 0} for turn in range(first, first + num_updates)]


def num_steps(optimizer: torch.optim.Optimizer) -> int:
    """How many steps an optimiser has made, from its own state; 0 for one that does not count.

    The number of learn steps is not a key of a learn state, but with it the target network goes on after a resume at
    the very updates at which it would have been copied.
    """
    steps = [int(state["step"]) for state in optimizer.state.values() if "step" in state]
    return max(steps, default=0)
