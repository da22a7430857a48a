"""A policy as a torch module: maps observations to actions like ``predict``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn

from ding.bonus.quick.exported_obs import ObsForm, Step
from ding.envs.env.actions import ActionMapping
from ding.model import PDQN
from ding.torch_utils import network_tensor
from ding.torch_utils.math_helper import usable_mask
from ding.utils.nested import Tree

Head: TypeAlias = Callable[[Mapping[str, Any]], Any]


class ExportedPolicy(nn.Module):
    """Observation wrappers, network, action head, and mapping to the env's action space.

    Args:
        form: Form of the observations.
        steps: Functions that convert them to the network's input.
        network: Network in evaluation mode.
        head: Converts the network's output to the policy's form of an action.
        mapping: Converts it to actions of the env; ``None`` for an env that maps actions itself.
    """

    def __init__(
        self, form: ObsForm, steps: Sequence[Step], network: nn.Module, head: Head, mapping: ActionMapping | None
    ) -> None:
        super().__init__()
        self.network = network
        self._form, self._steps, self._head, self._mapping = form, list(steps), head, mapping

    def forward(self, obs: Any) -> Tree:
        """Return the actions for N observations, see :class:`ObsForm`, like :meth:`ActionMapping.rows_to_env`."""
        action = self.policy_action(obs)
        return action if self._mapping is None else self._mapping.tensors_to_env(action)

    def policy_action(self, obs: Any) -> Tree:
        """Return the actions in the policy's form."""
        obs = self._form.structured(obs)
        for step in self._steps:
            obs = step(obs)
        return self._head(_run(self.network, _input(obs)))


def _input(obs: Any) -> object:
    """Return the network's input, like :func:`ding.policy.common_utils.network_columns`; a tuple becomes a list."""
    if isinstance(obs, Mapping):
        return {name: _input(value) for name, value in obs.items()}
    if isinstance(obs, tuple):
        return [_input(value) for value in obs]
    return network_tensor(obs, "cpu")


def _run(network: nn.Module, obs: Any) -> Mapping[str, Any]:
    if isinstance(network, PDQN):
        arguments = network(obs, mode="compute_continuous")["action_args"]
        inputs = {"state": obs, "action_args": arguments}
        return {**network(inputs, mode="compute_discrete"), "action_args": arguments}
    mode = {"mode": "compute_actor"} if hasattr(network, "compute_actor") else {}
    output = network(obs, **mode)
    whole = isinstance(output, Mapping) and not output.keys().isdisjoint(("logit", "action"))
    return output if whole else {"logit": output}


def _best(logit: Any, mask: Any) -> torch.Tensor:
    """Return int64 ``[N]`` for logits ``[N, actions]``, or ``[N, heads]`` for a list of logits."""
    if isinstance(logit, (list, tuple)):
        masks = mask if isinstance(mask, (list, tuple)) else [mask] * len(logit)
        return torch.stack([_best(one, its) for one, its in zip(logit, masks)], dim=-1)
    allowed = logit if mask is None else logit.masked_fill(usable_mask(mask) == 0, float("-inf"))
    output: torch.Tensor = allowed.argmax(-1)
    return output


def _greedy(output: Mapping[str, Any]) -> torch.Tensor:
    return _best(output["logit"], output.get("action_mask"))


def _part(output: Mapping[str, Any], *names: str) -> torch.Tensor:
    """Return a part of the logit.

    Raises:
        KeyError: The part does not exist.
    """
    part = output["logit"]
    for name in names:
        if not isinstance(part, Mapping):
            raise KeyError(name)
        part = part[name]
    found: torch.Tensor = part
    return found


def _mean(output: Mapping[str, Any]) -> torch.Tensor:
    return _part(output, "mu")


def _squashed_mean(output: Mapping[str, Any]) -> torch.Tensor:
    return torch.tanh(_mean(output))


def _first_of_pair(output: Mapping[str, Any]) -> torch.Tensor:
    first: torch.Tensor = output["logit"][0]
    return first


def _squashed_first_of_pair(output: Mapping[str, Any]) -> torch.Tensor:
    return torch.tanh(_first_of_pair(output))


def _action(output: Mapping[str, Any]) -> torch.Tensor:
    action: torch.Tensor = output["action"]
    return action


def _hybrid(output: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return a hybrid action from a critic of the types, or from type logits with deterministic arguments."""
    return {"action_type": _greedy(output), "action_args": output["action_args"]}


def _hybrid_mean(output: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    kinds = _best(_part(output, "action_type"), None)
    return {"action_type": kinds, "action_args": _part(output, "action_args", "mu")}


# The comparison with the agent decides which of these applies.
HEADS: tuple[Head, ...] = (
    *(_hybrid, _hybrid_mean, _greedy, _mean, _squashed_mean, _first_of_pair, _squashed_first_of_pair, _action),
)
