"""What collecting remembers from one step to the next, for a run that is saved in the middle of its episodes.

That is what the wrappers of the collect model keep (states of recurrent networks, the state of noise), and the
attributes that a policy names in ``_remembered``. A class with a ``_reset_collect`` of its own has something to forget,
so it says there what that is; if it does not, nothing of it can be saved.
"""

from typing import Any

from ding.data.roles import CollectMode, EvalMode
from ding.model import IModelWrapper
from ding.policy.base_policy import Policy
from ding.policy.errors import PolicyAttributeError
from ding.torch_utils.data_helper import to_device


def collect_memory(mode: CollectMode | EvalMode) -> dict[str, Any]:
    """What the policy of this mode remembers, of collecting.

    Raises:
        PolicyAttributeError: it does not say what that is (a ``NotImplementedError``).
    """
    return {
        "model": [wrapper.kept for wrapper in _wrappers(mode)],
        **{name: mode.get_attribute(name) for name in _remembered(mode)},
    }


def set_collect_memory(mode: CollectMode | EvalMode, memory: dict[str, Any]) -> None:
    """Go on from what :func:`collect_memory` of a policy of the same kind returned."""
    device = mode.get_attribute("device")
    for wrapper, kept in zip(_wrappers(mode), memory["model"], strict=True):
        wrapper.kept = to_device(kept, device)
    for name in _remembered(mode):
        mode.set_attribute(name, memory[name])


def _wrappers(mode: CollectMode | EvalMode) -> list[IModelWrapper]:
    model = mode.get_attribute("collect_model")
    return list(model.chain()) if isinstance(model, IModelWrapper) else []


def _remembered(mode: CollectMode | EvalMode) -> tuple[str, ...]:
    """Names of attributes, without the underscore."""
    kind = type(getattr(mode.reset, "__self__", mode))
    forgets = next((cls for cls in kind.__mro__ if "_reset_collect" in vars(cls)), kind)
    if forgets is not Policy and "_remembered" not in vars(forgets):
        raise PolicyAttributeError(f"{forgets.__name__} does not say in `_remembered` what its reset forgets")
    return getattr(kind, "_remembered", ())
