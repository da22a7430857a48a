"""When and how the target network of a Q policy follows the learner."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ding.model.wrapper.model_wrappers import IModelWrapper
from ding.policy.errors import PolicyConfigError
from ding.utils.default_helper import did_you_mean

_RULES = ("assign", "momentum")


def target_update_rule(learn_cfg: Any, defaults: Any, reference_numerics: bool = False) -> tuple[str, dict[str, Any]]:
    """``('assign', {'freq': n})`` or ``('momentum', {'theta': t})`` from a ``learn`` section.

    ``learn.target_update_type`` says it outright. Without it (None):

    1. ``target_update_freq`` is None or absent: momentum with ``target_theta``;
    2. ``target_theta`` differs from its default while ``target_update_freq`` has its default: momentum, since only
       theta was chosen (the original API keeps copying every ``target_update_freq`` updates here, and so does
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


def num_steps(optimizer: torch.optim.Optimizer) -> int:
    """How many steps an optimiser has made, from its own state; 0 for one that does not count.

    The number of learn steps is not a key of a learn state, but with it the target network goes on after a resume at
    the very updates at which it would have been copied.
    """
    steps = [int(state["step"]) for state in optimizer.state.values() if "step" in state]
    return max(steps, default=0)


class LazyState(Mapping[str, torch.Tensor]):
    """The state dict of ``model``, built when somebody reads it.

    A target network that is copied every so many updates ignores it most of the time, and building it costs more than
    all other work around a small update.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._state: dict[str, torch.Tensor] | None = None

    @property
    def module(self) -> Any:
        """The innermost module of ``model``, for a reader who can do without the dict."""
        module = self._model
        while isinstance(module, IModelWrapper):
            module = module._model
        return module

    def _read(self) -> dict[str, torch.Tensor]:
        if self._state is None:
            self._state = self._model.state_dict()
        return self._state

    def __getitem__(self, key: str) -> torch.Tensor:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())
