"""Learning Q functions of continuous actions: what DDPG, TD3, SAC and their relatives have in common.

Actions of all of them lie in ``[-1, 1]``. They are brought to the bounds of the env once, by the env itself
(``env.act_scale=True``, see :class:`ding.envs.DingEnvWrapper`), and samples hold them unscaled.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import torch


class ActorCritic(Protocol):
    """A network, or a wrapped one, with the modes ``compute_actor`` and ``compute_critic``; see
    :class:`ding.model.ContinuousQAC`.
    """

    def __call__(self, inputs: Any, mode: str) -> Mapping[str, Any]:
        """Run one of them."""


class ActorCriticModule(torch.nn.Module):
    """What a policy needs of such a network beside: two parts, each with an optimiser of its own. For type checkers; a
    network need not be of this class.
    """

    actor: torch.nn.Module
    critic: torch.nn.Module


def q_values(network: ActorCritic, obs: Any, **action: Any) -> torch.Tensor:
    """Return ``Q_i(s, a)`` by each of a network's critics: ``[critics, B]`` (``[critics, B, agents]``).

    Args:
        action: what the critics read beside ``obs``: ``action``, and of a hybrid one ``logit``, too.
    """
    values = network({"obs": obs, **action}, mode="compute_critic")["q_value"]
    return values.unsqueeze(0) if isinstance(values, torch.Tensor) else torch.stack(list(values))


def ensemble_q_values(network: ActorCritic, obs: Any, action: torch.Tensor) -> torch.Tensor:
    """Return ``Q_i(s, a)`` by each member of an ensemble in one network: ``[critics, B]``."""
    values: torch.Tensor = network({"obs": obs, "action": action}, mode="compute_critic")["q_value"]
    return values


def critic_losses(td_errors: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error of each critic, ``[critics]``.

    Args:
        td_errors: ``Q_i(s, a) - target``, ``[critics, B]`` (``[critics, B, agents]``).
        weight: of the samples, ``[B]`` (``[B, 1]``).
    """
    return (weight * td_errors.square()).flatten(1).mean(1)


def priorities(td_errors: torch.Tensor, reference_numerics: bool) -> torch.Tensor:
    """Return the root of the critics' mean squared error for each sample, ``[B]``: ``|Q - target|`` of one critic.

    Args:
        td_errors: ``[critics, B]`` (``[critics, B, agents]``: the mean over them).
        reference_numerics: the squares, as DI-engine has it.
    """
    size = td_errors.detach().square().mean(0)
    size = size if reference_numerics else size.sqrt()
    return size if size.ndim == 1 else size.flatten(1).mean(1)


def others(module: torch.nn.Module, but: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters of ``module`` that are none of ``but``."""
    taken = {id(parameter) for parameter in but.parameters()}
    return [parameter for parameter in module.parameters() if id(parameter) not in taken]
