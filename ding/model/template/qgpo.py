"""QGPO: a diffusion of actions, and energies that guide it towards high values (Lu et al. 2023, arXiv:2304.12824).

Actions are ``[B, A]``, states ``[B, O]``, diffusion times ``t`` float ``[B]`` in (0, 1].
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ding.model.common.encoder import GaussianFourierProjectionTimeEncoder
from ding.torch_utils.diffusion_SDE.dpm_solver_pytorch import DPM_Solver, NoiseScheduleVP
from ding.torch_utils.network.res_block import TemporalSpatialResBlock

_WIDTH, _LAYERS = 256, 3
_SCHEDULE = NoiseScheduleVP("linear")
_FIRST_TIME = 1e-3


def marginal_prob_std(t: torch.Tensor, device: torch.device | str | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return alpha and sigma at times ``t``: a sample is ``alpha x + sigma e`` then.

    Args:
        device: where they go; None: where ``t`` is.
    """
    t = torch.as_tensor(t, device=device)
    return _SCHEDULE.marginal_alpha(t), _SCHEDULE.marginal_std(t)


def _mlp(inputs: int, activation: type[nn.Module]) -> nn.Sequential:
    """Three hidden layers and one output."""
    layers: list[nn.Module] = []
    for _ in range(_LAYERS):
        layers += [nn.Linear(inputs, _WIDTH), activation()]
        inputs = _WIDTH
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def _joined(*parts: torch.Tensor | None) -> torch.Tensor:
    return torch.cat([part for part in parts if part is not None], dim=-1)


class TwinQ(nn.Module):
    """Two Q functions of actions and states: ``[B, 1]`` each."""

    def __init__(self, action_dim: int, state_dim: int) -> None:
        super().__init__()
        self.q1 = _mlp(action_dim + state_dim, nn.ReLU)
        self.q2 = _mlp(action_dim + state_dim, nn.ReLU)

    def both(self, action: torch.Tensor, condition: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the values by both, for actions in the states ``condition``."""
        inputs = _joined(action, condition)
        return self.q1(inputs), self.q2(inputs)

    def forward(self, action: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:
        """Return the smaller one of both values."""
        return torch.min(*self.both(action, condition))


class GuidanceQt(nn.Module):
    """The energy of an action with noise, in a state: ``[B, 1]``."""

    def __init__(self, action_dim: int, state_dim: int, time_embed_dim: int = 32) -> None:
        super().__init__()
        self.qt = _mlp(action_dim + time_embed_dim + state_dim, nn.SiLU)
        self.embed = _time_embedding(time_embed_dim)

    def forward(self, action: torch.Tensor, t: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:
        """Return energies of actions with the noise of times ``t``."""
        output: torch.Tensor = self.qt(_joined(action, self.embed(t), condition))
        return output


def _time_embedding(dim: int) -> nn.Sequential:
    return nn.Sequential(GaussianFourierProjectionTimeEncoder(embed_dim=dim), nn.Linear(dim, dim))


class QGPOCritic(nn.Module):
    """The Q functions ``q0`` with their target network, and the energies ``qt``, which are those of noisy actions.

    Args:
        device: kept for scripts of DI-engine: the networks are where they are moved to.
        cfg: ``alpha``, the inverse temperature of the energies, and ``q_alpha``, that of the values in a state.
    """

    def __init__(self, device: Any, cfg: Mapping[str, Any], action_dim: int, state_dim: int) -> None:
        super().__init__()
        self.alpha, self.q_alpha = float(cfg["alpha"]), float(cfg["q_alpha"])
        self.q0 = TwinQ(action_dim, state_dim)
        self.q0_target = copy.deepcopy(self.q0).requires_grad_(False)
        self.qt = GuidanceQt(action_dim, state_dim)

    def calculateQ(self, a: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:
        """``Q(s, a)``, ``[B, 1]``."""
        output: torch.Tensor = self.q0(a, condition)
        return output

    def forward(self, a: torch.Tensor, condition: torch.Tensor | None = None) -> torch.Tensor:
        """``Q(s, a)``, ``[B, 1]``."""
        return self.calculateQ(a, condition)

    def calculate_guidance(
        self, a: torch.Tensor, t: torch.Tensor, condition: torch.Tensor | None = None, guidance_scale: float = 1.0
    ) -> torch.Tensor:
        """Return the gradients of the energies by the actions, ``[B, A]``, times a scale."""
        with torch.enable_grad():
            a = a.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.qt(a, t, condition).sum(), a)
        return guidance_scale * slope


class ScoreNet(nn.Module):
    """The score of actions with noise, the gradient of their log-density, in a state: ``[B, A]``.

    Args:
        device: kept for scripts of DI-engine.
        input_dim: numbers of actions and states together.
        output_dim: numbers of an action.
    """

    def __init__(self, device: Any, input_dim: int, output_dim: int, embed_dim: int = 32) -> None:
        super().__init__()
        self.embed = _time_embedding(embed_dim)
        self.pre_sort_condition = nn.Sequential(nn.Linear(input_dim - output_dim, 32), nn.SiLU())
        self.sort_t = nn.Sequential(nn.Linear(32 + embed_dim, 128), nn.SiLU(), nn.Linear(128, 128))
        self.down_block1 = TemporalSpatialResBlock(output_dim, 512)
        self.down_block2 = TemporalSpatialResBlock(512, 256)
        self.down_block3 = TemporalSpatialResBlock(256, 128)
        self.middle1 = TemporalSpatialResBlock(128, 128)
        self.up_block3 = TemporalSpatialResBlock(256, 256)
        self.up_block2 = TemporalSpatialResBlock(512, 512)
        self.last = nn.Linear(1024, output_dim)

    def forward(self, x: torch.Tensor, t: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Scores of actions ``x`` with the noise of times ``t`` in the states ``condition``."""
        embedding = self.sort_t(torch.cat([self.pre_sort_condition(condition), self.embed(t)], dim=-1))
        down1 = self.down_block1(x, embedding)
        down2 = self.down_block2(down1, embedding)
        down3 = self.down_block3(down2, embedding)
        up = self.up_block3(torch.cat([down3, self.middle1(down3, embedding)], dim=-1), embedding)
        up = self.up_block2(torch.cat([down2, up], dim=-1), embedding)
        output: torch.Tensor = self.last(torch.cat([down1, up], dim=-1))
        return output / marginal_prob_std(t)[1].unsqueeze(-1)


class QGPO(nn.Module):
    """A diffusion of the actions of a data set, and the critic that guides it.

    Args:
        cfg: ``obs_dim``, ``action_dim``, ``qgpo_critic`` (``alpha``, ``q_alpha``).
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        super().__init__()
        self.obs_dim, self.action_dim = int(cfg["obs_dim"]), int(cfg["action_dim"])
        device = cfg.get("device")
        self.score_model = ScoreNet(device, self.obs_dim + self.action_dim, self.action_dim)
        self.q = QGPOCritic(device, cfg["qgpo_critic"], self.action_dim, self.obs_dim)
        self.noise_schedule = _SCHEDULE

    def calculateQ(self, s: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        """``Q(s, a)``, ``[B, 1]``."""
        return self.q(a, s)  # type: ignore[no-any-return]

    @torch.no_grad()
    def _drawn(self, states: torch.Tensor, diffusion_steps: int, guidance_scale: float) -> torch.Tensor:
        """Return an action for each of the states ``[B, O]``: ``[B, A]``."""

        def noise(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            score: torch.Tensor = self.score_model(x, t, condition=states)
            if guidance_scale:
                score = score + self.q.calculate_guidance(x, t, states, guidance_scale)
            return -score * marginal_prob_std(t)[1].unsqueeze(-1)

        training = self.training
        self.eval()
        start = torch.randn((len(states), self.action_dim), device=states.device)
        drawn = DPM_Solver(noise, self.noise_schedule, predict_x0=True).sample(start, steps=diffusion_steps, order=2)
        self.train(training)
        return drawn

    def _states(self, states: Any) -> torch.Tensor:
        values = states if isinstance(states, torch.Tensor) else np.asarray(states)
        return torch.as_tensor(values, dtype=torch.float32, device=next(self.parameters()).device)

    def select_actions(
        self,
        states: torch.Tensor | np.ndarray | Sequence[Any],
        diffusion_steps: int = 15,
        guidance_scale: float = 1.0,
    ) -> np.ndarray | list[np.ndarray]:
        """Draw an action for each state.

        Args:
            states: ``[B, O]``, or one state ``[O]``.
            diffusion_steps: evaluations of the network.
            guidance_scale: how much the energies count; 0: actions as in the data set.

        Returns:
            A list of B arrays ``[A]``, or one array.
        """
        given = self._states(states)
        drawn = self._drawn(given.reshape(-1, self.obs_dim), diffusion_steps, guidance_scale).cpu().numpy()
        return drawn[0] if given.ndim == 1 else list(drawn)

    def sample(
        self,
        states: torch.Tensor | np.ndarray | Sequence[Any],
        sample_per_state: int = 16,
        diffusion_steps: int = 15,
        guidance_scale: float = 1.0,
    ) -> np.ndarray:
        """Draw M = ``sample_per_state`` actions for each of the states ``[N, O]``: ``[N, M, A]``."""
        each = self._states(states).reshape(-1, self.obs_dim).repeat_interleave(sample_per_state, dim=0)
        drawn: np.ndarray = self._drawn(each, diffusion_steps, guidance_scale).cpu().numpy()
        return drawn.reshape(-1, sample_per_state, self.action_dim)

    def score_model_loss_fn(self, x: torch.Tensor, s: torch.Tensor, eps: float = _FIRST_TIME) -> torch.Tensor:
        """Return the loss of the scores of actions ``x [B, A]`` in states ``s [B, O]`` that get noise: 0-d.

        Args:
            eps: the first of the times that are drawn.
        """
        t = torch.rand(len(x), device=x.device) * (1 - eps) + eps
        noise = torch.randn_like(x)
        alpha, sigma = (one.unsqueeze(-1) for one in marginal_prob_std(t))
        score = self.score_model(alpha * x + sigma * noise, t, condition=s)
        loss: torch.Tensor = (score * sigma + noise).square().sum(-1).mean()
        return loss

    def q_loss_fn(
        self,
        a: torch.Tensor,
        s: torch.Tensor,
        r: torch.Tensor,
        s_: torch.Tensor,
        d: torch.Tensor,
        fake_a_: torch.Tensor,
        discount: float = 0.99,
    ) -> torch.Tensor:
        """Return the loss of the Q functions: 0-d.

        The value of the next state ``s_`` is that of actions ``fake_a_ [B, M, A]`` of the data's kind, weighted by
        ``softmax(q_alpha Q)``; ``r`` and ``d`` (whether ``s_`` is terminal) are ``[B, 1]``.
        """
        with torch.no_grad():
            energy = self._energies(fake_a_, s_)
            value = (torch.softmax(self.q.q_alpha * energy, dim=-1) * energy).sum(-1, keepdim=True)
            target = r + (1 - d) * discount * value
        first, second = self.q.q0.both(a, s)
        loss: torch.Tensor = ((first - target).square().mean() + (second - target).square().mean()) / 2
        return loss

    def qt_loss_fn(self, s: torch.Tensor, fake_a: torch.Tensor) -> torch.Tensor:
        """Return the loss of the energies of noisy actions, a cross entropy: 0-d.

        Of actions ``fake_a [B, M, A]`` with noise, the energies shall tell which have high values without it.
        """
        with torch.no_grad():
            wanted = torch.softmax(self.q.alpha * self._energies(fake_a, s), dim=-1)
        per_state = fake_a.shape[1]
        t = torch.rand(len(s), device=s.device) * (1 - _FIRST_TIME) + _FIRST_TIME
        t = t.unsqueeze(1).expand(-1, per_state)
        noise = torch.randn_like(fake_a)
        alpha, sigma = (one.unsqueeze(-1) for one in marginal_prob_std(t))
        noisy = alpha * fake_a + sigma * noise
        energy = self.q.qt(noisy, t, s.unsqueeze(1).expand(-1, per_state, -1)).squeeze(-1)
        return -(wanted * torch.log_softmax(energy, dim=-1)).sum(-1).mean()

    def _energies(self, actions: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Return the target's values of actions ``[B, M, A]`` in their states: ``[B, M]``."""
        each = states.unsqueeze(1).expand(-1, actions.shape[1], -1)
        values: torch.Tensor = self.q.q0_target(actions, each)
        return values.squeeze(-1)
