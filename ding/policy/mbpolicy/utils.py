"""What policies compute along imagined trajectories: values, Dreamer's imagination, returns and losses.

Shapes: H imagined steps, N trajectories, F, A and O the sizes of a latent feature, an action and an observation. A
latent state is a dict of tensors ``[N, ...]``; along a trajectory they are ``[H, N, ...]``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import torch
from torch import nn

from ding.rl_utils import generalized_lambda_returns

Latent: TypeAlias = Mapping[str, torch.Tensor]
"""A latent state: ``deter``, ``stoch`` and the parameters of the distribution of ``stoch``."""

Head: TypeAlias = Callable[[torch.Tensor], Any]
"""A network that turns features ``[..., F]`` into a distribution (``ding.torch_utils.network.dreamer``)."""

# The returns of the worst and of the best trajectories, between which the advantages are scaled.
_LOW, _HIGH = 0.05, 0.95


class Dynamics(Protocol):
    """A recurrent state space model; see ``ding.world_model.model.networks.RSSM``."""

    def initial(self, batch_size: int) -> dict[str, torch.Tensor]:
        """Return the state before the first observation."""

    def img_step(self, prev_state: Any, prev_action: torch.Tensor, *, sample: bool = True) -> dict[str, torch.Tensor]:
        """Return the state after an action, without an observation."""

    def obs_step(
        self, prev_state: Any, prev_action: torch.Tensor, embed: torch.Tensor, sample: bool = True
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Return the state after an action and the observation that followed, and the one without it."""

    def get_feat(self, state: Any) -> torch.Tensor:
        """Return the features ``[..., F]`` of a state."""

    def get_dist(self, state: Any) -> Any:
        """Return the distribution of ``stoch``."""


class LatentWorld(Protocol):
    """A world model as far as Dreamer needs it; see ``ding.world_model.dreamer.DREAMERWorldModel``."""

    dynamics: Dynamics
    heads: Any

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the weights."""


def q_evaluation(
    obss: torch.Tensor,
    actions: torch.Tensor,
    q_critic_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor | list[torch.Tensor]],
) -> torch.Tensor | list[torch.Tensor]:
    """Return the values of the states and actions of trajectories, in one call of the critic.

    Args:
        obss: ``[H, N, O]``.
        actions: ``[H, N, A]``.
        q_critic_fn: observations ``[H * N, O]`` and actions ``[H * N, A]`` to values ``[H * N, ...]``; or to a list of
            the values of several critics.

    Returns:
        ``[H, N, ...]``, or a list of such.
    """
    steps = obss.shape[:2]
    values = q_critic_fn(obss.flatten(0, 1), actions.flatten(0, 1))
    if isinstance(values, (list, tuple)):
        return [value.view(*steps, *value.shape[1:]) for value in values]
    return values.view(*steps, *values.shape[1:])


def imagine(
    cfg: Any, world_model: LatentWorld, start: Latent, actor: Head, horizon: int, repeats: object = None
) -> tuple[torch.Tensor, dict[str, torch.Tensor], torch.Tensor]:
    """Act in the imagination of the world model, from every state of B sequences of T steps.

    Gradients flow from the later steps through the dynamics to the actions.

    Args:
        cfg: ``policy.learn``; ``imag_sample`` says whether states are drawn or the most likely ones.
        world_model: makes the steps.
        start: states ``[B, T, ...]``; there are ``N = B * T`` trajectories.
        actor: features to the distribution of actions.
        horizon: H, the number of states of a trajectory, the first of which is from ``start``.
        repeats: not used, as in DI-engine.

    Returns:
        Features ``[H, N, F]``, states ``[H, N, ...]`` and the actions in them, ``[H, N, A]``.
    """
    dynamics = world_model.dynamics
    state = {key: value.flatten(0, 1) for key, value in start.items()}
    feats, states, actions = list[torch.Tensor](), list[Latent](), list[torch.Tensor]()
    for step in range(horizon):
        if step:
            state = dynamics.img_step(state, actions[-1], sample=cfg.imag_sample)
        states.append(state)
        feats.append(dynamics.get_feat(state))
        actions.append(actor(feats[-1].detach()).sample())
    along = {key: torch.stack([state[key] for state in states]) for key in states[0]}
    return torch.stack(feats), along, torch.stack(actions)


def compute_target(
    cfg: Any,
    world_model: LatentWorld,
    critic: Head,
    imag_feat: torch.Tensor,
    imag_state: Latent,
    reward: torch.Tensor,
    actor_ent: object = None,
    state_ent: object = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return lambda returns of trajectories, with gradients to the actions.

    The discount of a step is ``cfg.discount`` times the probability that the episode goes on, where the world model
    predicts that.

    Args:
        cfg: ``policy.learn`` with ``discount`` and ``lambda_``.
        world_model: has a head ``discount`` or not.
        critic: features to the distribution of values.
        imag_feat: ``[H, N, F]``.
        imag_state: states ``[H, N, ...]``, whose features these are.
        reward: of these states, ``[H, N, 1]``.
        actor_ent, state_ent: not used, as in DI-engine.

    Returns:
        Returns of all states but the last, ``[H - 1, N, 1]``; the probability of getting to each state, discounted,
        ``[H, N, 1]`` and without gradient; and the values of all states but the last, ``[H - 1, N, 1]``.
    """
    discount = cfg.discount * torch.ones_like(reward)
    if "discount" in world_model.heads:
        discount = discount * world_model.heads["discount"](imag_feat).mean.detach()
    value = critic(imag_feat).mode()
    target = generalized_lambda_returns(value, reward[:-1], discount[:-1], cfg.lambda_)
    weights = torch.cat([torch.ones_like(discount[:1]), discount[:-1]]).cumprod(0).detach()
    return target, weights, value[:-1]


def compute_actor_loss(
    cfg: Any,
    actor: Head,
    reward_ema: "RewardEMA | None",
    imag_feat: torch.Tensor,
    imag_state: Latent,
    imag_action: torch.Tensor,
    target: torch.Tensor,
    actor_ent: torch.Tensor,
    state_ent: torch.Tensor | None,
    weights: torch.Tensor,
    base: torch.Tensor,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return ``-mean w (A + eta H)``, the actor's loss, and what is logged.

    The advantage ``A`` of a state is its return minus its value, in units of the range of returns.

    Args:
        cfg: ``policy.learn`` with ``reward_EMA``, ``actor_entropy`` and ``actor_state_entropy``.
        actor: not used here.
        reward_ema: measures the range of returns; only with ``reward_EMA``.
        imag_feat, imag_state, imag_action: not used here.
        target: returns ``[H - 1, N, 1]``.
        actor_ent: entropy of the actor in each state, ``[H, N]``.
        state_ent: entropy of the states, ``[H, N]``; only where ``actor_state_entropy`` is above 0.
        weights: ``[H, N, 1]``.
        base: values ``[H - 1, N, 1]``.

    Returns:
        A 0-d loss, and 0-d tensors by name.
    """
    offset, scale, numbers = 0.0, 1.0, dict[str, torch.Tensor]()
    if cfg.reward_EMA:
        assert reward_ema is not None
        offset, scale = reward_ema(target)
        numbers |= dict(zip(("EMA_005", "EMA_095"), reward_ema.values.clone()))
    normed_target = (target - offset) / scale
    gain = normed_target - (base - offset) / scale
    numbers |= statistics(normed_target, "normed_target")
    bonuses = {
        "actor_entropy": (cfg.actor_entropy, actor_ent),
        "actor_state_entropy": (cfg.actor_state_entropy, state_ent),
    }
    for name, (factor, entropy) in bonuses.items():
        if factor > 0:
            assert entropy is not None
            bonus = factor * entropy[:-1].unsqueeze(-1)
            gain = gain + bonus
            numbers[name] = bonus.mean()
    return -(weights[:-1] * gain).mean(), numbers


def compute_critic_loss(
    cfg: Any,
    critic: Head,
    slow_critic: Head | None,
    imag_feat: torch.Tensor,
    target: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    """Return ``-mean w (log p(target) + log p(slow value))``, the critic's loss, 0-d.

    Args:
        cfg: ``policy.learn`` with ``value_decay``, the weight of the value itself.
        critic: features to the distribution ``p`` of values.
        slow_critic: the critic of some updates ago, which this one shall stay near; or None.
        imag_feat: ``[H, N, F]``.
        target: returns ``[H - 1, N, 1]``.
        weights: ``[H, N, 1]``.
    """
    feat = imag_feat[:-1].detach()
    value = critic(feat)
    loss = -value.log_prob(target.detach())
    if slow_critic is not None:
        loss = loss - value.log_prob(slow_critic(feat).mode().detach())
    if cfg.value_decay > 0:
        loss = loss + cfg.value_decay * value.mode().squeeze(-1)
    weighted: torch.Tensor = weights[:-1].squeeze(-1) * loss
    return weighted.mean()


class RewardEMA(nn.Module):
    """Running 5 % and 95 % quantiles of returns.

    State: ``values`` ``[2]``, zeros at first.

    Args:
        device: where returns are.
        alpha: the share of the newest returns.
    """

    values: torch.Tensor

    def __init__(self, device: torch.device | str, alpha: float = 0.01) -> None:
        super().__init__()
        self.alpha = alpha
        self.register_buffer("values", torch.zeros(2, device=device))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Take returns of any shape in; return the low quantile, and the distance of both, at least 1. Both are 0-d."""
        ordered = x.detach().flatten().sort().values
        found = torch.stack([_quantile(ordered, share) for share in (_LOW, _HIGH)])
        self.values.copy_(self.alpha * found + (1 - self.alpha) * self.values)
        low, high = self.values.clone()
        return low, (high - low).clamp(min=1.0)


def _quantile(ordered: torch.Tensor, share: float) -> torch.Tensor:
    """As ``torch.quantile``, which looks at its arguments, so that an update with it cannot be compiled."""
    below, above = divmod(share * (len(ordered) - 1), 1)
    upper = ordered[min(int(below) + 1, len(ordered) - 1)]
    return ordered[int(below)].lerp(upper, above)


def statistics(tensor: torch.Tensor, prefix: str) -> dict[str, torch.Tensor]:
    """Return ``<prefix>_mean``, ``_std`` (unbiased), ``_min`` and ``_max`` of a tensor, 0-d and without gradient."""
    tensor = tensor.detach()
    names = ("mean", "std", "min", "max")
    return {f"{prefix}_{name}": getattr(tensor, name)() for name in names}


def tensorstats(tensor: torch.Tensor, prefix: str | None = None) -> dict[str, Any]:
    """Return mean, unbiased deviation, smallest and largest element of a tensor.

    Returns:
        ``<prefix>_mean``, ``<prefix>_std``, ``<prefix>_min`` and ``<prefix>_max`` as floats. Without a prefix ``mean``,
        ``std``, ``min`` and ``max`` as 0-d arrays.
    """
    found = statistics(tensor, prefix or "")
    if prefix:
        return {name: value.item() for name, value in found.items()}
    return {name.removeprefix("_"): value.cpu().numpy() for name, value in found.items()}
