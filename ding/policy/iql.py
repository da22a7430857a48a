"""IQL: implicit Q-learning from data sets (Kostrikov et al. 2021, arXiv:2110.06169)."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ding.data import EnvBatch, batched
from ding.model import model_wrap
from ding.policy._learning.optimization import clipping_adam
from ding.policy._q_critic import ActorCritic, CriticLoss, critic_loss, least, priorities
from ding.policy.ddpg import DDPGPolicy
from ding.utils import POLICY_REGISTRY


class IQLLoss(NamedTuple):
    """What :func:`iql_loss` returns."""

    #: 0-d, with gradients to the value function alone.
    value_loss: torch.Tensor
    #: With gradients to the critics alone.
    critic: CriticLoss
    #: 0-d, with gradients to the actor alone.
    actor_loss: torch.Tensor
    #: The means of the value function and of the advantages of the data, 0-d.
    value: torch.Tensor
    advantage: torch.Tensor


def iql_loss(
    network: ActorCritic,
    target_network: ActorCritic,
    batch: Mapping[str, Any],
    gamma: float,
    expectile: float,
    beta: float,
    max_weight: float,
) -> IQLLoss:
    """Expectile regression of ``V(s)`` to ``min_i Q_i'(s, a)``, squared errors of the critics to ``r + gamma V(s')``,
    and ``-mean min(exp(beta (Q' - V)), max_weight) log pi(a | s)``. Only actions of the data are ever evaluated.

    ``pi`` is a normal distribution around ``tanh(mu)``, not squashed: actions at the bounds keep a finite density.

    Args:
        network, target_network: see :class:`ding.model.ContinuousQVAC` with ``action_space='reparameterization'``.
        batch: ``obs, next_obs`` ``[B, ...]``, ``action`` ``[B, N]``, ``reward, done, weight`` (or None) ``[B]``.
    """
    obs, action = batch["obs"], batch["action"]
    with torch.no_grad():
        target = least(target_network({"obs": obs, "action": action}, mode="compute_critic")["q_value"])
        next_value = network(batch["next_obs"], mode="compute_value")["v_value"]
    value = network(obs, mode="compute_value")["v_value"]
    error = target - value
    share = torch.where(error.detach() < 0, 1 - expectile, expectile)
    critic = critic_loss(
        network({"obs": obs, "action": action}, mode="compute_critic")["q_value"], next_value, batch, gamma
    )
    mu, sigma = network(obs, mode="compute_actor")["logit"]
    distance = (action - torch.tanh(mu)) / sigma
    log_prob = (-0.5 * distance.square() - sigma.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
    weight = (beta * error.detach()).exp().clamp(max=max_weight)
    actor_loss = -(weight * log_prob).mean()
    return IQLLoss((share * error.square()).mean(), critic, actor_loss, value.detach().mean(), error.detach().mean())


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
        """One update of value function, critics and actor."""
        learn = self._cfg.learn
        result = iql_loss(
            self._model, self._target_model.forward, batch, self._gamma, learn.expectile, learn.beta, learn.max_weight
        )
        self._optimize(result.value_loss, self._optimizer_value, self._value_head)
        self._optimize(torch.stack(result.critic.losses).sum(), self._optimizer_critic, self._model.critic)
        self._optimize(result.actor_loss, self._optimizer_actor, self._model.actor)
        self._target_model.update(self._model)
        numbers = {
            "value_loss": result.value_loss,
            "critic_loss": torch.stack(result.critic.losses).mean(),
            "actor_loss": result.actor_loss,
            "v_value": result.value,
            "q_value": result.critic.q_values[0],
            "advantage": result.advantage,
            "td_error": result.critic.error.mean(),
            "priority": priorities(result.critic.error, self._reference_numerics),
        }
        total = numbers["value_loss"] + numbers["critic_loss"] + numbers["actor_loss"]
        return {"total_loss": total, **numbers}

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
