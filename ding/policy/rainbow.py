"""Rainbow: C51 with noisy dueling heads, priorities and n-step returns (Hessel et al. 2018, arXiv:1710.02298)."""

from collections.abc import Mapping
from typing import Any

from ding.policy.c51 import C51Policy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("rainbow")
class RainbowDQNPolicy(C51Policy):
    """Categorical Q-learning that explores by the noise of its network."""

    config = {
        "type": "rainbow",
        "priority": True,
        "priority_IS_weight": True,
        "discount_factor": 0.99,
        "nstep": 3,
        "noisy_net": True,
        "learn": {"update_per_collect": 1, "batch_size": 32},
        "other": {
            "eps": {"type": "exp", "start": 0.05, "end": 0.05, "decay": 100000},
            "replay_buffer": {"replay_buffer_size": 100000, "alpha": 0.6, "beta": 0.4, "anneal_step": 100000},
        },
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``rainbowdqn`` of :mod:`ding.model.template.q_learning`."""
        return "rainbowdqn", ["ding.model.template.q_learning"]

    def _choosing_network(self, obs: Any) -> Mapping[str, Any]:
        """The network with new noise, for the choice of the next actions."""
        self._reset_noise(self._model)
        output: Mapping[str, Any] = self._model(obs)
        return output
