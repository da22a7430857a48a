"""HAPPO: PPO for agents that differ, updated one after the other (Kuba et al. 2022, arXiv:2109.11251)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model.template.havac import agent_view
from ding.model.wrapper.model_wrappers import BaseModelWrapper
from ding.policy._learning.distributed import of_first_rank
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.ppo_parameters import init_ppo_parameters
from ding.policy._learning.update import read_out
from ding.policy._samples.segments import minibatches
from ding.policy.errors import PolicyConfigError
from ding.policy.ppo import PPOLoss, PPOPolicy, ppo_loss
from ding.rl_utils.policy_dist import action_mask_of, policy_of, policy_parts
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY, RunningMeanStd, deep_merge_dicts
from ding.utils.nested import map_nested

_FIELDS = ("obs", "action", "logit", "value", "adv", "return", "weight", "factor")
_SHARED = ("reward", "done", "traj_flag", "weight")


@POLICY_REGISTRY.register("happo")
class HAPPOPolicy(PPOPolicy):
    """On-policy PPO for several agents, each with its own networks (:class:`ding.model.template.havac.HAVAC`).

    Agents learn in a random order; each one takes into account by how much those before it have changed the chance of
    the joint action. ``reference_numerics=True`` keeps their order, and one spread of the returns for all.

    Observations are dicts: ``agent_state`` ``[A, O]``, ``global_state`` ``[G]`` or ``[A, G]`` and optionally
    ``action_mask`` ``[A, actions]``.
    """

    config = deep_merge_dicts(
        PPOPolicy.config,
        {
            "type": "happo",
            # (int) Number of agents; has to be given.
            "agent_num": None,
            "learn": {
                # (float or None) Of the values; None: that of the policies.
                "critic_learning_rate": None,
            },
        },
    )
    _spreads: Sequence[RunningMeanStd] = ()
    may_be_recurrent = False

    learn_state = {
        "model": "_learn_model",
        "actor_optimizer": "_optimizer",
        "critic_optimizer": "_critic_optimizer",
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``havac`` of :mod:`ding.model.template.havac`."""
        return "havac", ["ding.model.template.havac"]

    def _acting_network(self) -> "AllAgents":
        return AllAgents(self._model)

    def _init_learn(self) -> None:
        cfg = self._cfg
        if cfg.agent_num is None:
            raise PolicyConfigError("policy.agent_num is missing: the number of agents")
        if cfg.learn.pretrained_model_path is not None:
            raise PolicyConfigError("policy.learn.pretrained_model_path: happo cannot stay near a pretrained policy")
        self._has_agent_axis = True
        super()._init_learn()

    def _init_parameters(self) -> None:
        for agent in self._agents:
            init_ppo_parameters(agent, log_sigma=None, reference_numerics=self._reference_numerics)

    @property
    def _agents(self) -> Any:
        return self._model.agent_models

    def _make_optimizer(self) -> Adam:
        learn = self._cfg.learn
        rate = learn.learning_rate if learn.critic_learning_rate is None else learn.critic_learning_rate
        critics = [{"params": list(agent.critic.parameters())} for agent in self._agents]
        self._critic_optimizer = clipping_adam(critics, learn, lr=rate)
        return clipping_adam([{"params": list(agent.actor.parameters())} for agent in self._agents], learn)

    def _init_value_norm(self) -> None:
        if self._cfg.learn.value_norm:
            count = 1 if self._reference_numerics else self._cfg.agent_num
            self._spreads = [RunningMeanStd(epsilon=1e-4) for _ in range(count)]

    @property
    def _value_scale(self) -> Any:
        """Of each agent, ``[A]``, or of all."""
        return torch.tensor([spread.std for spread in self._spreads]) if self._spreads else 1.0

    def _extra_learn_state(self) -> dict[str, Any]:
        return {f"value_norm_{index}": spread for index, spread in enumerate(self._spreads)}

    @batched
    def _forward_learn(self, data: Samples) -> list[dict[str, Any]]:
        """``epoch_per_collect`` epochs of each agent over B samples of one collection, in the order in which they were
        collected.

        Returns:
            Per minibatch of an agent ``agent<i>_cur_lr`` and ``agent<i>_`` with the fields of :class:`PPOLoss`, as
            floats.
        """
        batch = self._learn_batch(data)
        batch["factor"] = torch.ones(len(batch["done"]), device=self._device)
        count = self._cfg.agent_num
        order: Sequence[int] | torch.Tensor = range(count)
        if not self._reference_numerics:
            shuffled = torch.randperm(count)
            # Replicas draw from generators of their own, and average the gradients of an agent.
            order = (of_first_rank(shuffled.to(self._device)) if self._multi_gpu else shuffled).tolist()
        self._model.train()
        numbers: list[dict[str, Any]] = []
        for agent in order:
            part = _agent_batch(batch, agent)
            with torch.no_grad():
                before = self._log_prob(agent, part)
            results = self._learn_agent(agent, part)
            with torch.no_grad():
                batch["factor"] = batch["factor"] * (self._log_prob(agent, part) - before).exp()
            rate = self._optimizer.param_groups[agent]["lr"]
            read = read_out({(index, key): one for index, row in enumerate(results) for key, one in row.items()})
            for index, row in enumerate(results):
                log = {"cur_lr": rate, **{key: read[index, key] for key in row}}
                numbers.append({f"agent{agent}_{key}": value for key, value in log.items()})
        return numbers

    def _learn_agent(self, agent: int, part: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
        """Epochs of one agent: :func:`ppo_loss` with advantages times ``factor``, by how much the agents before it have
        changed the chance of the joint action; returns the numbers of each minibatch.
        """
        cfg = self._cfg.learn

        def network(obs: Any) -> Any:
            return self._model(agent, {"obs": obs}, mode="compute_actor_critic")

        results = []
        for _ in range(cfg.epoch_per_collect):
            part.update(self._agent_returns(agent, part))
            for piece in minibatches(part, _FIELDS, cfg.batch_size):
                result = ppo_loss(network, piece, self._settings)
                if self._reference_numerics and self._cfg.action_space == "continuous":
                    result = _per_dimension(result, piece["action"].shape[1], cfg.entropy_weight)
                self._critic_optimizer.zero_grad()
                self._optimize(result.total_loss, self._optimizer, self._model)
                self._critic_optimizer.step()
                results.append(result.numbers())
        return results

    def _agent_returns(self, agent: int, part: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """``value, adv, return`` of an agent for an epoch, see :meth:`PPOPolicy._returns`."""
        spread = self._spreads[agent % len(self._spreads)] if self._spreads else None
        scale = 1.0 if spread is None else spread.std
        value, adv = part["value"], part["adv"]
        if self._cfg.recompute_adv:
            value, next_value = (self._agent_values(agent, part[key]) for key in ("obs", "next_obs"))
            value, adv = self._fresh_advantages(value, next_value, part, scale)
        return {"value": value, "adv": adv, "return": self._in_unit(value * scale + adv, spread)}

    def _agent_values(self, agent: int, obs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            output: torch.Tensor = self._model(agent, {"obs": obs}, mode="compute_critic")["value"]
            return output

    def _log_prob(self, agent: int, part: Mapping[str, Any]) -> torch.Tensor:
        """Log-probability ``[B]`` of the actions that were taken."""
        logit = self._model(agent, {"obs": part["obs"]}, mode="compute_actor")["logit"]
        parts = policy_parts(logit, part["action"], action_mask_of(part["obs"]))
        return torch.stack([policy_of(output).log_prob(action) for output, action in parts]).sum(0)

    def _values(self, obs: Any) -> torch.Tensor:
        with torch.no_grad():
            output: torch.Tensor = self._model(None, {"obs": obs}, mode="compute_critic")["value"]
            return output

    def _monitor_vars_learn(self) -> list[str]:
        names = super()._monitor_vars_learn()
        return [f"agent{index}_{name}" for index in range(self._cfg.agent_num) for name in names]


class AllAgents(BaseModelWrapper):
    """A network that takes the number of an agent, as one that gives the outputs of all agents."""

    def forward(self, obs: Any, mode: str) -> object:
        """``logit`` and ``value`` ``[B, A, ...]``."""
        return self._model(None, {"obs": obs}, mode=mode)


def _per_dimension(result: PPOLoss, action_dim: int, entropy_weight: float) -> PPOLoss:
    """The loss with the mean entropy and KL of the action's dimensions, as DI-engine has them, not their sum."""
    mean = result.entropy_loss / action_dim
    total = result.total_loss + entropy_weight * (result.entropy_loss - mean)
    return result._replace(entropy_loss=mean, approx_kl=result.approx_kl / action_dim, total_loss=total)


def _agent_batch(batch: Mapping[str, Any], agent: int) -> dict[str, Any]:
    """The part of one agent of a batch ``[B, A, ...]``; reward, end and weight are those of all."""
    part = {key: batch[key] for key in (*_SHARED, "factor") if key in batch}
    for key in ("obs", "next_obs"):
        if key in batch:
            part[key] = agent_view(batch[key], agent)
    for key in ("action", "logit", "value", "adv"):
        if key in batch:
            part[key] = map_nested(lambda x: x[:, agent], batch[key])
    return part
