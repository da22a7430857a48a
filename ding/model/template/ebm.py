"""Energies of actions, and the search for actions of low energy (Florence et al. 2021, arXiv:2109.00137)."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from ding.model.common.head import RegressionHead
from ding.torch_utils.parameter import frozen
from ding.utils import MODEL_REGISTRY, STOCHASTIC_OPTIMIZER_REGISTRY

_NORMS = {"1": 1.0, "2": 2.0, "inf": float("inf")}
_STEP_SIZES = {"init": 0.5, "final": 1e-5, "power": 2.0}
_SMALL_STEP_SIZES = {"init": 1e-5, "final": 1e-5, "power": 2.0}


@MODEL_REGISTRY.register("ebm")
class EBM(nn.Module):
    """One energy for an observation and an action: low where the action fits. State: ``net``.

    Arguments:
        obs_shape, action_shape: numbers of features and of dimensions.
        hidden_size, hidden_layer_num: width and number of the hidden layers after the first.
        kwargs: ignored, such as ``stochastic_optim``, which the policy reads.
    """

    def __init__(
        self, obs_shape: int, action_shape: int, hidden_size: int = 512, hidden_layer_num: int = 4, **kwargs: Any
    ) -> None:
        super().__init__()
        head = RegressionHead(hidden_size, 1, hidden_layer_num, hidden_size=hidden_size)
        self.net = nn.Sequential(nn.Linear(obs_shape + action_shape, hidden_size), nn.ReLU(), head)

    def forward(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Map ``[B, S, O]`` and ``[B, S, N]`` to energies ``[B, S]``."""
        output: torch.Tensor = self.net(torch.cat([obs, action], dim=-1))["pred"].reshape(obs.shape[:-1])
        return output


@MODEL_REGISTRY.register("arebm")
class AutoregressiveEBM(nn.Module):
    """An energy for each dimension of the action, which reads the dimensions up to it. State: ``ebm_list``.

    Arguments: as those of ``EBM``.
    """

    def __init__(
        self, obs_shape: int, action_shape: int, hidden_size: int = 512, hidden_layer_num: int = 4, **kwargs: Any
    ) -> None:
        super().__init__()
        self.ebm_list = nn.ModuleList(
            EBM(obs_shape, width, hidden_size, hidden_layer_num) for width in range(1, action_shape + 1)
        )

    def forward(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Map ``[B, S, O]`` and ``[B, S, N]`` to energies ``[B, S, N]``."""
        return torch.stack([ebm(obs, action[..., : i + 1]) for i, ebm in enumerate(self.ebm_list)], dim=-1)


def no_ebm_grad() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator for a search of one's own: inside the method the network of energies, its last positional argument,
    computes gradients by actions only, not by its parameters.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> object:
            if not (args and isinstance(args[-1], nn.Module)):
                raise TypeError(f"{method.__qualname__} takes the network of energies as its last positional argument")
            with frozen(args[-1].parameters()):
                return method(*args, **kwargs)

        return call

    return decorate


def create_stochastic_optimizer(device: str, stochastic_optimizer_config: Mapping[str, Any]) -> StochasticOptimizer:
    """Build the search that ``type`` names (``dfo, ardfo, mcmc``), with the other entries as its arguments.

    Raises:
        KeyError: no ``type``, or an unknown one; the message names the nearest.
    """
    kind = STOCHASTIC_OPTIMIZER_REGISTRY.type_of(stochastic_optimizer_config)
    arguments = copy.deepcopy({key: value for key, value in stochastic_optimizer_config.items() if key != "type"})
    made: StochasticOptimizer = STOCHASTIC_OPTIMIZER_REGISTRY.build(kind, device=device, **arguments)
    return made


class StochasticOptimizer(ABC):
    """Draws actions for observations: many, to learn that they do not fit, or one that does.

    Arguments:
        train_samples, inference_samples: actions for each observation, to learn and to act.
    """

    def __init__(self, train_samples: int, inference_samples: int, device: str = "cpu") -> None:
        self.train_samples, self.inference_samples, self.device = train_samples, inference_samples, device
        #: float32 ``[2, N]``.
        self.action_bounds = torch.empty(2, 0, device=device)

    def set_action_bounds(self, action_bounds: Any) -> None:
        """Set the lowest and the highest actions, ``[2, N]``; the search needs them."""
        self.action_bounds = torch.as_tensor(action_bounds, dtype=torch.float32).to(self.device)

    @abstractmethod
    def sample(self, obs: torch.Tensor, ebm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """Map observations ``[B, O]`` to ``train_samples`` actions each: ``[B, S, O]`` and ``[B, S, N]``."""

    @abstractmethod
    def infer(self, obs: torch.Tensor, ebm: nn.Module) -> torch.Tensor:
        """Map observations ``[B, O]`` to the action of the least energy that is found, ``[B, N]``."""

    def _uniform(self, obs: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """``count`` random actions for each observation, and as many copies of it."""
        low, high = self.action_bounds
        drawn = torch.rand(len(obs), count, len(low)).to(self.device)
        return obs.unsqueeze(1).expand(-1, count, -1), low + (high - low) * drawn

    def _clamped(self, action: torch.Tensor) -> torch.Tensor:
        return action.clamp(*self.action_bounds)


def _best(energies: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Of actions ``[B, S, N]`` those of the least energy ``[B, S]``."""
    return actions[torch.arange(len(actions)), energies.argmin(dim=1)]


def _redrawn(energies: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """As many actions ``[B, S, N]`` again, drawn by ``softmax(-energy)``."""
    chosen = torch.multinomial(torch.softmax(-energies, dim=-1), actions.shape[1], replacement=True)
    return actions.gather(1, chosen.unsqueeze(-1).expand_as(actions))


@STOCHASTIC_OPTIMIZER_REGISTRY.register("dfo")
class DFO(StochasticOptimizer):
    """Search without derivatives: draw by energy, add noise that shrinks, and again.

    Arguments:
        noise_scale, noise_shrink: deviation of the noise in the first pass, and its factor from one to the next.
        iters: passes.
        train_samples, inference_samples: actions for each observation, to learn and to act.
    """

    def __init__(
        self,
        noise_scale: float = 0.33,
        noise_shrink: float = 0.5,
        iters: int = 3,
        train_samples: int = 8,
        inference_samples: int = 16384,
        device: str = "cpu",
    ) -> None:
        super().__init__(train_samples, inference_samples, device)
        self.noise_scale, self.noise_shrink, self.iters = noise_scale, noise_shrink, iters

    def sample(self, obs: torch.Tensor, ebm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """Uniform ones."""
        return self._uniform(obs, self.train_samples)

    @torch.no_grad()
    def infer(self, obs: torch.Tensor, ebm: nn.Module) -> torch.Tensor:
        """Map observations ``[B, O]`` to the action of the least energy that is found, ``[B, N]``."""
        obs, actions = self._uniform(obs, self.inference_samples)
        for step in range(self.iters):
            actions = self._pass(obs, actions, ebm, self.noise_scale * self.noise_shrink**step)
        return _best(self._energies(obs, actions, ebm), actions)

    def _pass(self, obs: torch.Tensor, actions: torch.Tensor, ebm: nn.Module, scale: float) -> torch.Tensor:
        actions = _redrawn(ebm(obs, actions), actions)
        return self._clamped(actions + torch.randn_like(actions) * scale)

    def _energies(self, obs: torch.Tensor, actions: torch.Tensor, ebm: nn.Module) -> torch.Tensor:
        output: torch.Tensor = ebm(obs, actions)
        return output


@STOCHASTIC_OPTIMIZER_REGISTRY.register("ardfo")
class AutoRegressiveDFO(DFO):
    """:class:`DFO` for :class:`AutoregressiveEBM`, one dimension of the action after the other."""

    def __init__(
        self,
        noise_scale: float = 0.33,
        noise_shrink: float = 0.5,
        iters: int = 3,
        train_samples: int = 8,
        inference_samples: int = 4096,
        device: str = "cpu",
    ) -> None:
        super().__init__(noise_scale, noise_shrink, iters, train_samples, inference_samples, device)

    def _pass(self, obs: torch.Tensor, actions: torch.Tensor, ebm: nn.Module, scale: float) -> torch.Tensor:
        for dim in range(actions.shape[-1]):
            actions = _redrawn(ebm(obs, actions)[..., dim], actions)
            noise = torch.zeros_like(actions)
            noise[..., dim].normal_(0.0, scale)
            actions = self._clamped(actions + noise)
        return actions

    def _energies(self, obs: torch.Tensor, actions: torch.Tensor, ebm: nn.Module) -> torch.Tensor:
        """That of the whole action is the sum of those of its dimensions."""
        output: torch.Tensor = ebm(obs, actions).sum(-1)
        return output


@STOCHASTIC_OPTIMIZER_REGISTRY.register("mcmc")
class MCMC(StochasticOptimizer):
    """Langevin dynamics: steps down the gradient of the energy, with noise.

    Arguments:
        iters: steps; at least 2.
        use_langevin_negative_samples: whether to learn from the results of such steps, not from uniform actions.
        train_samples, inference_samples: actions for each observation, to learn and to act.
        stepsize_scheduler: the sizes of the steps, ``init`` to ``final`` by the power ``power``; the first is used
            twice, and the last one not.
        optimize_again, again_stepsize_scheduler: whether to act after a second round, and the sizes of its steps.
        noise_scale: deviation of the noise.
        grad_clip: limit of each entry of the gradient; ``None``: none.
        delta_action_clip: limit of a step as a share of half the range of the actions.
        add_grad_penalty: whether steep energies are punished: the norm ``grad_norm_type`` (``'1', '2', 'inf'``) of
            their gradients where it exceeds ``grad_margin``, squared, times ``grad_loss_weight``.
    """

    def __init__(
        self,
        iters: int = 100,
        use_langevin_negative_samples: bool = True,
        train_samples: int = 8,
        inference_samples: int = 512,
        stepsize_scheduler: Mapping[str, float] = _STEP_SIZES,
        optimize_again: bool = True,
        again_stepsize_scheduler: Mapping[str, float] = _SMALL_STEP_SIZES,
        device: str = "cpu",
        noise_scale: float = 0.5,
        grad_clip: float | None = None,
        delta_action_clip: float = 0.5,
        add_grad_penalty: bool = True,
        grad_norm_type: str = "inf",
        grad_margin: float = 1.0,
        grad_loss_weight: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(train_samples, inference_samples, device)
        if str(grad_norm_type) not in _NORMS:
            raise ValueError(f"grad_norm_type must be one of {', '.join(_NORMS)}, got {grad_norm_type!r}")
        if iters < 2:
            raise ValueError(f"iters must be at least 2, got {iters}")
        self.iters, self.use_langevin_negative_samples = iters, use_langevin_negative_samples
        self.stepsize_scheduler = dict(stepsize_scheduler)
        self.again_stepsize_scheduler = dict(again_stepsize_scheduler)
        self.optimize_again, self.noise_scale = optimize_again, noise_scale
        self.grad_clip, self.delta_action_clip = grad_clip, delta_action_clip
        self.add_grad_penalty, self.grad_norm = add_grad_penalty, _NORMS[str(grad_norm_type)]
        self.grad_margin, self.grad_loss_weight = grad_margin, grad_loss_weight

    def sample(self, obs: torch.Tensor, ebm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """Those at which the dynamics ended, or uniform ones."""
        obs, actions = self._uniform(obs, self.train_samples)
        if self.use_langevin_negative_samples:
            actions = self._walk(obs, actions, ebm, self.stepsize_scheduler)
        return obs, actions

    def infer(self, obs: torch.Tensor, ebm: nn.Module) -> torch.Tensor:
        """Map observations ``[B, O]`` to the action of the least energy that is found, ``[B, N]``."""
        obs, actions = self._uniform(obs, self.inference_samples)
        actions = self._walk(obs, actions, ebm, self.stepsize_scheduler)
        if self.optimize_again:
            actions = self._walk(obs, actions, ebm, self.again_stepsize_scheduler)
        with torch.no_grad():
            return _best(ebm(obs, actions), actions)

    def grad_penalty(self, obs: torch.Tensor, action: torch.Tensor, ebm: nn.Module) -> torch.Tensor:
        """Return the penalty of steep energies at ``[B, S, O]`` and ``[B, S, N]``: 0-d, with gradients."""
        if not self.add_grad_penalty:
            return torch.zeros((), device=self.device)
        slopes = _slope(obs, action, ebm, create_graph=True)
        excess = torch.linalg.vector_norm(slopes, self.grad_norm, dim=-1) - self.grad_margin
        output: torch.Tensor = excess.clamp(min=0).square().mean() * self.grad_loss_weight
        return output

    def _walk(
        self, obs: torch.Tensor, actions: torch.Tensor, ebm: nn.Module, sizes: Mapping[str, float]
    ) -> torch.Tensor:
        low, high = self.action_bounds
        limit = self.delta_action_clip * 0.5 * (high - low)
        for size in _step_sizes(self.iters, sizes["init"], sizes["final"], sizes["power"]):
            slope = _slope(obs, actions, ebm)
            if self.grad_clip is not None:
                slope = slope.clamp(-self.grad_clip, self.grad_clip)
            move = size * (0.5 * slope + torch.randn_like(slope) * self.noise_scale)
            actions = self._clamped(actions - move.clamp(-limit, limit))
        return actions


def _step_sizes(count: int, init: float, final: float, power: float) -> Iterator[float]:
    """Yield ``count`` sizes from ``init`` towards ``final``: the first one twice, and ``final`` itself not."""
    for step in (0, *range(count - 1)):
        yield (init - final) * (1 - step / (count - 1)) ** power + final


def _slope(obs: torch.Tensor, actions: torch.Tensor, ebm: nn.Module, create_graph: bool = False) -> torch.Tensor:
    """Return the gradients of the energies by the actions, ``[B, S, N]``."""
    with torch.enable_grad():
        actions = actions.detach().requires_grad_()
        (slope,) = torch.autograd.grad(ebm(obs, actions).sum(), actions, create_graph=create_graph)
    return slope
