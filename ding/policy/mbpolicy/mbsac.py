"""SAC whose values are expanded by a world model: with lambda returns, or with an ensemble that weighs horizons.

Shapes: H imagined steps, B samples, E members of the world model, O and A the sizes of observation and action.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._learning.critics import ActorCritic, priorities, q_values
from ding.policy._learning.update import Logs
from ding.policy.errors import PolicyUsageError
from ding.policy.sac import SACPolicy
from ding.rl_utils import generalized_lambda_returns
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY

# What keeps the weight of a horizon finite on which all members agree.
_EPSILON = 1e-8


class Dream(Protocol):
    """A world model as far as these policies need it; see ``ding.world_model.DreamWorldModel``."""

    rollout_length_scheduler: Callable[[int], int]

    def rollout(self, obs: torch.Tensor, actor_fn: Any, envstep: int, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Imagine steps."""


class Imagined(NamedTuple):
    """Trajectories of H steps."""

    #: ``[H + 1, ..., O]`` and ``[H + 1, ..., A]``.
    obs: torch.Tensor
    action: torch.Tensor
    #: With the entropy bonus of the step, ``[H, ...]``.
    reward: torch.Tensor
    #: ``-alpha log pi(a | s)`` of each action, ``[H + 1, ...]``.
    bonus: torch.Tensor
    #: 1.0 where the step ended the episode, ``[H, ...]``.
    done: torch.Tensor


class _ImaginingPolicy(SACPolicy):
    """What both have in common: the actor learns through the world model, and the critics along its trajectories."""

    config = {"learn": {"grad_clip": 100}}

    _world_model: Any = None
    _envstep = 0

    @batched
    def _forward_learn(self, data: Samples, world_model: Dream | None = None, envstep: int = 0) -> Logs:
        """One update of critics, actor and temperature on B samples; returns floats, and ``priority`` (B floats).

        Args:
            world_model: predicts the steps; its parameters stay as they are.
            envstep: number of env steps made, on which the number of imagined steps depends.

        Raises:
            PolicyUsageError: there is no world model, or one that does not fit.
        """
        if world_model is None:
            raise PolicyUsageError(
                f"{type(self).__name__} learns through a world model: run it with serial_pipeline_dream "
                "(ding -m serial_dream), or give learn_mode.forward a world_model"
            )
        self._world_model, self._envstep = world_model, envstep
        self._check_world_model(world_model)
        # Of each horizon there is a compiled update.
        return self._learn(data, 1, [{"horizon": world_model.rollout_length_scheduler(envstep)}])

    def _check_world_model(self, world_model: Dream) -> None:
        """Raise a ``PolicyUsageError`` for one that does not fit."""

    def _may_join_updates(self) -> bool:
        return False

    def _imagined(self, obs: torch.Tensor, alpha: torch.Tensor, **kwargs: Any) -> Imagined:
        """What the policy does from ``obs`` ``[..., O]`` on, with gradients to the actor."""

        def act(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            mu, sigma = self._model(states.flatten(0, -2), mode="compute_actor")["logit"]
            action, log_prob = squashed_sample(mu, sigma)
            return action.unflatten(0, states.shape[:-1]), -alpha * log_prob.unflatten(0, states.shape[:-1])

        states, action, reward, bonus, done = self._world_model.rollout(obs, act, self._envstep, **kwargs)
        return Imagined(states, action, reward, bonus, done.float())

    def _values(self, network: ActorCritic, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """``Q_i(s, a)`` of each critic, ``[critics, ...]``."""
        flat = q_values(network, obs.flatten(0, -2), action=action.flatten(0, -2))
        return flat.view(-1, *obs.shape[:-1])

    def _step(
        self,
        critic_loss: torch.Tensor,
        policy_loss: torch.Tensor,
        bonus: torch.Tensor,
        alpha: torch.Tensor,
        numbers: dict[str, torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """Steps of critics, actor, temperature and target network; returns what is logged."""
        clip = float(self._cfg.learn.grad_clip)
        critic_norm = self._optimize(critic_loss, self._optimizer_q, self._model.critic, clip)
        policy_norm = self._optimize(policy_loss, self._optimizer_policy, self._model.actor, clip)
        assert critic_norm is not None
        assert policy_norm is not None
        losses = {"critic_loss": critic_loss, "policy_loss": policy_loss}
        losses |= self._update_temperature(-bonus.detach() / alpha)
        self._target_model.update(self._model)
        return self._report(losses, {**numbers, "policy_norm": policy_norm, "critic_norm": critic_norm})

    def _monitor_vars_learn(self) -> list[str]:
        temperature = ["alpha_loss"] if self._cfg.learn.auto_alpha else []
        values = ["policy_norm", "critic_norm", "cur_lr_q", "cur_lr_p", "alpha", "target_q_value"]
        return ["policy_loss", "critic_loss", *temperature, *values]


@POLICY_REGISTRY.register("mbsac")
class MBSACPolicy(_ImaginingPolicy):
    """SAC with lambda returns along imagined trajectories, through which the actor learns, too: the value expansion of
    Feinberg et al. (2018, arXiv:1803.00101) for targets, and value gradients (Heess et al. 2015, arXiv:1510.09142).

    Trajectories begin in the states of the samples (``learn.sample_state``), or the real step comes first. ``alpha`` is
    learned with ``learn.auto_alpha``, which DI-engine refuses.
    """

    config = {
        "type": "mbsac",
        "learn": {
            # (float) Lambda of the returns: 0 takes the value behind one step, 1 behind the last one.
            "lambda_": 0.8,
            # (float) Limit of the norm of each gradient.
            "grad_clip": 100,
            # (bool) Whether imagination begins in the state of a sample; else behind its real step, which counts, too.
            "sample_state": True,
        },
    }

    def _update(self, batch: Mapping[str, Any], horizon: int = 1) -> dict[str, torch.Tensor]:  # type: ignore[override]
        """``G`` are the lambda returns of ``min_i Q_i'(s, a) - alpha log pi(a | s)`` along the trajectory. The critics
        meet them, ``mean 1/2 sum_i (Q_i(s, a) - G)^2``; the actor minimises ``-mean G``. Steps behind the end of an
        episode do not count.
        """
        learn, alpha = self._cfg.learn, self._temperature.value.clone()
        dream = self._imagined(batch["obs"] if learn.sample_state else batch["next_obs"], alpha)
        if not learn.sample_state:
            real = (batch["obs"], batch["action"], batch["reward"], torch.zeros_like(dream.bonus[0]), batch["done"])
            # Of trajectories without steps, rewards and dones are empty.
            later = (part.reshape(-1, *first.shape) for first, part in zip(real, dream))
            dream = Imagined(*(torch.cat([first.unsqueeze(0), part]) for first, part in zip(real, later)))
        elif horizon < 1:
            raise PolicyUsageError("policy.learn.sample_state=True needs world models that imagine at least one step")
        value = self._values(self._target_model.forward, dream.obs, dream.action).amin(0) + dream.bonus
        returns = generalized_lambda_returns(value, dream.reward, self._gamma, learn.lambda_, dream.done)
        before = torch.cat([torch.zeros_like(dream.done[:1]), dream.done[:-1]])
        alive = (1 - before).cumprod(0)
        q = self._values(self._model, dream.obs[:-1].detach(), dream.action[:-1].detach())
        td_errors = q - returns.detach()
        critic_loss = (batch["weight"] * alive * 0.5 * td_errors.square().sum(0)).mean()
        policy_loss = -(alive * returns).mean()
        numbers = {
            "priority": priorities(td_errors[:, 0], self._reference_numerics),
            "target_q_value": value.detach().mean(),
        }
        return self._step(critic_loss, policy_loss, dream.bonus, alpha, numbers)


@POLICY_REGISTRY.register("stevesac")
class STEVESACPolicy(_ImaginingPolicy):
    """SAC with stochastic ensemble value expansion (Buckman et al. 2018, arXiv:1807.01675).

    Each of the ``learn.ensemble_size`` members of the world model imagines trajectories of its own behind the real
    step. The target weighs the horizons by how much the members agree on them. ``alpha`` is learned with
    ``learn.auto_alpha``, which DI-engine refuses.
    """

    config = {
        "type": "stevesac",
        "learn": {
            # (float) Limit of the norm of each gradient.
            "grad_clip": 100,
            # (int) Number of members of the world model, as in `world_model.model.ensemble_size`.
            "ensemble_size": 1,
        },
    }

    def _check_world_model(self, world_model: Dream) -> None:
        own, other = self._cfg.learn.ensemble_size, getattr(world_model, "ensemble_size", None)
        if other is not None and other != own:
            raise PolicyUsageError(
                f"policy.learn.ensemble_size={own} and world_model.model.ensemble_size={other} must be equal"
            )

    def _update(self, batch: Mapping[str, Any], horizon: int = 1) -> dict[str, torch.Tensor]:  # type: ignore[override]
        """Candidate ``h`` of a member is the discounted reward of ``h + 1`` steps, and the value behind them,
        ``min_i Q_i'(s, a) - alpha log pi(a | s)``. Its weight is ``1 / (1e-8 + var)``, of its variance over the
        members. The critics meet the weighted mean; the actor maximises it.
        """
        alpha, members = self._temperature.value.clone(), self._cfg.learn.ensemble_size
        obs, reward, done = (batch[key].expand(members, *batch[key].shape) for key in ("next_obs", "reward", "done"))
        dream = self._imagined(obs, alpha, keep_ensemble=True)
        rewards = torch.cat([reward.unsqueeze(0), dream.reward.reshape(-1, *reward.shape)])
        dones = torch.cat([done.unsqueeze(0), dream.done.reshape(-1, *done.shape)])
        discount = ((1 - dones) * self._gamma).cumprod(0)
        before = torch.cat([torch.ones_like(discount[:1]), discount[:-1]])
        value = self._values(self._target_model.forward, dream.obs, dream.action).amin(0) + dream.bonus
        candidates = (before * rewards).cumsum(0) + discount * value
        mean, weight = candidates.mean(1), 1 / (_EPSILON + candidates.var(1, correction=0))
        target = (weight / weight.sum(0) * mean).sum(0)
        td_errors = self._q_values(self._model, batch["obs"], action=batch["action"]) - target.detach()
        critic_loss = (batch["weight"] * 0.5 * td_errors.square().sum(0)).mean()
        numbers = {
            "priority": priorities(td_errors, self._reference_numerics),
            "target_q_value": value.detach().mean(),
        }
        return self._step(critic_loss, -target.mean(), dream.bonus, alpha, numbers)
