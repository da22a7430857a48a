"""The modes of a policy as tuples of bound functions; each plays the role of its name in :mod:`ding.data.roles`.

The class names are those of DI-engine, where they are reached as ``Policy.learn_function`` and so on.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ding.data.roles import StateDict


class learn_function(NamedTuple):
    """What a learner calls: a ``LearnMode``."""

    forward: Callable[..., Any]
    reset: Callable[..., None]
    info: Callable[..., str]
    monitor_vars: Callable[..., list[str]]
    get_attribute: Callable[..., Any]
    set_attribute: Callable[..., None]
    state_dict: Callable[..., StateDict]
    load_state_dict: Callable[..., None]


class collect_function(NamedTuple):
    """What a collector calls: a ``CollectMode``."""

    forward: Callable[..., Any]
    process_transition: Callable[..., Any]
    get_train_sample: Callable[..., Any]
    reset: Callable[..., None]
    get_attribute: Callable[..., Any]
    set_attribute: Callable[..., None]
    state_dict: Callable[..., StateDict]
    load_state_dict: Callable[..., None]


class eval_function(NamedTuple):
    """What an evaluator calls: an ``EvalMode``."""

    forward: Callable[..., Any]
    reset: Callable[..., None]
    get_attribute: Callable[..., Any]
    set_attribute: Callable[..., None]
    state_dict: Callable[..., StateDict]
    load_state_dict: Callable[..., None]


class command_function(NamedTuple):
    """What a commander calls: a ``CommandMode``."""

    get_setting_learn: Callable[..., dict[str, Any]]
    get_setting_collect: Callable[..., dict[str, Any]]
    get_setting_eval: Callable[..., dict[str, Any]]


class random_collect_function(NamedTuple):
    """The functions of a collect mode that a random collection calls."""

    forward: Callable[..., Any]
    process_transition: Callable[..., Any]
    get_train_sample: Callable[..., Any]
    reset: Callable[..., None]
    get_attribute: Callable[..., Any]
