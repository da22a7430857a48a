"""Learning Q functions of continuous actions: what DDPG, TD3, SAC and their relatives have in common.

Actions of all of them lie in ``[-1, 1]``. They are brought to the bounds of the env once, by the env itself
(``env.act_scale=True``, see :class:`ding.envs.DingEnvWrapper`), and samples hold them unscaled.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch

from ding.rl_utils.td import MSE, bootstrap, td_loss


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


class CriticLoss(NamedTuple):
    """The TD error of one or several critics."""

    #: Per critic, each 0-d, with gradients.
    losses: list[torch.Tensor]
    #: Per sample, ``[B]`` (``[B, agents]``): the mean of the squared errors of the critics.
    error: torch.Tensor
    #: Per critic: the mean of its values, 0-d.
    q_values: list[torch.Tensor]
    #: The mean of the values that were bootstrapped, 0-d.
    target_q_value: torch.Tensor


def each(q_value: Any) -> list[torch.Tensor]:
    """The values of each critic: ``[q]`` for a single one."""
    return [q_value] if isinstance(q_value, torch.Tensor) else list(q_value)


def least(q_value: Any) -> torch.Tensor:
    """The smallest of the critics' values (clipped double Q-learning, arXiv:1802.09477)."""
    values = each(q_value)
    return values[0] if len(values) == 1 else torch.stack(values).amin(0) if len(values) > 2 else torch.minimum(*values)


def critic_loss(q_value: Any, next_value: torch.Tensor, batch: Mapping[str, Any], gamma: float) -> CriticLoss:
    """One-step TD errors of all critics to ``reward + gamma * next_value``.

    Args:
        q_value: of the actions taken, ``[B]`` (``[B, agents]``), or a list of such.
        next_value: without gradients, of the same shape.
        batch: ``reward, done, weight`` (or None) ``[B]``.
    """
    values = each(q_value)
    with torch.no_grad():
        target = bootstrap(batch["reward"], next_value, batch["done"], gamma)
    pairs = [td_loss(q, target, batch["weight"], MSE) for q in values]
    error = torch.stack([per_sample.detach() for _, per_sample in pairs]).mean(0)
    return CriticLoss([loss for loss, _ in pairs], error, [q.detach().mean() for q in values], next_value.mean())


def priorities(error: torch.Tensor, reference_numerics: bool) -> torch.Tensor:
    """``|Q - target|`` ``[B]`` of squared errors ``[B]`` (``[B, agents]``: the mean over them).

    Args:
        reference_numerics: the squares, as the original API has it.
    """
    size = error if reference_numerics else error.sqrt()
    return size if size.ndim == 1 else size.flatten(1).mean(1)


def others(module: torch.nn.Module, but: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters of ``module`` that are none of ``but``."""
    taken = {id(parameter) for parameter in but.parameters()}
    return [parameter for parameter in module.parameters() if id(parameter) not in taken]
