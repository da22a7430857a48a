"""Conservative Q-learning from data sets (Kumar et al. 2020, arXiv:2006.04779)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.policy._cql_discrete import DiscreteCQLPolicy
from ding.policy._q_critic import ActorCritic, each, priorities
from ding.policy._sac import sac_critic_loss
from ding.policy.sac import SACPolicy
from ding.rl_utils.squashed_normal import squashed_sample
from ding.utils import POLICY_REGISTRY

__all__ = ["CQLPolicy", "DiscreteCQLPolicy"]

_MAX_LAGRANGE = 1e6


def conservative_gaps(
    network: ActorCritic, batch: Mapping[str, Any], num_actions: int, reference_numerics: bool = False
) -> list[torch.Tensor]:
    """Per critic ``mean_s (log E_a exp Q(s, a) - Q(s, a_data))``, 0-d, by importance sampling of the actions: as many
    uniform ones, ones of the policy at the next state, and ones of the policy at the state.

    Args:
        network: see :class:`ding.model.ContinuousQAC` with ``action_space='reparameterization'``.
        batch: ``obs, next_obs`` ``[B, ...]`` and ``action`` ``[B, N]``.
        num_actions: number of actions of each of the three kinds.
        reference_numerics: see :func:`ding.rl_utils.squashed_normal.squashed_sample`.
    """
    obs, shown = batch["obs"], batch["action"]
    size, width = shown.shape
    with torch.no_grad():
        drawn = [shown.new_empty(size * num_actions, width).uniform_(-1, 1).reshape(size, num_actions, width)]
        # The density of a uniform action within [-1, 1].
        densities = [shown.new_full((size, num_actions), width * -0.6931471805599453)]
        for seen in (obs, batch["next_obs"]):
            mu, sigma = (
                one.unsqueeze(1).expand(-1, num_actions, -1) for one in network(seen, mode="compute_actor")["logit"]
            )
            action, log_prob = squashed_sample(mu, sigma, reference_numerics)
            drawn.append(action)
            densities.append(log_prob)
    actions, density = torch.cat(drawn, 1), torch.cat(densities, 1)
    count = actions.shape[1]
    repeated = {"obs": obs.repeat_interleave(count, 0), "action": actions.reshape(size * count, width)}
    values = each(network(repeated, mode="compute_critic")["q_value"])
    taken = each(network({"obs": obs, "action": shown}, mode="compute_critic")["q_value"])
    return [
        (value.reshape(size, count) - density).logsumexp(1).mean() - own.mean() for value, own in zip(values, taken)
    ]


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
        learn, reference = self._cfg.learn, self._reference_numerics
        weight = alpha if learn.with_q_entropy else torch.zeros_like(alpha)
        result = sac_critic_loss(self._model, self._target_model.forward, weight, batch, self._gamma, reference)
        gaps = [learn.min_q_weight * gap for gap in conservative_gaps(self._model, batch, learn.num_actions, reference)]
        if learn.with_lagrange:
            gaps = self._weighted(gaps)
        losses = [loss + gap for loss, gap in zip(result.losses, gaps)]
        self._optimize(torch.stack(losses).sum(), self._optimizer_q, self._model.critic)
        numbers = {
            "priority": priorities(result.error, reference),
            "td_error": result.error.mean(),
            "target_q_value": result.target_q_value,
        }
        return dict(zip(("critic_loss", "twin_critic_loss"), losses)), numbers

    def _weighted(self, gaps: list[torch.Tensor]) -> list[torch.Tensor]:
        """The gaps over the threshold times the learned weight, which grows while they are."""
        over = [gap - self._cfg.learn.lagrange_thresh for gap in gaps]
        weight = self._lagrange["log_weight"].exp().clamp(max=_MAX_LAGRANGE)
        loss = -torch.stack([weight * gap.detach() for gap in over]).mean()
        weighted = [weight.detach() * gap for gap in over]
        self._optimize(loss, self._optimizer_lagrange, self._lagrange)
        return weighted
