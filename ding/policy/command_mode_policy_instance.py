"""The ``<type>_command`` twins: each algorithm with a command mode."""

from typing import Any

from ding.policy.base_policy import CommandModePolicy
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import get_epsilon_greedy_fn
from ding.utils import POLICY_REGISTRY


class EpsCommandModePolicy(CommandModePolicy):
    """A command mode that anneals the epsilon of exploration by the number of env steps (``cfg.other.eps``)."""

    def _init_command(self) -> None:
        eps = self._cfg.other.eps
        self.epsilon_greedy = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """``{'eps': ...}`` at ``command_info['envstep']``."""
        return {"eps": self.epsilon_greedy(command_info["envstep"])}

    def _get_setting_learn(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _get_setting_eval(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return {}


class DummyCommandModePolicy(CommandModePolicy):
    """A command mode without settings."""

    def _init_command(self) -> None:
        return

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _get_setting_learn(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _get_setting_eval(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return {}


@POLICY_REGISTRY.register("dqn_command")
class DQNCommandModePolicy(DQNPolicy, EpsCommandModePolicy):
    """DQN with an annealed epsilon."""
