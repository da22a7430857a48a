"""Hooks of the learner: the registry of hook types, and building hooks from a config.

A ``hook`` config has entries of two forms. The short one is a key of :data:`simplified_hook_mapping` with a value;
``None`` or ``False`` makes no hook::

    hook=dict(load_ckpt_before_run='./exp/ckpt/ckpt_best.pth.tar', log_show_after_iter=100)

The full one is any key with a dict::

    hook=dict(my_hook=dict(name='my_hook', type='save_ckpt', position='after_iter', priority=40, ext_args=dict(freq=5)))
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ding.utils import did_you_mean
from ding.worker.learner._hooks import Hook as Hook
from ding.worker.learner._hooks import HookConfigError as HookConfigError
from ding.worker.learner._hooks import LearnerHook as LearnerHook
from ding.worker.learner._hooks import LoadCkptHook as LoadCkptHook
from ding.worker.learner._hooks import LogReduceHook as LogReduceHook
from ding.worker.learner._hooks import LogShowHook as LogShowHook
from ding.worker.learner._hooks import SaveCkptHook as SaveCkptHook
from ding.worker.learner._hooks import UnknownHookError as UnknownHookError

log = logging.getLogger(__name__)

Hooks = dict[str, list[LearnerHook]]

hook_mapping: dict[str, type[LearnerHook]] = {
    "load_ckpt": LoadCkptHook,
    "save_ckpt": SaveCkptHook,
    "log_show": LogShowHook,
    "log_reduce": LogReduceHook,
}

_FULL_FORM_KEYS = ("name", "type", "position", "priority", "ext_args")
_DEFAULT_PRIORITY = 100


def _short(type_: str, name: str, priority: int, position: str, key: str = "") -> Callable[[Any], LearnerHook]:
    """The hook of a short key; ``key`` is what its value becomes of the ``ext_args``, without one it is not read."""

    def build(value: Any) -> LearnerHook:
        return hook_mapping[type_](name, priority, position=position, ext_args={key: value} if key else {})

    return build


# Short key -> function from its value to the hook.
simplified_hook_mapping: dict[str, Callable[[Any], LearnerHook]] = {
    "load_ckpt_before_run": _short("load_ckpt", "load_ckpt", 20, "before_run", "load_path"),
    "log_show_after_iter": _short("log_show", "log_show", 20, "after_iter", "freq"),
    "save_ckpt_after_iter": _short("save_ckpt", "save_ckpt_after_iter", 20, "after_iter", "freq"),
    "save_ckpt_after_run": _short("save_ckpt", "save_ckpt_after_run", 20, "after_run"),
    "log_reduce_after_iter": _short("log_reduce", "log_reduce_after_iter", 10, "after_iter"),
}


def register_learner_hook(name: str, hook_type: type[LearnerHook]) -> None:
    """Make a hook class available as ``type: name`` of the full config form.

    Raises:
        AssertionError: not a subclass of :class:`LearnerHook`.
    """
    if not (isinstance(hook_type, type) and issubclass(hook_type, LearnerHook)):
        raise AssertionError(f"hook type {name!r} must be a subclass of LearnerHook, got {hook_type!r}")
    hook_mapping[name] = hook_type


def build_learner_hook_by_cfg(cfg: Mapping[str, Any]) -> Hooks:
    """Build the hooks that a ``hook`` config describes: position -> hooks in the order in which they run.

    Raises:
        HookConfigError: an entry that is neither a known short key nor a full form.
        UnknownHookError: a ``type`` that is not registered (also a ``KeyError``).
    """
    hooks: Hooks = {position: [] for position in LearnerHook.positions}
    for key, value in cfg.items():
        if isinstance(value, Mapping):
            add_learner_hook(hooks, _build_full_form(key, value))
        elif key not in simplified_hook_mapping:
            raise HookConfigError(
                f"hook.{key}: expected a dict with {', '.join(_FULL_FORM_KEYS)}, or a short key."
                f"{did_you_mean(key, simplified_hook_mapping)}"
            )
        elif value is not None and value is not False:
            add_learner_hook(hooks, simplified_hook_mapping[key](value))
    return hooks


def _build_full_form(key: str, value: Mapping[str, Any]) -> LearnerHook:
    missing = [name for name in ("name", "type", "position") if name not in value]
    if missing:
        raise HookConfigError(f"hook.{key}: missing {', '.join(missing)}")
    for name in value:
        if name not in _FULL_FORM_KEYS:
            raise HookConfigError(f"hook.{key}.{name} is unknown.{did_you_mean(name, _FULL_FORM_KEYS)}")
    if value["type"] not in hook_mapping:
        raise UnknownHookError(
            f"hook.{key}.type: unknown {value['type']!r}.{did_you_mean(value['type'], hook_mapping)}"
        )
    return hook_mapping[value["type"]](
        value["name"],
        value.get("priority", _DEFAULT_PRIORITY),
        position=value["position"],
        ext_args=value.get("ext_args", {}),
    )


def add_learner_hook(hooks: Hooks, hook: LearnerHook) -> None:
    """Insert a hook behind the last one of its position whose priority is not above its own."""
    at_position = hooks[hook.position]
    index = len(at_position)
    while index > 0 and at_position[index - 1].priority > hook.priority:
        index -= 1
    at_position.insert(index, hook)


def merge_hooks(hooks1: Hooks, hooks2: Hooks) -> Hooks:
    """A new dict with the hooks of both, sorted by priority; equal priorities keep their order, ``hooks1`` first.

    Raises:
        AssertionError: the dicts have different positions.
    """
    if set(hooks1) != set(hooks2):
        raise AssertionError(f"hooks of different positions cannot be merged: {sorted(hooks1)} and {sorted(hooks2)}")
    return {key: sorted(hooks1[key] + hooks2[key], key=lambda hook: hook.priority) for key in hooks1}


def show_hooks(hooks: Hooks) -> None:
    """Log which hooks run where, in their order."""
    for position in LearnerHook.positions:
        for hook in hooks.get(position, []):
            log.info("%s: %s (%s, priority %s)", position, hook.name, type(hook).__name__, hook.priority)
