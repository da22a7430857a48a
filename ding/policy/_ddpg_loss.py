"""The losses of DDPG, as functions of networks and a batch."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._q_critic import ActorCritic, CriticLoss, critic_loss, each, least


def ddpg_critic_loss(
    network: ActorCritic, target_network: ActorCritic, batch: Mapping[str, Any], gamma: float, types_taken: bool = True
) -> CriticLoss:
    """Squared errors of the critics to ``r + gamma min_i Q_i'(s', mu'(s'))``.

    Args:
        network, target_network: see :class:`ding.model.ContinuousQAC`; the target may add noise to its actions.
        batch: ``obs, next_obs`` ``[B, ...]``; ``action`` ``[B, N]`` (of a hybrid a dict with ``action_args``, and
            ``logit`` beside it); ``reward, done, weight`` (or None) ``[B]``.
        types_taken: of hybrid actions, whether the critics read the types that were and will be taken, and not the
            chances of all types: what was drawn, or even random, says nothing of these.
    """
    with torch.no_grad():
        following = target_network(batch["next_obs"], mode="compute_actor")
        if types_taken and "action_args" in following:
            following = {**following, "logit": _certain(following["logit"], following["logit"].argmax(-1))}
            batch = {**batch, "logit": _certain(batch["logit"], batch["action"]["action_type"])}
        next_value = least(target_network(_inputs(batch["next_obs"], following), mode="compute_critic")["q_value"])
    q_value = network(_inputs(batch["obs"], batch), mode="compute_critic")["q_value"]
    return critic_loss(q_value, next_value, batch, gamma)


def ddpg_actor_loss(network: ActorCritic, obs: Any) -> torch.Tensor:
    """``-mean Q(s, mu(s))`` by the first critic: 0-d."""
    return -first_value(network, obs, network(obs, mode="compute_actor")).mean()


def first_value(network: ActorCritic, obs: Any, output: Mapping[str, Any]) -> torch.Tensor:
    """``Q(s, a)`` by the first critic for the actions in the output of an actor: ``[B]``."""
    # A network of another make computes all critics.
    mode = "compute_first_critic" if "compute_first_critic" in getattr(network, "mode", ()) else "compute_critic"
    return each(network(_inputs(obs, output), mode=mode)["q_value"])[0]


def _inputs(obs: Any, output: Mapping[str, Any]) -> dict[str, Any]:
    """What a critic takes, from the output of an actor or from samples."""
    if "action_args" in output:
        return {"obs": obs, "logit": output["logit"], "action": {"action_args": output["action_args"]}}
    action = output["action"]
    return {"obs": obs, "action": action, **({"logit": output["logit"]} if isinstance(action, Mapping) else {})}


def _certain(logit: torch.Tensor, action_type: torch.Tensor) -> torch.Tensor:
    """Logits ``[B, types]`` by which the types int64 ``[B]`` have a chance of 1."""
    taken = torch.zeros_like(logit, dtype=torch.bool).scatter_(-1, action_type.reshape(-1, 1), True)
    return torch.zeros_like(logit).masked_fill_(~taken, float("-inf"))
