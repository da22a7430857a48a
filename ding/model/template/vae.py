"""A variational autoencoder of actions, given observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.torch_utils.network.input_dtype import as_input


def _layer(width_in: int, width_out: int, *last: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width_in, width_out), *(last or (nn.ReLU(),)))


class VanillaVAE(nn.Module):
    """Actions in ``[-1, 1]`` as latent variables, conditioned on observations (Kingma and Welling 2014,
    arXiv:1312.6114).

    Arguments:
        action_shape: dimensions of an action.
        obs_shape: dimensions of an observation.
        latent_size: dimensions of the latent variable.
        hidden_dims: two equal widths: the features of the observation scale those of the action.

    Raises:
        ValueError: the widths differ.
    """

    def __init__(
        self,
        action_shape: int,
        obs_shape: int,
        latent_size: int,
        hidden_dims: Sequence[int] = (256, 256),
        **kwargs: Any,
    ) -> None:
        super().__init__()
        first, last = hidden_dims
        if first != last:
            raise ValueError(f"hidden_dims of a VAE must be two equal widths, got {list(hidden_dims)}")
        self.latent_size = latent_size
        self.encode_action_head = _layer(action_shape, first)
        self.encode_obs_head = _layer(obs_shape, first)
        self.encode_common = _layer(first, last)
        self.encode_mu_head = nn.Linear(last, latent_size)
        self.encode_logvar_head = nn.Linear(last, latent_size)
        self.decode_action_head = _layer(latent_size, last)
        self.decode_common = _layer(last, first)
        self.decode_reconst_action_head = _layer(first, action_shape, nn.Tanh())
        self.decode_prediction_head_layer1 = _layer(first, first)
        self.decode_prediction_head_layer2 = nn.Linear(first, obs_shape)

    def encode(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """``action`` ``[B, N]`` and ``obs`` ``[B, n]`` to ``mu`` and ``log_var`` ``[B, latent]``, and
        ``obs_encoding``.
        """
        obs = self._encode_obs(inputs["obs"])
        features = self.encode_common(obs * self.encode_action_head(inputs["action"]))
        return {
            "mu": self.encode_mu_head(features), "log_var": self.encode_logvar_head(features), "obs_encoding": obs
        }  # fmt: skip

    def _encode_obs(self, obs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.encode_obs_head(as_input(obs, self.encode_obs_head))
        return output

    def decode(self, z: torch.Tensor, obs_encoding: torch.Tensor) -> dict[str, torch.Tensor]:
        """Latent variables, which ``tanh`` squashes first, to ``reconstruction_action`` ``[B, N]`` and
        ``predition_residual`` ``[B, n]``.
        """
        return self._decode(torch.tanh(z), obs_encoding)

    def decode_with_obs(self, z: torch.Tensor, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        """:meth:`decode` for observations ``[B, n]``, without ``tanh``: ``z`` is bounded already."""
        return self._decode(z, self._encode_obs(obs))

    def _decode(self, z: torch.Tensor, obs_encoding: torch.Tensor) -> dict[str, torch.Tensor]:
        features = self.decode_common(self.decode_action_head(z) * obs_encoding)
        return {
            "reconstruction_action": self.decode_reconst_action_head(features),
            "predition_residual": self.decode_prediction_head_layer2(self.decode_prediction_head_layer1(features)),
        }

    def forward(self, inputs: Mapping[str, torch.Tensor], **kwargs: Any) -> dict[str, Any]:
        """``action`` ``[B, N]`` and ``obs`` ``[B, n]`` to ``recons_action``, ``prediction_residual``, ``input``
        (``inputs`` itself), ``mu``, ``log_var`` and the drawn ``z``.
        """
        code = self.encode(inputs)
        z = code["mu"] + torch.exp(0.5 * code["log_var"]) * torch.randn_like(code["log_var"])
        output = self.decode(z, code["obs_encoding"])
        return {
            "recons_action": output["reconstruction_action"],
            "prediction_residual": output["predition_residual"],
            "input": inputs,
            "mu": code["mu"],
            "log_var": code["log_var"],
            "z": z,
        }


def kl_to_normal(mu: torch.Tensor, log_var: torch.Tensor) -> torch.Tensor:
    """Return the Kullback-Leibler divergence of normals ``[B, N]`` from the standard one, the mean over B: 0-d."""
    return (-0.5 * (1 + log_var - mu.square() - log_var.exp()).sum(1)).mean()
