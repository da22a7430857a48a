"""The losses of QMIX and its relatives, over sequences of T steps of B episodes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ding.policy._joint_q import JointNetwork, TargetSettings, learner_values, next_values, taken_values
from ding.policy._learning.q_values import QLoss, greedy
from ding.rl_utils import v_1step_td_data, v_1step_td_error, v_nstep_td_data, v_nstep_td_error


def qmix_loss(
    network: JointNetwork, target_network: JointNetwork, batch: Mapping[str, Any], settings: TargetSettings
) -> tuple[QLoss, Mapping[str, Any]]:
    """The squared one-step error of the joint value (arXiv:1803.11485, equation 6).

    Args:
        batch: see ``JointQPolicy._time_first``.

    Returns:
        The loss, with the squared errors ``[T, B]``; and the output of ``network`` for the observations.
    """
    output, following = learner_values(network, batch, settings, settings.double_q)
    target_q = _target_values(target_network, batch, settings, following)
    loss, error = joint_td_error(output["total_q"], target_q, batch, settings.gamma)
    return QLoss(loss, error.detach(), _numbers(output["total_q"], target_q, batch, settings.gamma)), output


def joint_td_error(
    total_q: torch.Tensor, target_q: torch.Tensor, batch: Mapping[str, Any], gamma: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted mean of the squared one-step errors, and each of them ``[T, B]``; values ``[T, B]``."""
    fields = (total_q, target_q, batch["reward"], batch["done"], batch["weight"])
    loss, error = v_1step_td_error(v_1step_td_data(*(field.flatten() for field in fields)), gamma)
    return loss, error.view_as(total_q)


class WQMIXLoss(NamedTuple):
    """The two losses of weighted QMIX, and values to log, each 0-d."""

    loss: torch.Tensor
    loss_star: torch.Tensor
    numbers: dict[str, torch.Tensor]


def wqmix_loss(
    network: JointNetwork,
    target_network: JointNetwork,
    batch: Mapping[str, Any],
    settings: TargetSettings,
    alpha: float,
    optimistic: bool,
) -> WQMIXLoss:
    """The errors of the monotone joint value and of ``Q*``, towards the same target by ``Q*`` (arXiv:2006.10800).

    Args:
        target_network: gives the target, with ``q_star=True``.
        alpha: the weight of joint actions that are not to be approached.
        optimistic: full weight where the value is too low (OW-QMIX), else where the joint action may be the best one
            (CW-QMIX).
    """
    gamma = settings.gamma
    output, following = learner_values(network, batch, settings, settings.double_q)
    assert following is not None  # settings.double_q
    star = taken_values(network, batch, q_star=True)["total_q"]
    total_q = output["total_q"]
    with torch.no_grad():
        stored = "second_state" if settings.reference_numerics else None
        action = _greedy(following, batch["next_obs"])
        target_q = next_values(target_network, batch, action, stored_state=stored, q_star=True)["total_q"]
        target = batch["reward"] + gamma * (1 - batch["done"]) * target_q
        if optimistic:
            full = total_q < target
        else:
            best = _greedy(output, batch["obs"])
            best_value = taken_values(network, {**batch, "action": best}, q_star=True)["total_q"]
            full = (best == batch["action"]).all(-1) | (target > best_value)
        weight = torch.where(full, 1.0, alpha)
    loss, _ = joint_td_error(total_q, target_q, {**batch, "weight": weight * batch["weight"]}, gamma)
    loss_star, _ = joint_td_error(star, target_q, batch, gamma)
    return WQMIXLoss(loss, loss_star, _numbers(total_q, target_q, batch, gamma))


def collaq_loss(
    network: JointNetwork,
    target_network: JointNetwork,
    batch: Mapping[str, Any],
    settings: TargetSettings,
    colla_weight: float,
) -> QLoss:
    """The loss of QMIX, and that of what an agent expects of others who are not there (arXiv:2010.08531)."""
    result, output = qmix_loss(network, target_network, batch, settings)
    alone = output["agent_colla_alone_q"].sum((-2, -1)).square()
    colla_loss = (alone * batch["weight"]).mean()
    numbers = {"colla_loss": colla_loss, "td_loss": result.loss}
    return QLoss(result.loss + colla_weight * colla_loss, result.priority, numbers)


def qtran_loss(
    network: JointNetwork,
    target_network: JointNetwork,
    batch: Mapping[str, Any],
    settings: TargetSettings,
    weights: tuple[float, float, float],
) -> QLoss:
    """The errors of the joint value and of its two bounds by the sum of the agents' values (arXiv:1905.05408,
    equations 6 to 8).

    Args:
        weights: of the three of them.
    """
    in_turn = settings.reference_numerics and settings.double_q
    output, following = learner_values(network, batch, settings, settings.double_q and not in_turn)
    total_q, agent_q = output["total_q"], output["agent_q_act"]
    with torch.no_grad():
        next_state = batch["prev_state"]
        if in_turn:
            # There the passes of the learner follow each other without a reset.
            after = {"obs": batch["next_obs"], "prev_state": output["next_state"]}
            chosen = network(after, single_step=False)
            next_state = chosen["next_state"]
            action = _greedy(chosen, batch["next_obs"])
            target_q = next_values(target_network, batch, action, stored_state="prev_state")["total_q"]
        else:
            next_state = output["next_state"] if settings.reference_numerics else next_state
            target_q = _target_values(target_network, batch, settings, following)
        best = _greedy(output, batch["obs"])
        greedy = {"obs": batch["obs"], "prev_state": next_state, "action": best}
        best_total = network(greedy, single_step=False)["total_q"]
    td_loss, error = joint_td_error(total_q, target_q, batch, settings.gamma)
    best_sum = output["logit"].gather(-1, best.unsqueeze(-1)).squeeze(-1).sum(-1)
    opt_error = best_sum - best_total + output["vs"]
    nopt_error = (agent_q.sum(-1) - total_q.detach() + output["vs"]).clamp(max=0)
    opt_loss, nopt_loss = ((part.square() * batch["weight"]).mean() for part in (opt_error, nopt_error))
    loss = weights[0] * td_loss + weights[1] * opt_loss + weights[2] * nopt_loss
    return QLoss(loss, error.detach(), {"td_loss": td_loss, "opt_loss": opt_loss, "nopt_loss": nopt_loss})


def _greedy(output: Mapping[str, Any], obs: Mapping[str, Any]) -> torch.Tensor:
    """The best allowed actions ``[T, B, A]`` of an output."""
    return greedy(output["logit"], obs.get("action_mask"))


@torch.no_grad()
def _target_values(
    target_network: JointNetwork,
    batch: Mapping[str, Any],
    settings: TargetSettings,
    following: Mapping[str, Any] | None,
) -> torch.Tensor:
    """The values ``[T, B]`` of the next observations, and of the actions that are the best ones by ``following``, the
    output of the learner there; ``None``: by the target network.
    """
    action = None if following is None else _greedy(following, batch["next_obs"])
    stored = "prev_state" if settings.reference_numerics else None
    return next_values(target_network, batch, action, stored_state=stored)["total_q"]


def _numbers(
    total_q: torch.Tensor, target_q: torch.Tensor, batch: Mapping[str, Any], gamma: float
) -> dict[str, torch.Tensor]:
    """Mean values per agent, to log."""
    agents = batch["action"].shape[-1]
    target = batch["reward"] + gamma * (1 - batch["done"]) * target_q
    return {
        "total_q": total_q.detach().mean() / agents,
        "target_reward_total_q": target.mean() / agents,
        "target_total_q": target_q.mean() / agents,
    }


class MADQNLoss(NamedTuple):
    """The losses of both networks, and values to log, each 0-d."""

    loss: torch.Tensor
    cooperation_loss: torch.Tensor
    numbers: dict[str, torch.Tensor]


def madqn_loss(
    network: JointNetwork,
    target_network: JointNetwork,
    batch: Mapping[str, Any],
    settings: TargetSettings,
    nstep: int,
) -> MADQNLoss:
    """The squared n-step errors of the agents' joint value and of the cooperative one, towards the target network of
    the latter.

    Args:
        batch: see ``JointQPolicy._time_first``; ``reward`` ``[T, B]`` for one step, else ``[nstep, T, B]``; optionally
            ``value_gamma`` ``[T, B]``.
    """
    total_q = taken_values(network, batch)["total_q"]
    cooperative = taken_values(network, batch, cooperation=True)["total_q"]
    stored = "prev_state" if settings.reference_numerics else None
    options: dict[str, Any] = {"nstep": nstep, "stored_state": stored, "cooperation": True}
    with torch.no_grad():
        action = None
        if settings.double_q:
            action = _greedy(next_values(network, batch, **options), batch["next_obs"])
        target_q = next_values(target_network, batch, action, **options)["total_q"]
    reward, value_gamma = batch["reward"].reshape(nstep, -1), batch.get("value_gamma")
    fields = (reward, batch["done"].flatten(), batch["weight"].flatten())
    given = None if value_gamma is None else value_gamma.flatten()

    def error(value: torch.Tensor) -> torch.Tensor:
        data = v_nstep_td_data(value.flatten(), target_q.flatten(), *fields, given)
        return v_nstep_td_error(data, settings.gamma, nstep)[0]

    agents = batch["action"].shape[-1]
    numbers = {"total_q": total_q.detach().mean() / agents, "target_total_q": target_q.mean() / agents}
    return MADQNLoss(error(total_q), error(cooperative), numbers)
