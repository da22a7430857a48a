"""EDAC: SAC from data sets with an ensemble of diverse critics (An et al. 2021, arXiv:2110.01548)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.critics import ActorCritic
from ding.policy.sac import EnsembleSACPolicy
from ding.utils import POLICY_REGISTRY


def diversity_loss(network: ActorCritic, obs: torch.Tensor, action: torch.Tensor, ensemble_num: int) -> torch.Tensor:
    """Return ``mean sum_{i != j} cos(grad_a Q_i(s, a), grad_a Q_j(s, a)) / (E - 1)`` over E members: 0-d; 0 for one.

    Args:
        network: see :class:`ding.model.template.EDAC`.
        obs: ``[B, n]``.
        action: ``[B, N]``.
    """
    if ensemble_num == 1:
        return obs.new_zeros(())
    obs = obs.expand(ensemble_num, *obs.shape)
    action = action.detach().expand(ensemble_num, *action.shape).clone().requires_grad_(True)
    value = network({"obs": obs, "action": action}, mode="compute_critic")["q_value"]
    (gradient,) = torch.autograd.grad(value.sum(), action, create_graph=True)
    unit = (gradient / (gradient.norm(dim=2, keepdim=True) + 1e-10)).transpose(0, 1)
    cosines = unit @ unit.transpose(1, 2)
    between = cosines.sum((1, 2)) - cosines.diagonal(dim1=1, dim2=2).sum(1)
    output: torch.Tensor = between.mean() / (ensemble_num - 1)
    return output


@POLICY_REGISTRY.register("edac")
class EDACPolicy(EnsembleSACPolicy):
    """SAC with the smallest of E critics, whose gradients are kept apart so that few of them are enough; the rest is as
    in :class:`~ding.policy.sac.SACPolicy`.

    ``critic_loss`` is the sum over the members plus ``learn.eta`` times :func:`diversity_loss`.
    """

    # Data sets hold the env's own actions.
    acts_in_unit_range = False

    config = {
        "type": "edac",
        "model": {"ensemble_num": 10, "actor_head_hidden_size": 256, "critic_head_hidden_size": 256},
        "learn": {
            "alpha": 1,
            # (bool) Whether targets hold the entropy of the policy.
            "with_q_entropy": False,
            # (float) Weight of the diversity of the critics' gradients.
            "eta": 0.1,
        },
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``edac`` of :mod:`ding.model.template.edac`."""
        return "edac", ["ding.model.template.edac"]

    def _init_weights(self) -> None:
        """Start with small means and deviations around 1."""
        bound, head = self._cfg.learn.init_w, self._model.get_submodule("actor.2")
        for name, parameter in head.named_parameters():
            if name.startswith(("mu.", "log_sigma_layer.")):
                parameter.data.uniform_(-bound, bound)

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        learn = self._cfg.learn
        critic = self._critic_loss(batch, alpha if learn.with_q_entropy else 0.0)
        loss = critic.losses.sum()
        if learn.eta > 0:
            loss = loss + learn.eta * diversity_loss(
                self._model, batch["obs"], batch["action"], self._cfg.model.ensemble_num
            )
        self._optimize(loss, self._optimizer_q, self._model.critic)
        return {"critic_loss": loss}, self._critic_numbers(critic)
