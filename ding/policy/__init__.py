"""Algorithms as learn, collect, eval and command modes.

Exceptions are drawn in :mod:`ding.policy.errors`.
"""

from typing import Any

from ding.policy.base_policy import CommandModePolicy, Policy, create_policy, get_policy_cls
from ding.policy.command_mode_policy_instance import (
    DQNCommandModePolicy,
    DummyCommandModePolicy,
    EpsCommandModePolicy,
)
from ding.policy.common_utils import (
    default_preprocess_learn,
    set_noise_mode,
    single_env_forward_wrapper,
    single_env_forward_wrapper_ttorch,
)
from ding.policy.dqn import DQNPolicy
from ding.policy.errors import (
    PolicyAttributeError,
    PolicyConfigError,
    PolicyDataError,
    PolicyError,
    PolicyStateError,
    PolicyUsageError,
)
from ding.policy.policy_factory import PolicyFactory, get_random_policy
from ding.utils import absent_name

__all__ = [
    "CommandModePolicy",
    "DQNCommandModePolicy",
    "DQNPolicy",
    "DummyCommandModePolicy",
    "EpsCommandModePolicy",
    "Policy",
    "PolicyAttributeError",
    "PolicyConfigError",
    "PolicyDataError",
    "PolicyError",
    "PolicyFactory",
    "PolicyStateError",
    "PolicyUsageError",
    "create_policy",
    "default_preprocess_learn",
    "get_policy_cls",
    "get_random_policy",
    "set_noise_mode",
    "single_env_forward_wrapper",
    "single_env_forward_wrapper_ttorch",
]


def __getattr__(name: str) -> Any:
    raise absent_name(__name__, name, __all__)
