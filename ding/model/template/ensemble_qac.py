"""Actors with ensembles of Q functions in one network: TQC, REDQ, DroQ and CrossQ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from ding.model.common.head import EnsembleHead, ReparameterizationHead
from ding.model.common.shapes import Observation, ObsShape
from ding.model.template._qac_parts import (
    RELU,
    ActorCriticModes,
    action_width,
    actor_output,
    continuous_actor,
    qac_encoders,
    state_action,
)
from ding.torch_utils.network.input_dtype import as_input
from ding.torch_utils.network.normalization import BatchRenorm
from ding.utils import MODEL_REGISTRY


class _EnsembleModes(ActorCriticModes):
    """Actor and critics, each an encoder and a head."""

    actor: nn.ModuleDict
    critic: nn.ModuleDict
    ensemble_num: int
    num_quantiles: int | None = None

    @property
    def actor_head(self) -> nn.Module:
        """The actor behind its encoder; the last module of it is a ``ReparameterizationHead``."""
        return self.actor["head"]

    def compute_actor(self, obs: Observation) -> dict[str, Any]:
        """Observations ``[B, *obs_shape]`` to ``logit``: the list of ``mu`` and ``sigma`` ``[B, N]``; or to ``action``
        ``[B, N]`` (``[B]`` for N = 1).
        """
        return actor_output(self.actor["head"], self.actor["encoder"](obs))

    def compute_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``obs`` and ``action`` ``[B, N]`` to ``q_value`` ``[E, B]``, and with quantiles ``quantiles`` ``[E, B, M]``,
        whose mean it is.
        """
        head = self.critic["head"]
        rows = state_action(self.critic["encoder"](inputs["obs"]), inputs)
        pred = head(rows if rows.is_floating_point() else as_input(rows, head))["pred"]
        values = pred.view(-1, self.ensemble_num, self.num_quantiles or 1).transpose(0, 1)
        if self.num_quantiles is None:
            return {"q_value": values.squeeze(-1)}
        return {"q_value": values.mean(-1), "quantiles": values}


@MODEL_REGISTRY.register("ensemble_qac")
class EnsembleQAC(_EnsembleModes):
    """A policy over continuous actions in ``[-1, 1]`` and E Q functions of state and action, or the quantiles of E
    returns, computed together.

    State: ``actor.head.*``, ``critic.head.pred.*``, and for images and dicts ``actor.encoder.*``, ``critic.encoder.*``.

    Arguments:
        obs_shape: an int or ``(n,)`` for vectors, ``(C, H, W)`` for images, a mapping of names to those for dicts.
        action_shape: number of dimensions of the action.
        ensemble_num: E.
        action_space: ``reparameterization`` (a normal distribution, to be squashed by tanh) or ``regression`` (a
            deterministic action).
        num_quantiles: M quantiles of the return per critic; None for a value.
        actor_head_layer_num: hidden layers of the actor behind its first one.
        critic_head_layer_num: hidden layers of each critic.
        norm_type: normalisation in the critics; ``LN`` in DroQ.
        dropout: probability of dropout in the critics, also in those of the target network.
        encoder_hidden_size_list: channels of the convolutions over images; widths of the layers over a dict.

    Raises:
        ValueError: a dropout beyond ``[0, 1)``, or an encoder that does not fit the observations.
        RuntimeError: ``obs_shape`` has neither one nor three axes, and is no mapping.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        ensemble_num: int = 2,
        num_quantiles: int | None = None,
        actor_head_hidden_size: int = 256,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 256,
        critic_head_layer_num: int = 2,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        dropout: float = 0.0,
        encoder_hidden_size_list: Sequence[int] | None = None,
        action_space: str = "reparameterization",
    ) -> None:
        super().__init__()
        self.obs_shape, self.action_shape, self.action_space = obs_shape, action_shape, action_space
        self.ensemble_num, self.num_quantiles = ensemble_num, num_quantiles
        actor_encoder, critic_encoder, width = qac_encoders(
            obs_shape, encoder_hidden_size_list, False, activation, None
        )
        actor = continuous_actor(
            width, action_shape, action_space, actor_head_hidden_size, actor_head_layer_num, activation, None
        )
        critic = EnsembleHead(
            width + action_width(action_shape), num_quantiles or 1, critic_head_hidden_size, critic_head_layer_num,
            ensemble_num, activation, norm_type, dropout,
        )  # fmt: skip
        self.actor = nn.ModuleDict({"encoder": actor_encoder, "head": actor})
        self.critic = nn.ModuleDict({"encoder": critic_encoder, "head": critic})


@MODEL_REGISTRY.register("crossq")
class CrossQAC(_EnsembleModes):
    """The networks of CrossQ (Bhatt et al. 2019, arXiv:1902.05605): actor and critics with batch renormalisation
    (:class:`~ding.torch_utils.network.normalization.BatchRenorm`) of their input and behind each activation.

    State: as :class:`EnsembleQAC`, with ``running_mean``, ``running_var`` and ``num_batches_tracked`` of each
    normalisation.

    Arguments:
        obs_shape, action_shape, ensemble_num: as of :class:`EnsembleQAC`.
        actor_head_layer_num, critic_head_layer_num: hidden layers.
        batch_norm_momentum: share of a batch in the running statistics, typically 0.01.
        batch_norm_warmup: updates in which batches are normalised by their own statistics alone.
        encoder_hidden_size_list: channels of the convolutions over images; widths of the layers over a dict.
    """

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: int | Sequence[int],
        ensemble_num: int = 2,
        actor_head_hidden_size: int = 256,
        actor_head_layer_num: int = 2,
        critic_head_hidden_size: int = 2048,
        critic_head_layer_num: int = 2,
        activation: nn.Module | None = RELU,
        batch_norm_momentum: float = 0.01,
        batch_norm_warmup: int = 100_000,
        encoder_hidden_size_list: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.obs_shape, self.action_shape, self.ensemble_num = obs_shape, action_shape, ensemble_num
        actor_encoder, critic_encoder, width = qac_encoders(
            obs_shape, encoder_hidden_size_list, False, activation, None
        )
        norm = partial(BatchRenorm, momentum=batch_norm_momentum, warmup_steps=batch_norm_warmup)
        size, hidden = action_width(action_shape), actor_head_hidden_size
        layers: list[nn.Module] = [norm(width)]
        for width_in in [width, *[hidden] * (actor_head_layer_num - 1)]:
            layers += [nn.Linear(width_in, hidden), *([] if activation is None else [activation]), norm(hidden)]
        actor = nn.Sequential(*layers, ReparameterizationHead(hidden, size, 0, sigma_type="conditioned"))
        critic = EnsembleHead(
            width + size, 1, critic_head_hidden_size, critic_head_layer_num, ensemble_num, activation, batch_norm=norm
        )
        self.actor = nn.ModuleDict({"encoder": actor_encoder, "head": actor})
        self.critic = nn.ModuleDict({"encoder": critic_encoder, "head": critic})
