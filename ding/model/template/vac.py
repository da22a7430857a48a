"""The network of actor-critic algorithms: a policy and a value of the state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import IMPALAConvEncoder, encode
from ding.model.common.head import DiscreteHead, MultiHead, RegressionHead, ReparameterizationHead
from ding.model.common.shapes import Observation, ObsShape, output_sizes, squeezed
from ding.model.template.q_model import ACTION_MASK, DEFAULT_HIDDEN_SIZES, make_encoder, split_observation
from ding.utils import MODEL_REGISTRY
from ding.utils.names import did_you_mean

ACTION_SPACES = ("discrete", "continuous", "hybrid")
ActionShape = int | Sequence[int] | Mapping[str, int | Sequence[int]]
RELU = nn.ReLU()


def unknown_mode(mode: str, modes: Sequence[str]) -> ValueError:
    """Return the error of a ``mode`` that is none of ``modes``."""
    return ValueError(f"mode {mode!r} is unknown.{did_you_mean(str(mode), modes)}")


def make_actor_head(
    action_space: str,
    action_shape: ActionShape,
    width: int,
    layer_num: int,
    activation: nn.Module | None,
    norm_type: str | None,
    sigma_type: str = "independent",
    fixed_sigma_value: float = 0.3,
    bound_type: str | None = None,
    discrete_cls: type[nn.Module] = DiscreteHead,
    hidden_size: int | None = None,
) -> nn.Module:
    """Return the head of a policy: logits (per head of a multi-discrete space), mu and sigma, or for ``hybrid`` a
    ``ModuleList`` of both.

    Args:
        width: of the features.
        hidden_size: of the hidden layers for continuous actions, ``width`` unless given; for discrete ones it is
            ``width``.

    Raises:
        ValueError: an unknown action space.
        TypeError: a hybrid ``action_shape`` without ``action_type_shape`` and ``action_args_shape``.
    """
    common: dict[str, Any] = {"activation": activation, "norm_type": norm_type}

    def discrete(shape: Any) -> nn.Module:
        sizes = output_sizes(shape)
        if isinstance(sizes, list):
            return MultiHead(discrete_cls, width, sizes, layer_num=layer_num, **common)
        return discrete_cls(width, sizes, layer_num, **common)

    def continuous(shape: Any) -> nn.Module:
        return ReparameterizationHead(
            width,
            shape,
            layer_num,
            sigma_type,
            fixed_sigma_value,
            bound_type=bound_type,
            hidden_size=hidden_size,
            **common,
        )

    if action_space == "discrete":
        return discrete(action_shape)
    if action_space == "continuous":
        return continuous(action_shape)
    if action_space != "hybrid":
        raise ValueError(f"action_space {action_space!r} is unknown.{did_you_mean(str(action_space), ACTION_SPACES)}")
    if not isinstance(action_shape, Mapping):
        raise TypeError(
            f"a hybrid action_shape is a dict of action_type_shape and action_args_shape, got {action_shape!r}"
        )
    return nn.ModuleList([discrete(action_shape["action_type_shape"]), continuous(action_shape["action_args_shape"])])


def has_heads(head: nn.Module) -> bool:
    """Return whether a head of :func:`make_actor_head` is one of several discrete actions."""
    return isinstance(head, MultiHead)


def actor_output(head: nn.Module, features: torch.Tensor, action_mask: torch.Tensor | None = None) -> dict[str, Any]:
    """``logit`` of a head of :func:`make_actor_head`: logits ``[B, N]`` (or a list of them), ``{'mu', 'sigma'}`` ``[B,
    D]``, or for hybrid actions ``action_type`` (logits) and ``action_args`` (mu, sigma); and ``action_mask``, if any.
    """
    if isinstance(head, nn.ModuleList):
        outputs = {name: part(features) for name, part in zip(("action_type", "action_args"), head)}
        kind = outputs["action_type"]
        logit = {**outputs, "action_type": kind["logit"] if isinstance(kind, dict) else kind}
    else:
        logit = head(features)
        if isinstance(logit, dict):  # the heads of PPOF give logits as they are
            logit = logit.get("logit", logit)
    return {"logit": logit} if action_mask is None else {"logit": logit, ACTION_MASK: action_mask}


@MODEL_REGISTRY.register("vac")
class VAC(nn.Module):
    """A policy and a state value (actor-critic), with one encoder or one each.

    State: ``encoder`` (or ``actor_encoder`` and ``critic_encoder``), ``critic_head``, ``actor_head``; the same again as
    ``actor.0``, ``actor.1``, ``critic.0`` and ``critic.1``.

    Arguments:
        obs_shape: an int or ``(n,)`` for vectors, ``(C, H, W)`` for images, a mapping of names to those for dicts.
        action_shape: number of actions (a list for several discrete ones), number of dimensions of a continuous
            action, or ``{'action_type_shape', 'action_args_shape'}`` for a hybrid one.
        action_space: ``discrete``, ``continuous`` or ``hybrid``.
        share_encoder: whether actor and critic read the same features.
        actor_head_hidden_size, critic_head_hidden_size: width of the heads' hidden layers; that of an actor with
            discrete actions is the width of the features, and checked to be so when given (else 64 by default).
        sigma_type, fixed_sigma_value, bound_type: of a continuous policy, see ``ReparameterizationHead``.
        encoder: a module to use in the place of the default encoder; the critic gets a copy unless it is shared.
        impala_cnn_encoder: ``IMPALAConvEncoder`` for images.

    Raises:
        ValueError: an unknown action space, or a head that is not as wide as the features.
        RuntimeError: no encoder for ``obs_shape``.
    """

    mode = ["compute_actor", "compute_critic", "compute_actor_critic"]

    # Configuration of the heads, see ``PPOFModel``.
    _discrete_head_cls: type[nn.Module] = DiscreteHead
    _critic_head_cls: Callable[..., nn.Module] = RegressionHead

    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "discrete",
        share_encoder: bool = True,
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 1,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 1,
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        sigma_type: str = "independent",
        fixed_sigma_value: float = 0.3,
        bound_type: str | None = None,
        encoder: nn.Module | None = None,
        impala_cnn_encoder: bool = False,
    ) -> None:
        super().__init__()
        self.obs_shape, self.action_shape = obs_shape, squeezed(action_shape)
        self.action_space, self.share_encoder = action_space, share_encoder
        width = encoder_hidden_size_list[-1]
        if action_space == "continuous":
            actor_head_hidden_size = 64 if actor_head_hidden_size is None else actor_head_hidden_size
        else:
            # Of an encoder that is given only the caller knows the width.
            sizes = [actor_head_hidden_size or 64] if encoder is not None else encoder_hidden_size_list
            width = actor_head_hidden_size = head_width("actor_head_hidden_size", actor_head_hidden_size, sizes)

        def make() -> nn.Module:
            if impala_cnn_encoder:
                widths = list(encoder_hidden_size_list)
                return IMPALAConvEncoder(obs_shape, widths, outsize=widths[-1])  # type: ignore[arg-type]
            return make_encoder(obs_shape, encoder_hidden_size_list, activation, norm_type)

        if share_encoder:
            self.encoder = make() if encoder is None else encoder
        else:
            self.actor_encoder = make() if encoder is None else encoder
            self.critic_encoder = make() if encoder is None else copy.deepcopy(encoder)
        layers: dict[str, Any] = {"activation": activation, "norm_type": norm_type}
        self.critic_head = self._critic_head_cls(
            width, 1, critic_head_layer_num, hidden_size=critic_head_hidden_size, **layers
        )
        self.actor_head = make_actor_head(
            action_space,
            action_shape,
            width,
            actor_head_layer_num,
            **layers,
            sigma_type=sigma_type,
            fixed_sigma_value=fixed_sigma_value,
            bound_type=bound_type,
            discrete_cls=self._discrete_head_cls,
            hidden_size=actor_head_hidden_size,
        )
        self.multi_head = has_heads(self.actor_head)
        self.actor = nn.ModuleList([self.encoder if share_encoder else self.actor_encoder, self.actor_head])
        self.critic = nn.ModuleList([self.encoder if share_encoder else self.critic_encoder, self.critic_head])

    def forward(self, x: Observation, mode: str) -> dict[str, Any]:
        """Run the method that ``mode`` names.

        Raises:
            ValueError: there is no such mode.
        """
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        output: dict[str, Any] = getattr(self, mode)(x)
        return output

    def compute_actor(self, x: Observation) -> dict[str, Any]:
        """Observation ``[B, *obs_shape]`` (or ``{'observation', 'action_mask'}``) to :func:`actor_output`."""
        observation, action_mask = (x, None) if isinstance(x, torch.Tensor) else self._split(x)
        return actor_output(self.actor_head, encode(observation, self.actor[0]), action_mask)

    def compute_critic(self, x: Observation) -> dict[str, Any]:
        """Observation to ``value`` ``[B]``."""
        observation = x if isinstance(x, torch.Tensor) else self._split(x)[0]
        return {"value": self.critic_head(encode(observation, self.critic[0]))["pred"]}

    def compute_actor_critic(self, x: Observation) -> dict[str, Any]:
        """Observation to the outputs of both."""
        observation, action_mask = (x, None) if isinstance(x, torch.Tensor) else self._split(x)
        features = encode(observation, self.actor[0])
        output = actor_output(self.actor_head, features, action_mask)
        if not self.share_encoder:
            features = encode(observation, self.critic[0])
        output["value"] = self.critic_head(features)["pred"]
        return output

    def _split(self, x: Observation) -> tuple[Any, torch.Tensor | None]:
        return split_observation(x, self.actor[0], type(self).__name__)


def head_width(name: str, given: int | None, encoder_hidden_size_list: Sequence[int]) -> int:
    """Return the width of a head that reads the features: theirs.

    Args:
        name: of the parameter.
        given: its value; ``None``: that of the features.

    Raises:
        ValueError: the value is another one.
    """
    width = encoder_hidden_size_list[-1]
    if given not in (None, width):
        raise ValueError(
            f"{name} must equal the last entry of encoder_hidden_size_list ({width}), which the head reads; "
            f"got {name}={given}, encoder_hidden_size_list={list(encoder_hidden_size_list)}"
        )
    return width
