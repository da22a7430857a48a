"""The weight of the entropy in soft algorithms, learned or fixed (SAC, arXiv:1812.05905, section 5)."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


class Temperature(nn.Module):
    """``alpha``, which weighs the entropy against the reward.

    State: the parameter ``log_alpha`` (or ``alpha`` without ``log_space``); nothing for a fixed one.

    Args:
        alpha: the value at the start.
        learned: whether it follows :meth:`loss`.
        log_space: whether its logarithm is the parameter; else it is itself, kept from below zero by :meth:`clamp`.
    """

    def __init__(self, alpha: float, learned: bool = True, log_space: bool = True) -> None:
        super().__init__()
        self._name = "log_alpha" if log_space else "alpha"
        value = torch.tensor(math.log(alpha) if log_space else float(alpha))
        if learned:
            self.register_parameter(self._name, nn.Parameter(value))
        else:
            self.register_buffer(self._name, value, persistent=False)

    @classmethod
    def from_config(cls, learn_cfg: Mapping[str, Any], device: torch.device | str) -> "Temperature":
        """By the keys ``alpha``, ``auto_alpha`` and ``log_space`` of a ``learn`` section."""
        return cls(learn_cfg["alpha"], learn_cfg["auto_alpha"], learn_cfg["log_space"]).to(device)

    @property
    def value(self) -> torch.Tensor:
        """``alpha`` without gradients: 0-d."""
        own = getattr(self, self._name).detach()
        output: torch.Tensor = own.exp() if self._name == "log_alpha" else own
        return output

    def loss(self, log_prob: torch.Tensor, target_entropy: float) -> torch.Tensor:
        """What moves the entropy, the mean of ``-log_prob``, to ``target_entropy``: 0-d.

        Args:
            log_prob: of actions of the policy, any shape; no gradients flow to it.
        """
        output: torch.Tensor = -(getattr(self, self._name) * (log_prob.detach() + target_entropy)).mean()
        return output

    @torch.no_grad()
    def clamp(self) -> None:
        """Keep a temperature that is not learned in log space from becoming negative."""
        if self._name == "alpha":
            getattr(self, self._name).clamp_(min=0.0)
