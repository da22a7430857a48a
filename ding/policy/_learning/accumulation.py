"""Gradients that are summed over several calls of learning before they make a step."""

import logging
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ding.policy.errors import PolicyConfigError

logger = logging.getLogger(__name__)

_CALLS = "_extra_state"


class GradientSums(nn.Module):
    """The sums of the gradients of networks since their last steps, and the number of calls of learning.

    They are part of the learn state, so that a run resumes in the middle of a sum. A recorded update can hold them.

    Args:
        networks: by name; each has a sum.
        every: calls that a step takes the gradients of.

    Raises:
        PolicyConfigError: ``every`` is no positive int.
    """

    def __init__(self, networks: Mapping[str, nn.Module], every: int) -> None:
        super().__init__()
        if every < 1:
            raise PolicyConfigError(f"policy.learn.gradient_accumulate_every must be at least 1, found {every}")
        self.every = every
        self.num_calls = 0
        self._networks = dict(networks)
        for name, network in networks.items():
            size = sum(parameter.numel() for parameter in network.parameters()) if every > 1 else 0
            self.register_buffer(name, torch.zeros(size))

    def next_call(self) -> int:
        """Count a call; returns its number, from 1 on."""
        self.num_calls += 1
        return self.num_calls

    def is_step(self, call: int) -> bool:
        """Whether a step is made in this call."""
        return call % self.every == 0

    def add(self, loss: torch.Tensor, name: str) -> None:
        """Add the gradient of ``loss`` to the sum of a network."""
        gradients = torch.autograd.grad(loss, list(self._networks[name].parameters()))
        self.get_buffer(name).add_(torch.cat([gradient.reshape(-1) for gradient in gradients]))

    def completed(self, loss: torch.Tensor, name: str) -> torch.Tensor:
        """Return a loss whose gradient is that of ``loss`` and the sum of a network, which begins anew."""
        if self.every == 1:
            return loss
        sums = self.get_buffer(name)
        weights = torch.cat([parameter.reshape(-1) for parameter in self._networks[name].parameters()])
        loss = loss + weights @ sums.clone()
        sums.zero_()
        return loss

    def get_extra_state(self) -> dict[str, int]:
        """Return the number of calls."""
        return {"calls": self.num_calls}

    def set_extra_state(self, state: Mapping[str, int]) -> None:
        """Restore the number of calls."""
        self.num_calls = int(state["calls"])

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> None:
        """Restore sums and number; sums of another ``every``, or of other networks, begin anew, with a warning."""
        own, state = self.state_dict(), dict(state_dict)
        others = [name for name, held in own.items() if name != _CALLS and not _fits(held, state.get(name))]
        if others:
            logger.warning("the sums of gradients of %s begin anew: the saved ones do not fit", ", ".join(others))
            state = {**{name: torch.zeros_like(own[name]) for name in own if name != _CALLS}, _CALLS: state[_CALLS]}
        super().load_state_dict(state, strict, assign)

    def state_after(self, optimizer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state after the steps of an optimiser, whose state dict is given, with empty sums."""
        steps = [int(one["step"]) for one in optimizer.get("state", {}).values() if "step" in one]
        empty = {name: torch.zeros_like(held) for name, held in self.state_dict().items() if name != _CALLS}
        return {**empty, _CALLS: {"calls": self.every * max(steps, default=0)}}


def _fits(held: torch.Tensor, saved: Any) -> bool:
    return isinstance(saved, torch.Tensor) and saved.shape == held.shape
