"""Diffusion of trajectories: what adds noise to plans and takes it off again, guided by values (Janner et al. 2022,
arXiv:2205.09991; Ajay et al. 2022, arXiv:2211.15657).

Trajectories are ``[B, H, T]``, T numbers in each of H steps. Those of :class:`GaussianDiffusion` hold actions, then
observations. Conditions are the observations that are given: step -> ``[B, O]``. Diffusion steps ``t`` are int64
``[B]``, from 0, after which no noise is left, to ``n_timesteps - 1``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from ding.model.template._noise_steps import Network, NoiseSteps, discounted_weights, remaining
from ding.torch_utils.network.diffusion import Conditions, apply_conditioning, extract
from ding.utils import MODEL_REGISTRY
from ding.utils.errors import InvalidArgumentError
from ding.utils.names import check_choice

# What is drawn while planning without a guide, as a share of what the model of noise says.
_NOISE_SHARE = 0.5

SampleFunction = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""``fn(model, x, cond, t, **kwargs)`` takes the noise of a diffusion step off: next ``x``, and values ``[B]``."""


class Sample(NamedTuple):
    """Plans that were drawn, p for each condition, the best first."""

    trajectories: torch.Tensor
    """``[B / p, p, H, T]``."""
    values: torch.Tensor
    """``[B / p, p]``."""
    chains: torch.Tensor | None
    """``[B, n_timesteps + 1, H, T]``, the trajectories after each diffusion step, from noise on."""


def default_sample_fn(
    model: GaussianDiffusion, x: torch.Tensor, cond: Conditions, t: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the noise of step ``t`` off ``x [B, H, T]``, without a guide; values are 0."""
    mean, _, log_variance = model.p_mean_variance(x, cond, t)
    noise = torch.randn_like(x) * remaining(t, x)
    return mean + _NOISE_SHARE * (0.5 * log_variance).exp() * noise, torch.zeros(len(x), device=x.device)


def get_guide_output(
    guide: nn.Module, x: torch.Tensor, cond: Conditions, t: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values of trajectories by ``guide``, ``[B]``, and their gradients, ``[B, H, T]``."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        value = guide(x, cond, t).squeeze(-1)
        (slope,) = torch.autograd.grad(value.sum(), x)
    return value.detach(), slope


def n_step_guided_p_sample(
    model: GaussianDiffusion,
    x: torch.Tensor,
    cond: Conditions,
    t: torch.Tensor,
    guide: nn.Module,
    scale: float = 0.001,
    t_stopgrad: int = 0,
    n_guide_steps: int = 1,
    scale_grad_by_std: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Move ``x [B, H, T]`` up the values of ``guide``, then take the noise of step ``t`` off.

    Args:
        scale: size of a move, times the gradient.
        t_stopgrad: diffusion steps below it are not guided.
        n_guide_steps: moves, at least 1.
        scale_grad_by_std: whether a move is multiplied by the variance of the step, too.

    Returns:
        The next ``x``, and the values before the last move, ``[B]``.
    """
    if n_guide_steps < 1:
        raise InvalidArgumentError(f"n_guide_steps must be at least 1, got {n_guide_steps}")
    size = extract(model.posterior_variance_clipped, t, x.shape) if scale_grad_by_std else torch.ones_like(x[:, :1, :1])
    size = scale * size * (t >= t_stopgrad).to(x.dtype).reshape(-1, 1, 1)
    for _ in range(n_guide_steps):
        value, slope = get_guide_output(guide, x, cond, t)
        x = apply_conditioning(x + size * slope, cond, model.action_dim)
    mean, _, log_variance = model.p_mean_variance(x, cond, t)
    noise = torch.randn_like(x) * remaining(t, x)
    return mean + (0.5 * log_variance).exp() * noise, value


class GaussianDiffusion(NoiseSteps):
    """Diffusion of trajectories of actions and observations.

    Args:
        model, model_cfg: the network that takes noise off, a class or its name, and its arguments.
        horizon, obs_dim, action_dim: H, and the numbers of a step.
        n_timesteps: diffusion steps.
        predict_epsilon: whether the network predicts noise, else the trajectory without it.
        loss_discount: factor of the loss from one step of a trajectory to the next.
        clip_denoised: whether what the network predicts is kept in [-1, 1].
        action_weight: weight of the first action in the loss.
        loss_weights: dimension of the observation -> a factor of its weight.
    """

    #: Whether losses are those of DI-engine, which overwrites the noise that is predicted at given steps.
    reference_numerics = False

    def __init__(
        self,
        model: Network,
        model_cfg: Mapping[str, Any],
        horizon: int,
        obs_dim: int,
        action_dim: int,
        n_timesteps: int = 1000,
        predict_epsilon: bool = True,
        loss_discount: float = 1.0,
        clip_denoised: bool = False,
        action_weight: float = 1.0,
        loss_weights: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__(
            model, model_cfg, horizon, obs_dim, action_dim, n_timesteps, predict_epsilon, clip_denoised
        )  # fmt: skip
        weights = discounted_weights(self.horizon, loss_discount).repeat(1, self.transition_dim)
        for dim, factor in (loss_weights or {}).items():
            weights[:, self.action_dim + int(dim)] *= factor
        weights[0, : self.action_dim] = action_weight
        self.register_buffer("loss_weights", weights, persistent=False)

    def p_mean_variance(
        self, x: torch.Tensor, cond: Conditions, t: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return mean, variance and its logarithm of the trajectories one step before ``x``, by the network."""
        return self.step_before(x, t, self.model(x, cond, t))

    @torch.no_grad()
    def conditional_sample(
        self,
        cond: Conditions,
        horizon: int | None = None,
        sample_fn: SampleFunction = default_sample_fn,
        plan_size: int = 1,
        return_chain: bool = False,
        **sample_kwargs: Any,
    ) -> Sample:
        """Draw trajectories that have the given observations.

        Args:
            cond: observations of B rows, each p times in a row.
            horizon: their steps; None: those of the model.
            sample_fn: takes the noise of a step off.
            plan_size: p, plans for each condition, which are sorted by value.
            return_chain: whether to return what came after each step.
            sample_kwargs: passed on to ``sample_fn``.
        """
        rows = len(next(iter(cond.values())))
        shape = (rows, self.horizon if horizon is None else horizon, self.transition_dim)
        x = apply_conditioning(torch.randn(shape, device=self.betas.device), cond, self.action_dim)
        chain = [x.clone()]
        for step in reversed(range(self.n_timesteps)):
            x, values = sample_fn(self, x, cond, self.all_at(step, rows), **sample_kwargs)
            x = apply_conditioning(x, cond, self.action_dim)
            if return_chain:
                chain.append(x.clone())
        values, x = values.reshape(-1, plan_size), x.unflatten(0, (-1, plan_size))
        if plan_size > 1:
            values, order = values.sort(dim=1, descending=True, stable=True)
            x = x.gather(1, order[..., None, None].expand_as(x))
        return Sample(x, values, torch.stack(chain, dim=1) if return_chain else None)

    def p_losses(self, x_start: torch.Tensor, cond: Conditions, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss on trajectories ``[B, H, T]`` that get noise, and the error of the first actions over their
        weight, which is for the log, 0-d each.

        Observations that are given have no noise. The loss is the weighted squared error of the noise, or of the
        trajectories where the network predicts these.
        """
        noise = torch.randn_like(x_start)
        noisy = apply_conditioning(self.q_sample(x_start, t, noise), cond, self.action_dim)
        found, wanted = self.model(noisy, cond, t), noise if self.predict_epsilon else x_start
        if not self.predict_epsilon or self.reference_numerics:
            found = apply_conditioning(found.clone(), cond, self.action_dim)
        errors = (found - wanted).square()
        first = errors[:, 0, : self.action_dim] / self.loss_weights[0, : self.action_dim]
        return (errors * self.loss_weights).mean(), first.mean()

    def forward(self, cond: Conditions, *args: Any, **kwargs: Any) -> Sample:
        """:meth:`conditional_sample`."""
        return self.conditional_sample(cond, *args, **kwargs)


class ValueDiffusion(GaussianDiffusion):
    """The value of a trajectory with noise, by a network like ``TemporalValue``; arguments as of its base class."""

    def p_losses(  # type: ignore[override]
        self, x_start: torch.Tensor, cond: Conditions, target: torch.Tensor, t: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the mean squared error of the values of noisy trajectories to ``target [B, 1]``, and ``mean_pred,
        max_pred, min_pred``, 0-d each.
        """
        noisy = apply_conditioning(self.q_sample(x_start, t), cond, self.action_dim)
        found = self.model(noisy, cond, t)
        seen = found.detach()
        numbers = {"mean_pred": seen.mean(), "max_pred": seen.max(), "min_pred": seen.min()}
        # DI-engine's policy gives ``[B]``, and each value is compared with all returns of the batch.
        wanted = target if self.reference_numerics else target.reshape(found.shape)
        return (found - wanted).square().mean(), numbers

    def forward(self, x: torch.Tensor, cond: Conditions, t: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """Return the values ``[B, 1]`` of trajectories ``[B, H, T]`` with the noise of step ``t``."""
        output: torch.Tensor = self.model(x, cond, t)
        return output


_DIFFUSIONS: dict[str, Callable[..., Any]] = {one.__name__: one for one in (GaussianDiffusion, ValueDiffusion)}


@MODEL_REGISTRY.register("pd")
class PlanDiffuser(nn.Module):
    """A diffusion of plans, and the values that guide it.

    Args:
        diffuser_model, diffuser_model_cfg: ``GaussianDiffusion``, or a class like it, and its arguments.
        value_model, value_model_cfg: ``ValueDiffusion``, or a class like it, and its arguments; None: plans are not
            guided.
        sample_kwargs: those of :func:`n_step_guided_p_sample`: ``n_guide_steps, scale, t_stopgrad,
            scale_grad_by_std``.
    """

    def __init__(
        self,
        diffuser_model: Network,
        diffuser_model_cfg: Mapping[str, Any],
        value_model: Network | None,
        value_model_cfg: Mapping[str, Any],
        **sample_kwargs: Any,
    ) -> None:
        super().__init__()
        self.diffuser = _made(diffuser_model, diffuser_model_cfg, "diffuser_model")
        self.value: ValueDiffusion | None = None
        if value_model:
            self.value = cast(ValueDiffusion, _made(value_model, value_model_cfg, "value_model"))
        self.sample_kwargs = sample_kwargs

    def diffuser_loss(
        self, x_start: torch.Tensor, cond: Conditions, t: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the diffusion of trajectories ``[B, H, T]``, and the error of the first actions."""
        return self.diffuser.p_losses(x_start, cond, t)

    def value_loss(
        self, x_start: torch.Tensor, cond: Conditions, target: torch.Tensor, t: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the loss of the values of trajectories to ``target [B, 1]``, and numbers to log."""
        if self.value is None:
            raise InvalidArgumentError("a plan diffuser without a value_model has no value_loss")
        return self.value.p_losses(x_start, cond, target, t)

    def get_eval(self, cond: Conditions, batch_size: int = 1) -> torch.Tensor:
        """Plan from given observations.

        Args:
            cond: step -> observations ``[B, O]``.
            batch_size: p, plans for each row.

        Returns:
            With values the first action of the best plan, ``[B, A]``; else the observations of all plans, ``[B, p, H,
            O]``, or ``[B, H, O]`` for p = 1.
        """
        each = {step: value.repeat_interleave(batch_size, dim=0) for step, value in cond.items()}
        dims = self.diffuser.action_dim
        if self.value is not None:
            guided = self.diffuser(
                each, sample_fn=n_step_guided_p_sample, plan_size=batch_size, guide=self.value, **self.sample_kwargs
            )
            best: torch.Tensor = guided.trajectories[:, 0, 0, :dims]
            return best
        plans: torch.Tensor = self.diffuser(each, plan_size=batch_size).trajectories[..., dims:]
        return plans.squeeze(1)


def _made(model: Network, cfg: Mapping[str, Any], key: str) -> GaussianDiffusion:
    """Return a diffusion by its class or name.

    Raises:
        InvalidArgumentError: sizes are missing, or do not fit those of the network.
    """
    if isinstance(model, str):
        check_choice(key, model, _DIFFUSIONS, KeyError)
        model = _DIFFUSIONS[model]
    for name in ("model", "model_cfg", "horizon", "obs_dim", "action_dim"):
        if name not in cfg:
            raise InvalidArgumentError(f"policy.model.{key}_cfg.{name} is missing; it has {sorted(cfg)}")
    network, dims = cfg["model_cfg"], cfg["obs_dim"] + cfg["action_dim"]
    if network.get("transition_dim", dims) != dims:
        raise InvalidArgumentError(
            f"policy.model.{key}_cfg.model_cfg.transition_dim is {network['transition_dim']}, expected "
            f"obs_dim + action_dim = {dims}"
        )
    if network.get("horizon", cfg["horizon"]) != cfg["horizon"]:
        raise InvalidArgumentError(
            f"policy.model.{key}_cfg.model_cfg.horizon is {network['horizon']}, but the trajectories have "
            f"{cfg['horizon']} steps (horizon)"
        )
    return cast(GaussianDiffusion, model(**cfg))


@MODEL_REGISTRY.register("dd")
class GaussianInvDynDiffusion(NoiseSteps):
    """Diffusion of observations, towards a wanted return, and the action between two observations.

    Args:
        hidden_dim: width of the model of actions, ``inv_model``.
        returns_condition: whether the network reads the return.
        ar_inv, train_only_inv: kept for configs of DI-engine.
        condition_guidance_w: by how much the wanted return counts.
        Others: as those of :class:`GaussianDiffusion`.
    """

    def __init__(
        self,
        model: Network,
        model_cfg: Mapping[str, Any],
        horizon: int,
        obs_dim: int,
        action_dim: int,
        n_timesteps: int = 1000,
        hidden_dim: int = 256,
        returns_condition: bool = False,
        ar_inv: bool = False,
        train_only_inv: bool = False,
        predict_epsilon: bool = True,
        condition_guidance_w: float = 0.1,
        loss_discount: float = 1.0,
        clip_denoised: bool = False,
    ) -> None:
        super().__init__(
            model, model_cfg, horizon, obs_dim, action_dim, n_timesteps, predict_epsilon, clip_denoised
        )  # fmt: skip
        self.inv_model = nn.Sequential(
            nn.Linear(2 * obs_dim, hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, action_dim),
        )
        self.returns_condition, self.condition_guidance_w = returns_condition, condition_guidance_w
        self.ar_inv, self.train_only_inv = ar_inv, train_only_inv
        weights = discounted_weights(self.horizon, loss_discount).repeat(1, self.obs_dim)
        if predict_epsilon:
            # The first observation is given.
            weights[0] = 0
        self.register_buffer("loss_weights", weights, persistent=False)

    def p_mean_variance(
        self, x: torch.Tensor, cond: Conditions, t: torch.Tensor, returns: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return mean, variance and its logarithm of the observations ``[B, H, O]`` one step before ``x``.

        Args:
            returns: what is wanted, ``[B, 1]``.
        """
        if not self.returns_condition:
            return self.step_before(x, t, self.model(x, cond, t))
        wanted = self.model(x, cond, t, returns, use_dropout=False)
        usual = self.model(x, cond, t, returns, force_dropout=True)
        return self.step_before(x, t, usual + self.condition_guidance_w * (wanted - usual))

    @torch.no_grad()
    def conditional_sample(
        self,
        cond: Conditions,
        returns: torch.Tensor | None = None,
        horizon: int | None = None,
        verbose: bool = True,
        return_diffusion: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Draw observations ``[B, H, O]`` that continue the given ones.

        Args:
            cond: step -> observations ``[B, O]``.
            returns: what is wanted, ``[B, 1]``.
            horizon: H; None: that of the model.
            verbose: kept for scripts of DI-engine.
            return_diffusion: whether to return ``[B, n_timesteps + 1, H, O]``, too, all after each diffusion step.
        """
        rows = len(next(iter(cond.values())))
        shape = (rows, self.horizon if horizon is None else horizon, self.obs_dim)
        x = apply_conditioning(_NOISE_SHARE * torch.randn(shape, device=self.betas.device), cond, 0)
        chain = [x.clone()]
        for step in reversed(range(self.n_timesteps)):
            t = self.all_at(step, rows)
            mean, _, log_variance = self.p_mean_variance(x, cond, t, returns)
            noise = _NOISE_SHARE * torch.randn_like(x) * remaining(t, x)
            x = apply_conditioning(mean + (0.5 * log_variance).exp() * noise, cond, 0)
            if return_diffusion:
                chain.append(x.clone())
        return (x, torch.stack(chain, dim=1)) if return_diffusion else x

    def p_losses(
        self, x_start: torch.Tensor, cond: Conditions, t: torch.Tensor, returns: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the weighted squared error, 0-d, on observations ``[B, H, O]`` that get noise."""
        noise = torch.randn_like(x_start)
        noisy = apply_conditioning(self.q_sample(x_start, t, noise), cond, 0)
        found, wanted = self.model(noisy, cond, t, returns), noise if self.predict_epsilon else x_start
        if not self.predict_epsilon:
            found = apply_conditioning(found.clone(), cond, 0)
        loss: torch.Tensor = ((found - wanted).square() * self.loss_weights).mean()
        return loss

    def forward(self, cond: Conditions, *args: Any, **kwargs: Any) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """:meth:`conditional_sample`."""
        return self.conditional_sample(cond, *args, **kwargs)
