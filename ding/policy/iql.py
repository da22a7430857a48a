"""IQL: implicit Q-learning from data sets (Kostrikov et al. 2021, arXiv:2110.06169)."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from ding.data import EnvBatch, batched
from ding.model import model_wrap
from ding.policy._learning.critics import critic_losses, priorities, q_values
from ding.policy._learning.optimization import clipping_adam
from ding.policy.ddpg import DDPGPolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("iql")
class IQLPolicy(DDPGPolicy):
    """Implicit Q-learning: a value function that is an upper expectile of the critics over the actions of the data, and
    an actor by advantage-weighted regression.
    """

    # Data sets hold the env's own actions.
    acts_in_unit_range = False

    config = {
        "type": "iql",
        "random_collect_size": 0,
        "model": {
            "action_space": "reparameterization",
            "twin_critic": True,
            "actor_head_hidden_size": 256,
            "critic_head_hidden_size": 256,
        },
        "learn": {
            "learning_rate_actor": 3e-4,
            "learning_rate_critic": 3e-4,
            "learning_rate_value": 3e-4,
            # (float) The expectile of the values, in (0, 1): 0.5 is the mean.
            "expectile": 0.7,
            # (float) Inverse temperature of the weights of the actor's regression, and their limit.
            "beta": 3.0,
            "max_weight": 100.0,
        },
        "other": {"replay_buffer": {"replay_buffer_size": 1000000}},
    }

    learn_state = {**DDPGPolicy.learn_state, "optimizer_value": "_optimizer_value"}

    def default_model(self) -> tuple[str, list[str]]:
        """``continuous_qvac`` of :mod:`ding.model.template.qvac`."""
        return "continuous_qvac", ["ding.model.template.qvac"]

    def _init_learn(self) -> None:
        super()._init_learn()
        learn, self._value_head = self._cfg.learn, self._model.get_submodule("value_head")
        self._optimizer_value = clipping_adam(self._value_head.parameters(), learn, lr=learn.learning_rate_value)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of value function, critics and actor; only actions of the data are ever evaluated.

        ``V(s)`` is an expectile of ``min_i Q_i'(s, a)``, and ``Q_i(s, a)`` meets ``r + discount V(s')``. The actor
        maximises ``min(exp(beta A), max_weight) log pi(a | s)`` with ``A = min_i Q_i'(s, a) - V(s)``. ``pi`` is a
        normal distribution around ``tanh(mu)``, not squashed: actions at the bounds keep a finite density.
        """
        learn, obs, action = self._cfg.learn, batch["obs"], batch["action"]
        with torch.no_grad():
            q_target = q_values(self._target_model.forward, obs, action=action).amin(0)
            next_value = self._model(batch["next_obs"], mode="compute_value")["v_value"]
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        value = self._model(obs, mode="compute_value")["v_value"]
        advantage = q_target - value
        share = torch.where(advantage.detach() < 0, 1 - learn.expectile, learn.expectile)
        value_loss = (share * advantage.square()).mean()
        q = q_values(self._model, obs, action=action)
        losses = critic_losses(q - target, batch["weight"])
        mu, sigma = self._model(obs, mode="compute_actor")["logit"]
        distance = (action - torch.tanh(mu)) / sigma
        log_prob = (-0.5 * distance.square() - sigma.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
        exp_advantage = (learn.beta * advantage.detach()).exp().clamp(max=learn.max_weight)
        actor_loss = -(exp_advantage * log_prob).mean()
        self._optimize(value_loss, self._optimizer_value, self._value_head)
        self._optimize(losses.sum(), self._optimizer_critic, self._model.critic)
        self._optimize(actor_loss, self._optimizer_actor, self._model.actor)
        self._target_model.update(self._model)
        return {
            "total_loss": value_loss + losses.mean() + actor_loss,
            "value_loss": value_loss,
            "critic_loss": losses.mean(),
            "actor_loss": actor_loss,
            "v_value": value.detach().mean(),
            "q_value": q[0].detach().mean(),
            "advantage": advantage.detach().mean(),
            "td_error": (q - target).detach().square().mean(),
            "priority": priorities(q - target, self._reference_numerics),
        }

    def _monitor_vars_learn(self) -> list[str]:
        names = ["total_loss", "value_loss", "critic_loss", "actor_loss", "v_value", "q_value", "advantage", "td_error"]
        return ["cur_lr_actor", "cur_lr_critic", *names]

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = model_wrap(self._model, wrapper_name="squashed_deterministic_sample")
        self._collect_model = model_wrap(
            self._collect_model,
            wrapper_name="action_noise",
            noise_type="gauss",
            noise_kwargs={"mu": 0.0, "sigma": self._cfg.collect.noise_sigma},
        )

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="squashed_deterministic_sample")

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The means: ``action`` float32 ``[N, D]``."""
        return self._act(self._eval_model, data, mode="compute_actor")
