"""TD-MPC2: plans in a latent world model, whose values reach beyond the plan (Hansen et al. 2023, arXiv:2310.16828).

Shapes: B sequences of T = ``policy.horizon`` steps, tensors ``[T, B, ...]``; latent states of size L.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ding.model.template.tdmpc2 import TDMPC2
from ding.policy._acting.planning import PlanningPolicy
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.target_update import target_network
from ding.policy.mbpolicy.utils import RewardEMA
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("tdmpc2")
class TDMPC2Policy(PlanningPolicy):
    """A latent world model, Q functions in it and a policy prior learn together from sequences of ``horizon`` steps,
    without decoding observations. Rewards and values are classified on a scale of two-hot symlog buckets.

    How it acts by plans is in :class:`~ding.policy._acting.planning.PlanningPolicy`. Plans do not foresee the end of an
    episode; values know it.
    """

    config: ClassVar[dict[str, Any]] = {
        "type": "tdmpc2",
        "cuda": False,
        "on_policy": False,
        # (int) Samples of random actions before the first update.
        "random_collect_size": 2500,
        "transition_with_policy_data": False,
        "learn": {
            "update_per_collect": 1,
            "batch_size": 256,
            "learning_rate": 3e-4,
            # (float) Factor of the learning rate of the encoder, typically 0.3: latent states change slowly.
            "encoder_lr_scale": 0.3,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": 20,
            # (float) Discount factor per step, typically 0.95 to 0.995: 1 - 5 / length of an episode.
            "discount_factor": 0.99,
            # (float) Weight of a step in the losses relative to the one before it, typically 0.5; 1: all alike.
            "rho": 0.5,
            # (float) Weight of the loss of predicted latent states, typically 20: they are small numbers.
            "consistency_weight": 20.0,
            # (float) Weight of the loss of predicted rewards, typically 0.1, as that of values.
            "reward_weight": 0.1,
            "value_weight": 0.1,
            # (float) Weight of the entropy of the policy prior, typically 1e-4; more make it propose more widely.
            "entropy_weight": 1e-4,
            # (int) Random Q functions of which targets take the smallest value and the prior the mean, typically 2.
            "num_drawn_q": 2,
            # (float) The share by which the target network moves to the learner at each update.
            "target_theta": 0.01,
            "ignore_done": False,
        },
        "collect": {"n_sample": 1},
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 1000000}},
    }

    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer": "_optimizer",
        "optimizer_policy": "_optimizer_policy",
        "scale": "_scale",
    }
    learn_rates: ClassVar[dict[str, str]] = {"cur_lr": "_optimizer"}
    _model: TDMPC2

    def default_model(self) -> tuple[str, list[str]]:
        """``tdmpc2`` of :mod:`ding.model.template.tdmpc2`."""
        return "tdmpc2", ["ding.model.template.tdmpc2"]

    def _init_learn(self) -> None:
        learn, world = self._cfg.learn, self._model.world
        others = [parameter for name, part in world.items() if name != "encoder" for parameter in part.parameters()]
        encoder = {"params": [*world["encoder"].parameters()], "lr": learn.learning_rate * learn.encoder_lr_scale}
        self._optimizer = clipping_adam([{"params": others}, encoder], learn)
        self._optimizer_policy = clipping_adam(self._model.actor.parameters(), learn, eps=1e-5)
        self._learn_model, self._scale = self._model, RewardEMA(self._device)
        self._target_model = target_network(self._model, learn, TDMPC2Policy.config["learn"])
        self._target_model.eval()  # without dropout

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        learn = self._cfg.learn
        consistency, reward, value, latents, target = self._world_losses(batch)
        loss = learn.consistency_weight * consistency + learn.reward_weight * reward + learn.value_weight * value
        self._optimize(loss, self._optimizer, self._model.world)
        policy_loss, numbers = self._policy_loss(latents.detach(), batch["null"])
        self._optimize(policy_loss, self._optimizer_policy, self._model.actor)
        self._target_model.update(self._model)
        losses = {"consistency_loss": consistency, "reward_loss": reward, "value_loss": value}
        return {"total_loss": loss, **losses, "policy_loss": policy_loss, "target_q_value": target.mean(), **numbers}

    def _world_losses(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """With ``z_0 = h(s_0)`` and ``z_{t+1} = d(z_t, a_t)``, the means over t and B, weighted by ``rho^t``, of

        * ``|z_{t+1} - sg(h(s_{t+1}))|^2 / L``,
        * the cross entropy of ``R(z_t, a_t)`` with ``r_t``,
        * those of all ``Q_i(z_t, a_t)`` with ``r_t + gamma min_{j in S} Q'_j(h(s_{t+1}), a')``, their mean; ``a'`` is
          drawn from the prior, and ``S`` are ``num_drawn_q`` random Q functions;

        and ``z`` ``[T + 1, B, L]`` and the targets ``[T, B]``.
        """
        model, action, reward = self._model, batch["action"], batch["reward"]
        with torch.no_grad():
            ahead = model.encode(batch["obs"][1:])
            next_action, _ = squashed_sample(*model.prior(ahead))
            next_value = self._drawn_values(self._target_model, ahead, next_action).amin(0)
            target = reward + self._cfg.learn.discount_factor * (1 - batch["done"]) * next_value
        latents = [model.encode(batch["obs"][0])]
        for one in action.unbind(0):
            latents.append(model.step(latents[-1], one))
        z, share = torch.stack(latents), self._shares(batch["null"])
        consistency = (z[1:] - ahead).square().mean(-1)
        reward_loss = -model.reward(z[:-1], action).log_prob(reward.unsqueeze(-1))
        values = model.values(z[:-1], action)
        value_loss = -values.log_prob(target.unsqueeze(-1).expand(*values.logits.shape[:-1], 1)).mean(0)
        return *((share * loss).sum() for loss in (consistency, reward_loss, value_loss)), z, target

    def _policy_loss(self, z: torch.Tensor, null: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The mean over t and B, weighted by ``rho^t``, of ``eta log p(a | z_t) - Q(z_t, a) / S``: ``Q`` the mean of
        ``num_drawn_q`` random Q functions, ``a`` drawn by reparametrisation, ``S`` the running range of ``Q(z_0, a)``.
        """
        action, log_prob = squashed_sample(*self._model.prior(z))
        q = self._drawn_values(self._model, z, action).mean(0)
        _, scale = self._scale(q[0])
        share = self._shares(torch.cat([null[:1], null]))
        loss = (share * (self._cfg.learn.entropy_weight * log_prob - q / scale)).sum()
        return loss, {"q_value": q.detach().mean(), "scale": scale, "entropy": -log_prob.detach().mean()}

    def _drawn_values(self, network: Any, z: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Values ``[num_drawn_q, ..., B]`` of random Q functions."""
        values: torch.Tensor = network.values(z, action).mean().squeeze(-1)
        return values[torch.randperm(len(values), device=values.device)[: self._cfg.learn.num_drawn_q]]

    def _shares(self, null: torch.Tensor) -> torch.Tensor:
        """The weight of each step in a mean, ``[T, B]``."""
        steps = torch.arange(len(null), device=null.device).unsqueeze(1)
        return float(self._cfg.learn.rho) ** steps * (1 - null) / null.numel()

    def _monitor_vars_learn(self) -> list[str]:
        losses = ["total_loss", "consistency_loss", "reward_loss", "value_loss", "policy_loss"]
        return ["cur_lr", *losses, "q_value", "target_q_value", "scale", "entropy"]
