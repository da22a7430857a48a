"""Spatio-temporal contrast beside an algorithm's own loss (ST-DIM, Anand et al. 2019, arXiv:1906.08226).

The encodings of an observation and of the next one shall belong together more than those of other pairs of the batch:
an auxiliary network tells them apart, and the encoder learns from it.
"""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data.roles import StateDict
from ding.policy._learning.distributed import broadcast_module
from ding.policy._learning.optimization import clipping_adam
from ding.torch_utils import Adam
from ding.torch_utils.loss import ContrastiveLoss


def contrast_loss(
    contrast: ContrastiveLoss, encoder: torch.nn.Module, batch: Mapping[str, Any], encoder_learns: bool
) -> torch.Tensor:
    """The contrast between the encodings of ``obs`` and of ``next_obs``, 0-d.

    Args:
        encoder_learns: whether gradients flow into the encoder.
    """
    with torch.set_grad_enabled(encoder_learns and torch.is_grad_enabled()):
        x, y = encodings(encoder, batch)
    output: torch.Tensor = contrast(x, y)
    return output


def encodings(encoder: torch.nn.Module, batch: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Those of ``obs`` and of ``next_obs``."""
    return encoder(_observation(batch["obs"])), encoder(_observation(batch["next_obs"]))


def _observation(obs: Any) -> Any:
    return obs["observation"] if isinstance(obs, Mapping) and "observation" in obs else obs


class ContrastParts:
    """What a policy needs to learn by contrast beside its own loss; second base of a policy class.

    The encoder is ``model.encoder``. ``cfg.aux_model`` are arguments of :class:`ContrastiveLoss`,
    ``cfg.aux_loss_weight`` is the weight of its loss for the encoder.
    """

    _cfg: Any
    _model: Any
    _device: Any
    _multi_gpu: bool
    _optimize: Any
    _aux_model: ContrastiveLoss
    _aux_optimizer: Adam

    def _init_contrast(self) -> None:
        cfg, encoder = self._cfg, self._model.encoder
        with torch.no_grad():
            size = list(encoder(_zeros(cfg.model.obs_shape, self._device)).shape[1:])
        self._aux_model = ContrastiveLoss(size, size, **cfg.aux_model).to(self._device)
        if self._multi_gpu:
            broadcast_module(self._aux_model)
        self._aux_optimizer = clipping_adam(self._aux_model.parameters(), cfg.learn, grad_clip_type=None)

    def _model_encode(self, data: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """The encodings of ``obs`` and of ``next_obs``, for subclasses."""
        return encodings(self._model.encoder, data)

    def _contrast_step(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """One update of the auxiliary network; returns its loss, 0-d."""
        loss = contrast_loss(self._aux_model, self._model.encoder, batch, encoder_learns=False)
        self._optimize(loss, self._aux_optimizer, self._aux_model)
        return loss.detach()

    def _weighted_contrast(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """What the encoder learns from, 0-d."""
        output: torch.Tensor = self._cfg.aux_loss_weight * contrast_loss(
            self._aux_model, self._model.encoder, batch, encoder_learns=True
        )
        return output

    def _with_aux_model(self, state_dict: StateDict) -> StateDict:
        """A learn state; one of DI-engine has no auxiliary network, which stays as it is then."""
        return {"aux_model": self._aux_model.state_dict(), **state_dict}


def _zeros(obs_shape: Any, device: Any) -> torch.Tensor | dict[str, Any]:
    """An observation of a batch of one."""
    if isinstance(obs_shape, Mapping):
        return {name: _zeros(shape, device) for name, shape in obs_shape.items()}
    shape = [obs_shape] if isinstance(obs_shape, int) else list(obs_shape)
    return torch.zeros(1, *shape, device=device)
