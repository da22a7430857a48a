"""Command modes of the ``<type>_command`` policies: the settings of collection by the progress of training."""

from collections.abc import Callable
from typing import Any

from ding.policy.base_policy import CommandModePolicy
from ding.policy.common_utils import epsilon_schedule
from ding.rl_utils import get_epsilon_greedy_fn


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


class EpsCommandModePolicy(DummyCommandModePolicy):
    """A command mode that anneals the epsilon of exploration by the number of env steps (``cfg.other.eps``)."""

    # Not every policy has a default for it.
    optional_keys = {"other": "eps", "other.eps": "type start end decay collect"}

    def _init_command(self) -> None:
        self.epsilon_greedy = epsilon_schedule(self._cfg)

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Return ``{'eps': ...}`` at ``command_info['envstep']``."""
        return {"eps": self.epsilon_greedy(command_info["envstep"])}


class HybridCommandModePolicy(EpsCommandModePolicy):
    """A command mode that anneals the epsilon of hybrid actions by the number of env steps, and has no settings for
    other actions.
    """

    _hybrid: Callable[[], bool]

    def _init_command(self) -> None:
        if self._hybrid():
            super()._init_command()

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return super()._get_setting_collect(command_info) if self._hybrid() else {}


class CloningCommandModePolicy(DummyCommandModePolicy):
    """A command mode that anneals, where they are given, the epsilon of discrete actions by the number of env steps
    (``cfg.other.eps``), and the deviation of the noise on continuous ones by train iterations
    (``cfg.collect.noise_sigma``).
    """

    def _init_command(self) -> None:
        cfg = self._cfg
        self._name, self._count = ("sigma", "learner_step") if cfg.continuous else ("eps", "envstep")
        given = cfg.collect.noise_sigma if cfg.continuous else cfg.other.get("eps", 0.0)
        if isinstance(given, dict):
            self._value = get_epsilon_greedy_fn(given["start"], given["end"], given["decay"], given["type"])
        else:
            self._value = lambda step: float(given)

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Return ``{'eps': ...}`` or ``{'sigma': ...}``."""
        return {self._name: self._value(command_info[self._count])}
