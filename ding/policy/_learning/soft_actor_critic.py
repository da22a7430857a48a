"""What the soft actor-critics have in common: optimisers, temperature, target network, what is logged."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ding.data import batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._learning.critics import ActorCriticModule
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.target_update import actor_turns, target_network
from ding.policy.base_policy import Policy
from ding.rl_utils import get_train_sample


class Temperature(nn.Module):
    """``alpha``, which weighs the entropy against the reward (arXiv:1812.05905, section 5).

    State: the parameter ``log_alpha`` (or ``alpha`` without ``log_space``); nothing for a fixed one.

    Args:
        alpha: the value at the start.
        learned: whether it follows :meth:`loss`.
        log_space: whether its logarithm is the parameter; else it is itself, kept from below zero by :meth:`clamp`.
    """

    def __init__(self, alpha: float, learned: bool = True, log_space: bool = True) -> None:
        super().__init__()
        self._name = "log_alpha" if log_space else "alpha"
        value = torch.tensor(math.log(alpha) if log_space else float(alpha))
        if learned:
            self.register_parameter(self._name, nn.Parameter(value))
        else:
            self.register_buffer(self._name, value, persistent=False)

    @classmethod
    def from_config(cls, learn_cfg: Mapping[str, Any], device: torch.device | str) -> "Temperature":
        """By the keys ``alpha``, ``auto_alpha`` and ``log_space`` of a ``learn`` section."""
        return cls(learn_cfg["alpha"], learn_cfg["auto_alpha"], learn_cfg["log_space"]).to(device)

    @property
    def value(self) -> torch.Tensor:
        """``alpha`` without gradients: 0-d."""
        own = getattr(self, self._name).detach()
        output: torch.Tensor = own.exp() if self._name == "log_alpha" else own
        return output

    def loss(self, log_prob: torch.Tensor, target_entropy: float) -> torch.Tensor:
        """What moves the entropy, the mean of ``-log_prob``, to ``target_entropy``: 0-d.

        Args:
            log_prob: of actions of the policy, any shape; no gradients flow to it.
        """
        output: torch.Tensor = -(getattr(self, self._name) * (log_prob.detach() + target_entropy)).mean()
        return output

    @torch.no_grad()
    def clamp(self) -> None:
        """Keep a temperature that is not learned in log space from becoming negative."""
        if self._name == "alpha":
            getattr(self, self._name).clamp_(min=0.0)


class SoftActorCriticPolicy(Policy):
    """An actor, critics, and a temperature ``alpha`` that ``learn.auto_alpha`` learns so that the entropy comes to
    ``learn.target_entropy`` (Haarnoja et al. 2018, arXiv:1812.05905).

    A subclass has the losses.
    """

    optional_keys = {"learn": "betas optim_type"}
    acts_in_unit_range = True

    config = {
        "cuda": False,
        "on_policy": False,
        "priority": False,
        "priority_IS_weight": False,
        # (int) Samples that are collected before the first update.
        "random_collect_size": 10000,
        # (bool) Whether they are the policy's own; else random actions.
        "transition_with_policy_data": True,
        # (bool) Whether the observations and actions are those of several agents.
        "multi_agent": False,
        "model": {"twin_critic": True},
        "learn": {
            "update_per_collect": 1,
            "batch_size": 256,
            "learning_rate_q": 3e-4,
            "learning_rate_policy": 3e-4,
            "learning_rate_alpha": 3e-4,
            # (float) The share by which the target network moves to the learner at each update.
            "target_theta": 0.005,
            "discount_factor": 0.99,
            # (float) The temperature, at the start if it is learned.
            "alpha": 0.2,
            # (bool) Whether it is learned, and whether its logarithm is.
            "auto_alpha": True,
            "log_space": True,
            # (float or None) The entropy in nats to which the temperature leads; None takes minus the number of
            # dimensions of the action.
            "target_entropy": None,
            "ignore_done": False,
            # (float) Range of the actor's output layer at the start.
            "init_w": 3e-3,
        },
        "collect": {
            "n_sample": 1,
            "unroll_len": 1,
            # (bool) Whether samples keep ``logit``, mean and deviation of the distribution.
            "collector_logit": False,
        },
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 1000000}},
    }

    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer_q": "_optimizer_q",
        "optimizer_policy": "_optimizer_policy",
    }

    learn_rates = {"cur_lr_q": "_optimizer_q", "cur_lr_p": "_optimizer_policy"}

    _model: ActorCriticModule
    _unroll_len: int

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        self._gamma = float(learn.discount_factor)
        self._init_weights()
        self._optimizer_q = clipping_adam(model.critic.parameters(), learn, lr=learn.learning_rate_q)
        self._turns = actor_turns(self._optimizer_q, learn.get("actor_update_freq", 1))
        self._optimizer_policy = clipping_adam(model.actor.parameters(), learn, lr=learn.learning_rate_policy)
        self._temperature = Temperature.from_config(learn, self._device)
        if learn.auto_alpha:
            parameters, schedule = self._temperature.parameters(), {"lr_scheduler": learn.get("lr_scheduler")}
            self._optimizer_alpha = clipping_adam(parameters, schedule, lr=learn.learning_rate_alpha)
            self.learn_state = self.learn_state | {"optimizer_alpha": "_optimizer_alpha", "alpha": "_temperature"}
        entropy = learn.target_entropy
        self._target_entropy = self._default_entropy() if entropy is None else float(entropy)
        self._learn_model = model_wrap(model, wrapper_name="base")
        self._init_target()

    def _init_target(self) -> None:
        """Build the target network."""
        defaults = SoftActorCriticPolicy.config["learn"]
        self._target_model = target_network(self._model, self._cfg.learn, defaults, self._reference_numerics)

    @abstractmethod
    def _default_entropy(self) -> float:
        """The target entropy in nats where the config names none."""

    def _init_weights(self) -> None:
        """Change the network before the target network is copied from it."""

    def _update_temperature(self, log_prob: torch.Tensor) -> dict[str, torch.Tensor]:
        """One step of ``alpha`` on ``-mean alpha (log pi + target entropy)``, if it is learned; returns that loss."""
        if not self._cfg.learn.auto_alpha:
            return {}
        loss = self._temperature.loss(log_prob, self._target_entropy)
        self._optimize(loss, self._optimizer_alpha, self._temperature)
        if not self._cfg.learn.log_space:
            self._temperature.clamp()
        return {"alpha_loss": loss}

    def _may_join_updates(self) -> bool:
        return not self._priority

    def _report(self, losses: dict[str, torch.Tensor], numbers: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        losses["total_loss"] = torch.stack([loss.detach() for loss in losses.values()]).sum()
        return {"alpha": self._temperature.value, **numbers, **losses}

    def _monitor_vars_learn(self) -> list[str]:
        twin = ["twin_critic_loss"] if self._cfg.model.get("twin_critic", False) else []
        temperature = ["alpha_loss"] if self._cfg.learn.auto_alpha else []
        losses = ["critic_loss", *twin, "policy_loss", *temperature, "total_loss"]
        return ["cur_lr_q", "cur_lr_p", "alpha", "td_error", *losses]

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """A file of DI-engine holds no temperature, which then stays as it is."""
        absent = {"alpha": self._temperature.state_dict()} if "alpha" in self.learn_state else {}
        super()._load_state_dict_learn({**absent, **state_dict})

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``collect.unroll_len``."""
        return get_train_sample(transitions, self._unroll_len)
