"""The latent world model of TD-MPC2 with its critics and its policy prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.head import EnsembleHead
from ding.model.common.shapes import ObsShape
from ding.model.template._qac_parts import ActorCriticModes, action_width, state_action, vector_width
from ding.torch_utils.network.dreamer import TwoHotDistSymlog
from ding.torch_utils.network.input_dtype import as_input
from ding.torch_utils.network.nn_module import MLP
from ding.torch_utils.network.normalization import SimNorm
from ding.utils import MODEL_REGISTRY
from ding.utils.errors import InvalidArgumentError

_WEIGHT_STD = 0.02
_LOG_STD_MIN, _LOG_STD_MAX = -10.0, 2.0


@MODEL_REGISTRY.register("tdmpc2")
class TDMPC2(ActorCriticModes):
    """A model of an env in a latent space (Hansen et al. 2023, arXiv:2310.16828): encoder, dynamics, rewards, E Q
    functions and a policy. Latent states are normalised by simplices (``SimNorm``); rewards and values are
    distributions over M buckets in symlog space (``TwoHotDistSymlog``). Hidden layers are linear, layer normalisation
    and Mish; the last layers of rewards and values begin with zeros.

    Shapes: L the size of a latent state, A of an action; ``...`` any axes in front.

    State: ``world.encoder.*``, ``world.dynamics.*``, ``world.reward.*``, ``world.critic.*``, ``actor.*``.

    Arguments:
        obs_shape: an int or ``(n,)``.
        action_shape: number of dimensions of the action, which lies in ``[-1, 1]``.
        latent_size: L, a multiple of ``simnorm_size``.
        simnorm_size: features of a simplex.
        hidden_size: width of the hidden layers behind the encoder, two in each network.
        encoder_hidden_size: width of the encoder's hidden layer.
        ensemble_num: E.
        num_buckets: M.
        max_symlog: the buckets are from minus to plus this, in symlog space; 10 holds numbers up to 22,025.
        dropout: probability of dropout in the Q functions.

    Raises:
        RuntimeError: ``obs_shape`` has more than one axis.
        ValueError: ``latent_size`` is no multiple of ``simnorm_size``, or there are fewer than two buckets.
    """

    action_space = "reparameterization"

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        latent_size: int = 512,
        simnorm_size: int = 8,
        hidden_size: int = 512,
        encoder_hidden_size: int = 256,
        ensemble_num: int = 5,
        num_buckets: int = 101,
        max_symlog: float = 10.0,
        dropout: float = 0.01,
    ) -> None:
        super().__init__()
        if latent_size % simnorm_size:
            raise InvalidArgumentError(
                f"latent_size must be a multiple of simnorm_size={simnorm_size!r}, got {latent_size!r}"
            )
        if num_buckets < 2:
            raise InvalidArgumentError(f"num_buckets must be at least 2, got {num_buckets!r}")
        self.obs_shape, self.action_shape, self.action_size = obs_shape, action_shape, action_width(action_shape)
        self.ensemble_num, self._max_symlog = ensemble_num, max_symlog
        inputs, mish = latent_size + self.action_size, nn.Mish()

        def layers(width: int, hidden: int, width_out: int, num: int, normalised: bool = False) -> list[nn.Module]:
            return [
                *MLP(width, hidden, width_out, num, None, mish, "LN", output_activation=False, output_norm=normalised)
            ]

        self.world = nn.ModuleDict(
            {
                "encoder": nn.Sequential(
                    *layers(vector_width(obs_shape), encoder_hidden_size, latent_size, 2, True), SimNorm(simnorm_size)
                ),
                "dynamics": nn.Sequential(*layers(inputs, hidden_size, latent_size, 3, True), SimNorm(simnorm_size)),
                "reward": nn.Sequential(*layers(inputs, hidden_size, num_buckets, 3)),
                "critic": EnsembleHead(
                    inputs, num_buckets, hidden_size, 2, ensemble_num, mish, norm_type="LN", dropout=dropout
                ),
            }
        )
        self.actor = nn.Sequential(*layers(latent_size, hidden_size, 2 * self.action_size, 3))
        self._init_weights()

    def _init_weights(self) -> None:
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Conv1d)):
                nn.init.trunc_normal_(module.weight, std=_WEIGHT_STD)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        nn.init.zeros_(self.world["reward"][-1].weight)  # type: ignore[index]
        nn.init.zeros_(self.world["critic"].pred[-1][0].weight)  # type: ignore[index, union-attr]

    def encode(self, obs: torch.Tensor) -> torch.Tensor:
        """Map observations ``[..., n]`` to latent states ``[..., L]``."""
        encoder = self.world["encoder"]
        output: torch.Tensor = encoder(obs if obs.is_floating_point() else as_input(obs, encoder))
        return output

    def step(self, latent: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Latent states ``[..., L]`` after actions ``[..., A]``."""
        output: torch.Tensor = self.world["dynamics"](torch.cat([latent, action], -1))
        return output

    def reward(self, latent: torch.Tensor, action: torch.Tensor) -> TwoHotDistSymlog:
        """Return rewards ``[..., 1]`` of actions ``[..., A]`` in latent states ``[..., L]``, as a distribution."""
        return self._two_hot(self.world["reward"](torch.cat([latent, action], -1)))

    def values(self, latent: torch.Tensor, action: torch.Tensor) -> TwoHotDistSymlog:
        """Values ``[E, ..., 1]`` of actions ``[..., A]`` in latent states ``[..., L]``, as a distribution."""
        return self._values(torch.cat([latent, action], -1))

    def prior(self, latent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and deviation ``[..., A]`` of actions before tanh, in latent states ``[..., L]``."""
        mu, raw = self.actor(latent).chunk(2, -1)
        return mu, (_LOG_STD_MIN + 0.5 * (_LOG_STD_MAX - _LOG_STD_MIN) * (torch.tanh(raw) + 1)).exp()

    def compute_actor(self, obs: torch.Tensor) -> dict[str, Any]:
        """Map observations ``[B, n]`` to ``logit``, the list of ``mu`` and ``sigma`` ``[B, A]`` of the policy prior."""
        return {"logit": [*self.prior(self.encode(obs))]}

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` ``[B, n]`` and ``action`` ``[B, A]`` to ``q_value`` ``[E, B]``."""
        return {"q_value": self._values(state_action(self.encode(inputs["obs"]), inputs)).mean().squeeze(-1)}

    def _values(self, inputs: torch.Tensor) -> TwoHotDistSymlog:
        pred = self.world["critic"](inputs.flatten(0, -2))["pred"]
        return self._two_hot(pred.view(*inputs.shape[:-1], self.ensemble_num, -1).movedim(-2, 0))

    def _two_hot(self, logits: torch.Tensor) -> TwoHotDistSymlog:
        return TwoHotDistSymlog(logits, -self._max_symlog, self._max_symlog)
