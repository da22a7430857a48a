"""The parameters that PPO begins with, and those that it may stay near to."""

import copy
import math
from collections.abc import Sequence

import torch
from torch import nn

from ding.model.common.head import ReparameterizationHead
from ding.utils.checkpoint import read_checkpoint


def pretrained_copy(model: nn.Module, path: str | None) -> nn.Module | None:
    """A frozen copy of ``model`` with the parameters in the file ``path``: a state dict, or a checkpoint that has it
    under ``model``.
    """
    if path is None:
        return None
    state = read_checkpoint(path)
    pretrained = copy.deepcopy(model)
    pretrained.load_state_dict(state.get("model", state))
    return pretrained.eval().requires_grad_(False)


def init_ppo_parameters(model: nn.Module, log_sigma: float | None = -0.5, reference_numerics: bool = False) -> None:
    """Orthogonal weights and zero biases of all linear layers of an actor-critic network or a policy network.

    With continuous parts: gain ``sqrt(2)``, the output layers of the actor times 0.01, and ``log_sigma_param`` set
    unless ``log_sigma`` is None.

    Args:
        reference_numerics: scale all linear layers of the actor, those of a shared encoder too, as DI-engine does.
    """
    sigmas = [p for name, p in model.named_parameters() if name.endswith("log_sigma_param")]
    continuous = hasattr(model, "actor") and any(isinstance(layer, ReparameterizationHead) for layer in model.modules())
    gain = math.sqrt(2) if continuous else 1.0
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, gain=gain)
                nn.init.zeros_(layer.bias)
        for sigma in sigmas:
            if log_sigma is not None:
                sigma.fill_(log_sigma)
        if not continuous:
            return
        actor: nn.Module = model.actor  # type: ignore[assignment]
        linear = [(name, layer) for name, layer in actor.named_modules() if isinstance(layer, nn.Linear)]
        for name, layer in linear:
            if reference_numerics or _is_output(name, linear):
                layer.weight.mul_(0.01)


def _is_output(name: str, linear: Sequence[tuple[str, nn.Linear]]) -> bool:
    """Whether a layer of an actor gives mu or logits: the last one of its stack of layers."""
    parent, _, last = name.rpartition(".")
    if last in ("mu", "log_sigma_layer"):
        return last == "mu"
    head = parent.rpartition(".")[0]
    return head.endswith(".Q") and parent == max(
        other.rpartition(".")[0] for other, _ in linear if other.startswith(head + ".")
    )
