"""DPM-Solver: fast sampling of diffusion models with few network evaluations (Lu et al. 2022, arXiv:2206.00927,
arXiv:2211.01095).

Noise grows with time: at time ``t`` a sample is ``alpha x0 + sigma e``. ``lambda = log(alpha / sigma)`` falls. A step
of the solver from time ``s`` to a smaller time ``t`` integrates exactly what does not depend on the network, and
expands what does in powers of ``h = lambda_t - lambda_s``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ding.utils.errors import InvalidArgumentError
from ding.utils.names import check_choice

_COSINE_SHIFT = 0.008
# The cosine schedule ends before its derivative grows too large.
_COSINE_END = 0.9946
_CONTINUOUS_N = 1000
_QUANTILE = 0.995
# Adaptive steps: initial size in lambda, fraction of the optimal size, and tolerance of the end time.
_FIRST_STEP, _SAFETY, _CLOSE = 0.05, 0.9, 1e-5
_SINGLE_STEP_PARTS = {2: (0.5, None), 3: (1 / 3, 2 / 3)}

Network = Callable[..., torch.Tensor]
"""``fn(x [B, ...], t [B])`` returns a tensor of the shape of ``x``."""


def interpolate_fn(x: torch.Tensor, xp: torch.Tensor, yp: torch.Tensor) -> torch.Tensor:
    """Interpolate linearly between key points; the first and last segments are extrapolated.

    Args:
        x: ``[N, C]``.
        xp, yp: key points ``[C, K]``, ``xp`` ascending.

    Returns:
        ``[N, C]``.
    """
    right = torch.searchsorted(xp.contiguous(), x.t().contiguous()).clamp(1, xp.shape[1] - 1)
    x0, x1 = xp.gather(1, right - 1), xp.gather(1, right)
    y0, y1 = yp.gather(1, right - 1), yp.gather(1, right)
    return (y0 + (x.t() - x0) * (y1 - y0) / (x1 - x0)).t()


def expand_dims(v: torch.Tensor, dims: int) -> torch.Tensor:
    """Map ``[N]`` to ``[N, 1, ..., 1]`` with ``dims`` axes."""
    return v.reshape(-1, *(1,) * (dims - 1))


class NoiseScheduleVP:
    """Variance-preserving noise schedule: ``alpha^2 + sigma^2 = 1``.

    Args:
        schedule: ``discrete`` (of a model that was trained on N steps), ``linear`` or ``cosine`` (in time).
        betas, alphas_cumprod: of ``discrete``, one of them: the noise of each step, ``[N]``, or what is left after it.
        continuous_beta_0, continuous_beta_1: of ``linear``: the rates at times 0 and 1.

    Attributes:
        T: the last time. total_N: number of steps.

    Raises:
        ValueError: another schedule.
        AssertionError: ``discrete`` without its steps.
    """

    def __init__(
        self,
        schedule: str = "discrete",
        betas: torch.Tensor | None = None,
        alphas_cumprod: torch.Tensor | None = None,
        continuous_beta_0: float = 0.1,
        continuous_beta_1: float = 20.0,
    ) -> None:
        check_choice("schedule", schedule, ("discrete", "linear", "cosine"))
        self.schedule = schedule
        self.beta_0, self.beta_1 = continuous_beta_0, continuous_beta_1
        self.T = _COSINE_END if schedule == "cosine" else 1.0
        self.total_N = _CONTINUOUS_N
        self._cosine_start = math.log(math.cos(_COSINE_SHIFT / (1 + _COSINE_SHIFT) * math.pi / 2))
        if schedule != "discrete":
            return
        if betas is None and alphas_cumprod is None:
            raise AssertionError("the schedule 'discrete' needs betas or alphas_cumprod")
        if betas is not None:
            logs = 0.5 * torch.log(1 - betas).cumsum(0)
        else:
            assert alphas_cumprod is not None
            logs = 0.5 * torch.log(alphas_cumprod)
        self.total_N = len(logs)
        self.t_array = torch.linspace(0, 1, self.total_N + 1, device=logs.device)[1:].reshape(1, -1).to(logs.dtype)
        self.log_alpha_array = logs.reshape(1, -1)

    def marginal_log_mean_coeff(self, t: torch.Tensor) -> torch.Tensor:
        """Return ``log alpha`` at times ``[N]``."""
        if self.schedule == "linear":
            return -0.25 * t**2 * (self.beta_1 - self.beta_0) - 0.5 * t * self.beta_0
        if self.schedule == "cosine":
            angle = (t + _COSINE_SHIFT) / (1 + _COSINE_SHIFT) * math.pi / 2
            return torch.log(torch.cos(angle)) - self._cosine_start
        times, logs = self.t_array.to(t), self.log_alpha_array.to(t)
        return interpolate_fn(t.reshape(-1, 1), times, logs).reshape(t.shape)

    def marginal_alpha(self, t: torch.Tensor) -> torch.Tensor:
        """Return ``alpha`` at times ``[N]``."""
        return self.marginal_log_mean_coeff(t).exp()

    def marginal_std(self, t: torch.Tensor) -> torch.Tensor:
        """Return ``sigma`` at times ``[N]``."""
        return (-torch.expm1(2 * self.marginal_log_mean_coeff(t))).sqrt()

    def marginal_lambda(self, t: torch.Tensor) -> torch.Tensor:
        """Return ``log(alpha / sigma)`` at times ``[N]``."""
        log_mean = self.marginal_log_mean_coeff(t)
        return log_mean - 0.5 * torch.log(-torch.expm1(2 * log_mean))

    def inverse_lambda(self, lamb: torch.Tensor) -> torch.Tensor:
        """Return the times ``[N]`` at which :meth:`marginal_lambda` has these values."""
        twice = torch.logaddexp(-2 * lamb, torch.zeros_like(lamb))  # -2 log alpha
        if self.schedule == "linear":
            rise = self.beta_1 - self.beta_0
            return 2 * twice / ((self.beta_0**2 + 2 * rise * twice).sqrt() + self.beta_0)
        if self.schedule == "cosine":
            angle = torch.arccos(torch.exp(-0.5 * twice + self._cosine_start))
            return angle * 2 * (1 + _COSINE_SHIFT) / math.pi - _COSINE_SHIFT
        logs, times = self.log_alpha_array.to(lamb).flip(1), self.t_array.to(lamb).flip(1)
        return interpolate_fn((-0.5 * twice).reshape(-1, 1), logs, times).reshape(lamb.shape)


def model_wrapper(
    model: Network,
    noise_schedule: NoiseScheduleVP,
    model_type: str = "noise",
    model_kwargs: Mapping[str, Any] | None = None,
    guidance_type: str = "uncond",
    condition: Any = None,
    unconditional_condition: Any = None,
    guidance_scale: float = 1.0,
    classifier_fn: Network | None = None,
    classifier_kwargs: Mapping[str, Any] | None = None,
) -> Network:
    """Wrap a network of any kind as a function ``(x [B, ...], t [B] or [1])`` that predicts noise.

    Args:
        model: ``model(x, t, **model_kwargs)``, with ``condition`` behind ``t`` for ``classifier-free``. Its times are
            those of the schedule, or of ``discrete`` the steps 0 to 1000.
        model_type: what it predicts: ``noise``, ``x_start``, ``v`` (velocity) or ``score``.
        guidance_type: ``uncond``, ``classifier`` or ``classifier-free``.
        condition, unconditional_condition: ``[B, ...]``; the second one stands for no condition.
        guidance_scale: Weight of the condition; 1 samples from the conditional model, higher values follow the
            condition more closely.
        classifier_fn: ``classifier_fn(x, t, condition, **classifier_kwargs)`` is the log-probability of the condition.

    Raises:
        ValueError: an unknown ``model_type`` or ``guidance_type``, or ``classifier`` without its function.
    """
    check_choice("model_type", model_type, ("noise", "x_start", "v", "score"))
    check_choice("guidance_type", guidance_type, ("uncond", "classifier", "classifier-free"))
    if guidance_type == "classifier" and classifier_fn is None:
        raise InvalidArgumentError("guidance_type='classifier' needs classifier_fn")
    schedule, arguments = noise_schedule, dict(model_kwargs or {})

    def model_time(t: torch.Tensor) -> torch.Tensor:
        return (t - 1 / schedule.total_N) * _CONTINUOUS_N if schedule.schedule == "discrete" else t

    def noise_of(x: torch.Tensor, t: torch.Tensor, *given: Any) -> torch.Tensor:
        return _as_noise(model(x, model_time(t), *given, **arguments), x, t, schedule, model_type)

    def guided(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        t = t.reshape(-1).expand(len(x))
        if guidance_type == "uncond":
            return noise_of(x, t)
        if guidance_type == "classifier":
            assert classifier_fn is not None
            with torch.enable_grad():
                moved = x.detach().requires_grad_()
                log_prob = classifier_fn(moved, model_time(t), condition, **(classifier_kwargs or {}))
                (slope,) = torch.autograd.grad(log_prob.sum(), moved)
            return noise_of(x, t) - guidance_scale * expand_dims(schedule.marginal_std(t), x.ndim) * slope
        if guidance_scale == 1 or unconditional_condition is None:
            return noise_of(x, t, condition)
        both = torch.cat([unconditional_condition, condition])
        without, with_it = noise_of(torch.cat([x, x]), torch.cat([t, t]), both).chunk(2)
        return without + guidance_scale * (with_it - without)

    return guided


def _as_noise(
    output: torch.Tensor, x: torch.Tensor, t: torch.Tensor, schedule: NoiseScheduleVP, model_type: str
) -> torch.Tensor:
    """Return the noise in ``x [B, ...]`` at times ``t [B]`` by what a network of a kind put out."""
    alpha, sigma = (expand_dims(one(t), x.ndim) for one in (schedule.marginal_alpha, schedule.marginal_std))
    if model_type == "x_start":
        return (x - alpha * output) / sigma
    if model_type == "v":
        return alpha * output + sigma * x
    return output if model_type == "noise" else -sigma * output


class _Terms(NamedTuple):
    """Coefficients of a step: of x, the scale of the remainder, and the first powers of h."""

    kept: torch.Tensor
    scale: torch.Tensor
    p1: torch.Tensor
    p2: torch.Tensor
    p3: torch.Tensor


class DPM_Solver:
    """Integrates a diffusion from noise to data.

    Args:
        model_fn: predicts noise: ``model_fn(x [B, ...], t [B])``.
        noise_schedule: that of the model.
        predict_x0: whether to expand the data that the model predicts, else the noise.
        thresholding: whether predicted data are limited to their 0.995 quantile, where that exceeds 1, and scaled to
            ``max_val``.
    """

    def __init__(
        self,
        model_fn: Network,
        noise_schedule: NoiseScheduleVP,
        predict_x0: bool = False,
        thresholding: bool = False,
        max_val: float = 1.0,
    ) -> None:
        self.model, self.noise_schedule = model_fn, noise_schedule
        self.predict_x0, self.thresholding, self.max_val = predict_x0, thresholding, max_val

    def noise_prediction_fn(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the noise in ``x [B, ...]`` at time ``t``, ``[B]`` or ``[1]``."""
        return self.model(x, t.reshape(-1).expand(len(x)))

    def data_prediction_fn(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the data behind ``x [B, ...]`` at time ``t``."""
        schedule, times = self.noise_schedule, t.reshape(-1)
        alpha, sigma = (expand_dims(one(times), x.ndim) for one in (schedule.marginal_alpha, schedule.marginal_std))
        data = (x - sigma * self.noise_prediction_fn(x, t)) / alpha
        if self.thresholding:
            limit = expand_dims(data.abs().flatten(1).quantile(_QUANTILE, dim=1).clamp(min=1), x.ndim)
            data = data.clamp(-limit, limit) / (limit / self.max_val)
        return data

    def model_fn(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Return the expanded quantity: the data or the noise."""
        return self.data_prediction_fn(x, t) if self.predict_x0 else self.noise_prediction_fn(x, t)

    def denoise_fn(self, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """Return the data behind ``x`` at time ``s``: a last step to time 0."""
        return self.data_prediction_fn(x, s)

    def get_time_steps(
        self, skip_type: str, t_T: float, t_0: float, N: int, device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        """Return N + 1 times from ``t_T`` down to ``t_0``.

        Args:
            skip_type: ``time_uniform``, ``logSNR`` (uniform in lambda) or ``time_quadratic``.

        Raises:
            ValueError: another ``skip_type``.
        """
        check_choice("skip_type", skip_type, ("time_uniform", "logSNR", "time_quadratic"))
        if skip_type == "logSNR":
            first, last = self.noise_schedule.marginal_lambda(torch.tensor([t_T, t_0])).tolist()
            return self.noise_schedule.inverse_lambda(torch.linspace(first, last, N + 1, device=device))
        if skip_type == "time_quadratic":
            return torch.linspace(t_T**0.5, t_0**0.5, N + 1, device=device).square()
        return torch.linspace(t_T, t_0, N + 1, device=device)

    def get_orders_for_singlestep_solver(self, steps: int, order: int) -> list[int]:
        """Return the orders of steps that together take ``steps`` evaluations.

        Raises:
            ValueError: ``order`` is none of 1, 2, 3.
        """
        check_choice("order", order, (1, 2, 3))
        if order == 1:
            return [1] * steps
        if order == 2:
            return [2] * (steps // 2) + [1] if steps % 2 else [2] * (steps // 2 - 1) + [1, 1]
        whole, rest = divmod(steps, 3)
        return [3] * (whole - 1) + [2, 1] if rest == 0 else [3] * whole + [rest]

    @torch.no_grad()
    def sample(
        self,
        x: torch.Tensor,
        steps: int = 20,
        t_start: float | None = None,
        t_end: float | None = None,
        order: int = 3,
        skip_type: str = "time_uniform",
        method: str = "singlestep",
        denoise: bool = False,
        solver_type: str = "dpm_solver",
        atol: float = 0.0078,
        rtol: float = 0.05,
    ) -> torch.Tensor:
        """Denoise ``x [B, ...]``.

        Args:
            steps: evaluations of the model (``adaptive`` takes as many as it needs).
            t_start, t_end: first and last time; by default that of the schedule, and ``1 / total_N``.
            order: 1, 2 or 3.
            skip_type: where the times lie: see :meth:`get_time_steps`.
            method: ``singlestep`` (orders that add up to ``steps``), ``singlestep_fixed`` (one order), ``multistep``
                (earlier outputs instead of new ones) or ``adaptive`` (sizes by the error, below ``atol`` and
                ``rtol``).
            denoise: whether to end with the data that the model predicts at the last time.
            solver_type: ``dpm_solver`` or ``taylor``.

        Raises:
            ValueError: an unknown method, order or ``solver_type``.
            FloatingPointError: the model gave NaN or infinity to ``adaptive``.
        """
        check_choice("method", method, ("singlestep", "singlestep_fixed", "multistep", "adaptive"))
        check_choice("order", order, (2, 3) if method == "adaptive" else (1, 2, 3))
        check_choice("solver_type", solver_type, ("dpm_solver", "taylor"))
        t_0 = 1 / self.noise_schedule.total_N if t_end is None else t_end
        t_T = self.noise_schedule.T if t_start is None else t_start
        if method == "adaptive":
            x = self._adaptive(x, order, t_T, t_0, solver_type, atol, rtol)
        elif method == "multistep":
            if steps < order:
                raise AssertionError(f"multistep needs at least as many steps as its order {order}, got {steps}")
            x = self._multistep(x, order, self.get_time_steps(skip_type, t_T, t_0, steps, x.device), solver_type)
        else:
            fixed = [order] * (steps // order)
            orders = fixed if method == "singlestep_fixed" else self.get_orders_for_singlestep_solver(steps, order)
            times = self.get_time_steps(skip_type, t_T, t_0, sum(orders), x.device)
            lambdas, first = self.noise_schedule.marginal_lambda(times), 0
            for one in orders:
                h = lambdas[first + one] - lambdas[first]
                parts = [(lambdas[first + part] - lambdas[first]) / h for part in range(1, one)]
                x, _ = self._single_step(x, times[first], times[first + one], one, solver_type, parts)
                first += one
        return self.denoise_fn(x, torch.full((1,), t_0, device=x.device)) if denoise else x

    def _terms(self, s: torch.Tensor, t: torch.Tensor) -> _Terms:
        schedule = self.noise_schedule
        h = schedule.marginal_lambda(t) - schedule.marginal_lambda(s)
        if self.predict_x0:
            p1 = torch.expm1(-h)
            kept, scale, p2 = (
                schedule.marginal_std(t) / schedule.marginal_std(s),
                schedule.marginal_alpha(t),
                p1 / h + 1,
            )
        else:
            p1 = torch.expm1(h)
            kept = torch.exp(schedule.marginal_log_mean_coeff(t) - schedule.marginal_log_mean_coeff(s))
            scale, p2 = schedule.marginal_std(t), p1 / h - 1
        return _Terms(kept, scale, p1, p2, p2 / h - 0.5)

    def _expanded(
        self, terms: _Terms, x: torch.Tensor, output: torch.Tensor, *slopes: torch.Tensor, halved: bool = False
    ) -> torch.Tensor:
        """``x`` after a step, by the output of the model at its begin, and the first and second slope of it by lambda,
        times h and its square; ``halved`` approximates the coefficient of the first.
        """
        result = terms.kept * x - terms.scale * terms.p1 * output
        if slopes:
            sign = 1 if self.predict_x0 else -1
            result = result + terms.scale * (-0.5 * terms.p1 if halved else sign * terms.p2) * slopes[0]
        return result - terms.scale * terms.p3 * slopes[1] if len(slopes) > 1 else result

    def _single_step(
        self,
        x: torch.Tensor,
        s: torch.Tensor,
        t: torch.Tensor,
        order: int,
        solver_type: str,
        parts: Sequence[torch.Tensor | float],
        outputs: Sequence[torch.Tensor] = (),
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return a step from ``s`` to ``t`` with evaluations at shares ``parts`` of it.

        Args:
            outputs: of the model at ``s``, and at the first share, as far as they are known.

        Returns:
            ``x`` at ``t``, and the outputs at ``s`` and the first share.
        """
        terms, outs = self._terms(s, t), list(outputs) or [self.model_fn(x, s)]
        if order == 1:
            return self._expanded(terms, x, outs[0]), outs
        schedule, r1 = self.noise_schedule, parts[0]
        start = schedule.marginal_lambda(s)
        h = schedule.marginal_lambda(t) - start
        if len(outs) == 1:
            s1 = schedule.inverse_lambda(start + r1 * h)
            outs.append(self.model_fn(self._expanded(self._terms(s, s1), x, outs[0]), s1))
        first = outs[1] - outs[0]
        if order == 2:
            return self._expanded(terms, x, outs[0], first / r1, halved=solver_type == "dpm_solver"), outs
        r2 = parts[1]
        s2 = schedule.inverse_lambda(start + r2 * h)
        second = self.model_fn(self._expanded(self._terms(s, s2), x, outs[0], r2 / r1 * first), s2) - outs[0]
        if solver_type == "dpm_solver":
            return self._expanded(terms, x, outs[0], second / r2), outs
        slope = (r2 * first / r1 - r1 * second / r2) / (r2 - r1)
        return self._expanded(terms, x, outs[0], slope, 2 * (second / r2 - first / r1) / (r2 - r1)), outs

    def _multistep(self, x: torch.Tensor, order: int, times: torch.Tensor, solver_type: str) -> torch.Tensor:
        """Integrate with earlier outputs of the model, with increasing order at the beginning."""
        lambdas = self.noise_schedule.marginal_lambda(times)
        outs = [self.model_fn(x, times[0])]
        for step in range(1, len(times)):
            now = step - 1
            h = lambdas[step] - lambdas[now]
            terms, using = self._terms(times[now], times[step]), min(order, step)
            slopes: list[torch.Tensor] = []
            if using > 1:
                r0 = (lambdas[now] - lambdas[now - 1]) / h
                slopes = [(outs[-1] - outs[-2]) / r0]
            if using > 2:
                r1 = (lambdas[now - 1] - lambdas[now - 2]) / h
                change = slopes[0] - (outs[-2] - outs[-3]) / r1
                slopes = [slopes[0] + r0 / (r0 + r1) * change, change / (r0 + r1)]
            halved = using == 2 and solver_type == "dpm_solver"
            x = self._expanded(terms, x, outs[-1], *slopes, halved=halved)
            if step < len(times) - 1:
                outs = [*outs[-2:], self.model_fn(x, times[step])]
        return x

    def _adaptive(
        self, x: torch.Tensor, order: int, t_T: float, t_0: float, solver_type: str, atol: float, rtol: float
    ) -> torch.Tensor:
        """Integrate with step sizes from the difference between two orders."""
        schedule = self.noise_schedule
        s, end = (torch.full((), one, device=x.device) for one in (t_T, t_0))
        start, last = schedule.marginal_lambda(s), schedule.marginal_lambda(end)
        h, previous = torch.full_like(s, _FIRST_STEP), x
        r1, r2 = _SINGLE_STEP_PARTS[order]
        parts = [r1] if r2 is None else [r1, r2]
        while float((s - end).abs()) > _CLOSE:
            t = schedule.inverse_lambda(start + h)
            low, outs = self._single_step(x, s, t, order - 1, solver_type, parts)
            high, _ = self._single_step(x, s, t, order, solver_type, parts, outs)
            allowed = (rtol * torch.maximum(low.abs(), previous.abs())).clamp(min=atol)
            error = ((high - low) / allowed).flatten(1).square().mean(1).sqrt().max()
            if not torch.isfinite(error):
                raise FloatingPointError(f"the model of DPM_Solver gave NaN or infinity at time {float(s):.4g}")
            if error <= 1:
                x, previous, s = high, low, t
                start = schedule.marginal_lambda(s)
            h = torch.minimum(_SAFETY * h * error ** (-1 / order), last - start)
        return x
