"""Common base of reward models with one network."""

import torch
from torch import nn

from ding.data.roles import StateDict
from ding.reward_model.base_reward_model import BaseRewardModel


class LearnedRewardModel(BaseRewardModel):
    """A reward model whose state is one network and its optimiser."""

    reward_model: nn.Module
    opt: torch.optim.Optimizer

    def state_dict(self) -> StateDict:
        """Return the states of network and optimiser: ``model`` and ``optimizer``."""
        return {"model": self.reward_model.state_dict(), "optimizer": self.opt.state_dict()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load a :meth:`state_dict`, or what DI-engine saves: ``model`` alone, or its parameters."""
        self.reward_model.load_state_dict(state_dict.get("model", state_dict))
        if "optimizer" in state_dict:
            self.opt.load_state_dict(state_dict["optimizer"])
