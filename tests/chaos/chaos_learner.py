"""A DQN of which each learner writes down what it went on from."""

import os

import torch

from ding.policy.command_mode_policy_instance import DQNCommandModePolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("recovering_dqn_command")
class RecoveringDQN(DQNCommandModePolicy):
    """Saves, right after a learner has loaded a state, that state once more: ``loaded/<pid>.pth``."""

    def _load_state_dict_learn(self, state_dict):
        super()._load_state_dict_learn(state_dict)
        os.makedirs("loaded", exist_ok=True)
        path = f"loaded/{os.getpid()}.pth"
        torch.save(self._state_dict_learn(), f"{path}.new")
        os.replace(f"{path}.new", path)
