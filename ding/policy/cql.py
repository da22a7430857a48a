"""Conservative Q-learning from data sets (Kumar et al. 2020, arXiv:2006.04779)."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._learning.critics import ActorCritic, q_values
from ding.policy._learning.q_values import QLoss, greedy, mean_of, of_action, row_of_action
from ding.policy.qrdqn import QRDQNPolicy
from ding.policy.sac import SACPolicy
from ding.rl_utils import quantile_huber_loss
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY

_MAX_LAGRANGE = 1e6


def conservative_gaps(
    network: ActorCritic,
    batch: Mapping[str, Any],
    num_actions: int,
    reference_numerics: bool = False,
    lower_bound: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return ``mean_s (log E_a exp Q_i(s, a) - Q_i(s, a_data))`` of each critic, ``[critics]``, by importance sampling
    of the actions: as many uniform ones, ones of the policy in ``s``, and ones of the policy in ``s'``.

    Args:
        network: see :class:`ding.model.ContinuousQAC` with ``action_space='reparameterization'``.
        batch: ``obs, next_obs`` ``[B, ...]`` and ``action`` ``[B, D]``.
        num_actions: number of actions of each of the three kinds.
        reference_numerics: see :func:`ding.rl_utils.squashed_normal.squashed_sample`.
        lower_bound: values of the policy's actions below it count as it, ``[B]``.
    """
    obs, shown = batch["obs"], batch["action"]
    size, width = shown.shape
    with torch.no_grad():
        actions = [shown.new_empty(size * num_actions, width).uniform_(-1, 1).reshape(size, num_actions, width)]
        # The density of a uniform action within [-1, 1].
        densities = [shown.new_full((size, num_actions), -width * math.log(2.0))]
        for seen in (obs, batch["next_obs"]):
            logit = network(seen, mode="compute_actor")["logit"]
            mu, sigma = (part.unsqueeze(1).expand(-1, num_actions, -1) for part in logit)
            action, log_prob = squashed_sample(mu, sigma, reference_numerics)
            actions.append(action)
            densities.append(log_prob)
    drawn, density = torch.cat(actions, 1).flatten(0, 1), torch.cat(densities, 1)
    q_drawn = q_values(network, obs.repeat_interleave(3 * num_actions, 0), action=drawn).unflatten(1, (size, -1))
    if lower_bound is not None:
        uniform, of_policy = q_drawn.split([num_actions, 2 * num_actions], -1)
        q_drawn = torch.cat([uniform, torch.maximum(of_policy, lower_bound.unsqueeze(-1))], -1)
    q_shown = q_values(network, obs, action=shown)
    output: torch.Tensor = (q_drawn - density).logsumexp(-1).mean(-1) - q_shown.mean(-1)
    return output


@POLICY_REGISTRY.register("cql")
class CQLPolicy(SACPolicy):
    """Conservative Q-learning of continuous actions: SAC whose critics are pushed down where the policy goes and up at
    the data; the rest is as in :class:`SACPolicy`.

    With ``learn.with_lagrange`` the weight of that term is learned, so that the gap comes to ``learn.lagrange_thresh``.
    """

    # Data sets hold the env's own actions.
    acts_in_unit_range = False

    config = {
        "type": "cql",
        "model": {"actor_head_hidden_size": 256, "critic_head_hidden_size": 256},
        "learn": {
            # (int) Actions of each kind that are drawn per state.
            "num_actions": 10,
            # (bool) Whether the weight of the conservative term is learned, and the gap that it leads to.
            "with_lagrange": False,
            "lagrange_thresh": -1,
            # (float) Weight of the conservative term.
            "min_q_weight": 1.0,
            # (bool) Whether targets hold the entropy of the policy.
            "with_q_entropy": False,
        },
    }

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._lagrange = torch.nn.ParameterDict({"log_weight": torch.zeros((), device=self._device)})
        if learn.with_lagrange:
            self._optimizer_lagrange = torch.optim.Adam(self._lagrange.parameters(), lr=learn.learning_rate_q)
            self.learn_state = self.learn_state | {
                "lagrange": "_lagrange", "optimizer_lagrange": "_optimizer_lagrange"
            }  # fmt: skip

    def _init_weights(self) -> None:
        """Start with small values, too."""
        super()._init_weights()
        bound, critics = self._cfg.learn.init_w, getattr(self._model, "critic_head", None)
        if critics is not None:
            heads: Any = critics if isinstance(critics, torch.nn.ModuleList) else [critics]
            for head in heads:
                head[-1].last.weight.data.uniform_(-bound, bound)
                head[-1].last.bias.data.uniform_(-bound, bound)

    def _update_critic(
        self, batch: Mapping[str, Any], alpha: torch.Tensor
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        learn = self._cfg.learn
        critic = self._critic_loss(batch, alpha if learn.with_q_entropy else 0.0)
        gaps = learn.min_q_weight * self._conservative_gaps(batch)
        losses = critic.losses + (self._weighted(gaps) if learn.with_lagrange else gaps)
        self._optimize(losses.sum(), self._optimizer_q, self._model.critic)
        return dict(zip(("critic_loss", "twin_critic_loss"), losses)), self._critic_numbers(critic)

    def _conservative_gaps(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """How far each critic's values where the policy goes are above those at the data, ``[critics]``."""
        return conservative_gaps(self._model, batch, self._cfg.learn.num_actions, self._reference_numerics)

    def _weighted(self, gaps: torch.Tensor) -> torch.Tensor:
        """The gaps over the threshold times the learned weight, which grows while they are."""
        over = gaps - self._cfg.learn.lagrange_thresh
        weight = self._lagrange["log_weight"].exp().clamp(max=_MAX_LAGRANGE)
        loss = -(weight * over.detach()).mean()
        weighted_gaps: torch.Tensor = weight.detach() * over
        self._optimize(loss, self._optimizer_lagrange, self._lagrange)
        return weighted_gaps


@POLICY_REGISTRY.register("discrete_cql")
class DiscreteCQLPolicy(QRDQNPolicy):
    """Conservative Q-learning of quantiles, for discrete actions; the rest is as in :class:`QRDQNPolicy`."""

    config = {
        "type": "discrete_cql",
        "learn": {
            # (int) Updates per collection, where it does not learn from a data set.
            "update_per_collect": 1,
            # (float) Weight of the conservative term.
            "min_q_weight": 1.0,
        },
    }

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """Quantile regression as in :class:`QRDQNPolicy`, plus ``min_q_weight (log sum_a exp Q(s, a) - Q(s, a_data))``,
        ``Q`` the mean of the quantiles: actions that the data do not show are not overestimated.
        """
        output = self._model(batch["obs"])
        with torch.no_grad():
            following = self._target_model.forward(batch["next_obs"])
            best = greedy(self._model(batch["next_obs"])["logit"], batch["next_action_mask"])
            next_quantiles = row_of_action(following["q"], best)
            discount = batch["discount"] * batch["not_done"]
            target = batch["reward"].unsqueeze(-1) + discount.unsqueeze(-1) * next_quantiles
        quantiles = row_of_action(output["q"], batch["action"])
        error = quantile_huber_loss(quantiles, target, output["tau"].squeeze(-1)).sum(-1).mean(-1)
        q = output["q"].mean(-1)
        gap = (q.logsumexp(-1) - of_action(q, batch["action"])).mean()
        loss = (batch["weight"] * error).mean() + self._cfg.learn.min_q_weight * gap
        return QLoss(loss, error.detach(), {"q_target": mean_of(following["q"]), "q_value": mean_of(output["q"])})

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "q_target", "q_value"]
