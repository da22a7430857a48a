"""SQIL with SAC: imitation by rewards of one for an expert's samples and of zero for one's own."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ding.policy._q_critic import priorities
from ding.policy._sac import ActorLoss, SACPolicy, sac_critic_loss
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import map_nested


@POLICY_REGISTRY.register("sqil_sac")
class SQILSACPolicy(SACPolicy):
    """SAC for soft Q imitation learning (Reddy et al. 2019, arXiv:1905.11108).

    A batch holds the agent's samples in its first half and the expert's in its second, as the pipeline makes it. It
    logs the TD error of each half, and the cosine between the gradients that both give to the critics.
    """

    config = {"type": "sqil_sac"}

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        half = len(batch["reward"]) // 2
        target, critic = self._target_model.forward, self._model.critic
        agent, expert = (
            sac_critic_loss(self._model, target, alpha, _rows(batch, rows), self._gamma, self._reference_numerics)
            for rows in (slice(0, half), slice(half, None))
        )
        parameters = [parameter for parameter in critic.parameters() if parameter.requires_grad]
        expert_gradients = torch.autograd.grad(torch.stack(expert.losses).sum(), parameters, retain_graph=True)
        losses = [(own + shown) / 2 for own, shown in zip(agent.losses, expert.losses)]
        self._optimize(torch.stack(losses).sum(), self._optimizer_q, critic)
        # The gradient of the mean of both losses is still there: what the agent's half gave is the rest of it.
        both = torch.cat([parameter.grad.reshape(-1) for parameter in parameters if parameter.grad is not None])
        shown_gradient = torch.cat([gradient.reshape(-1) for gradient in expert_gradients])
        error = torch.cat([agent.error, expert.error])
        numbers = {
            "priority": priorities(error, self._reference_numerics),
            "td_error": error.mean(),
            "agent_td_error": agent.error.mean(),
            "expert_td_error": expert.error.mean(),
            "target_q_value": (agent.target_q_value + expert.target_q_value) / 2,
            "cos_similarity": F.cosine_similarity(2 * both - shown_gradient, shown_gradient, dim=0),
        }
        numbers |= {
            f"q_value{i}": (own + shown) / 2 for i, (own, shown) in enumerate(zip(agent.q_values, expert.q_values))
        }
        return dict(zip(("critic_loss", "twin_critic_loss"), losses)), numbers

    def _actor_numbers(self, actor: ActorLoss) -> dict[str, torch.Tensor]:
        return {"mu": actor.mu.mean(), "sigma": actor.sigma.mean(), "entropy": -actor.log_prob.mean()}

    def _monitor_vars_learn(self) -> list[str]:
        shared = [name for name in super()._monitor_vars_learn() if name != "transformed_log_prob"]
        values = ["q_value0", *(["q_value1"] if self._cfg.model.get("twin_critic", False) else [])]
        halves = ["agent_td_error", "expert_td_error", "cos_similarity"]
        return [*shared, *halves, *values, "mu", "sigma", "entropy"]


def _rows(batch: Mapping[str, Any], rows: slice) -> dict[str, Any]:
    part: dict[str, Any] = map_nested(lambda leaf: None if leaf is None else leaf[rows], batch)
    return part
