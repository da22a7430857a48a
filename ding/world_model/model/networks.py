"""Networks of Dreamer's world model: the recurrent state space model and the decoder of images
(Hafner et al. 2023, arXiv:2301.04104).

Shapes: B sequences of T steps; A, E and F the sizes of an action, of an encoded observation and of the features of a
latent state. A latent state is a dict of tensors: ``deter`` ``[..., deter]``, ``stoch`` ``[..., stoch, discrete]``
and ``logit`` of that shape; or ``stoch``, ``mean`` and ``std``, ``[..., stoch]``, where ``discrete`` is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import torch
from torch import distributions as td
from torch import nn
from torch.nn import functional as F

from ding.torch_utils.network.dreamer import (
    ContDist,
    DreamerLayerNorm,
    Layer,
    OneHotDist,
    SymlogDist,
    dense_layers,
    layer_class,
    uniform_weight_init,
    weight_init,
)
from ding.torch_utils.network.normalization import LAYER_NORM_EPS
from ding.utils.errors import InvalidArgumentError
from ding.utils.names import check_choice

Latent: TypeAlias = dict[str, torch.Tensor]

_MEANS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda mean: mean,
    "tanh5": lambda mean: 5.0 * torch.tanh(mean / 5.0),
}
_STDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softplus": F.softplus,
    "abs": lambda std: torch.abs(std + 1),
    "sigmoid": torch.sigmoid,
    "sigmoid2": lambda std: 2 * torch.sigmoid(std / 2),
}


class GRUCell(nn.Module):
    """A gated recurrent unit whose three parts come from one linear layer.

    State: ``_layer``, and with ``norm`` the layer norm ``_norm``.

    Args:
        inp_size: size of the inputs.
        size: size of the state.
        norm: whether the outputs of the layer are normalised.
        act: activation of the candidate.
        update_bias: added to the update gate; below 0, states change slowly at first.
    """

    def __init__(
        self,
        inp_size: int,
        size: int,
        norm: bool = False,
        act: Callable[[torch.Tensor], torch.Tensor] = torch.tanh,
        update_bias: float = -1,
    ) -> None:
        super().__init__()
        self._size, self._act, self._update_bias = size, act, update_bias
        self._layer = nn.Linear(inp_size + size, 3 * size, bias=False)
        self._norm = nn.LayerNorm(3 * size, eps=LAYER_NORM_EPS) if norm else None

    @property
    def state_size(self) -> int:
        """The size of the state."""
        return self._size

    def forward(self, inputs: torch.Tensor, state: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Inputs ``[..., inp_size]`` and a list of the state ``[..., size]`` to the next state, and a list of it."""
        old = state[0]
        parts = self._layer(torch.cat([inputs, old], -1))
        reset, candidate, update = (parts if self._norm is None else self._norm(parts)).chunk(3, -1)
        new = self._act(torch.sigmoid(reset) * candidate)
        output = torch.lerp(old, new, torch.sigmoid(update + self._update_bias))
        return output, [output]


class RSSM(nn.Module):
    """The recurrent state space model: states with a deterministic part, which a GRU carries on, and a random part.

    The *prior* of a step is the state that follows from the state before and an action, the *posterior* the one that
    also follows from the observation.

    State: ``_inp_layers``, ``_cell``, ``_img_out_layers``, ``_obs_out_layers``, ``_ims_stat_layer`` and
    ``_obs_stat_layer``.

    Args:
        stoch, deter, hidden: sizes of the random part, of the deterministic part, and of the hidden layers.
        action_type: ``continuous``: entries beyond -1 and 1 are scaled to these; ``discrete``: one-hot vectors.
        layers_input, layers_output: number of hidden layers before and behind the GRU.
        rec_depth: number of passes through the GRU; more than 1 needs ``hidden`` equal to ``deter``.
        shared: the posterior is made as the prior is, with the encoded observation as a further input (zeros for the
            prior).
        discrete: number of classes of each random variable; 0 or False: they are normal.
        act, norm: activation and norm, names or classes of ``torch.nn``.
        mean_act: of normal variables ``none``, or ``tanh5`` for means in (-5, 5).
        std_act: of normal variables ``softplus``, ``abs``, ``sigmoid`` or ``sigmoid2``, plus ``min_std``.
        temp_post: whether the posterior depends on the deterministic part, too.
        min_std: smallest deviation.
        cell: ``gru`` or ``gru_layer_norm``.
        unimix_ratio: share of the uniform distribution in that of discrete variables.
        num_actions: A.
        embed: E.
        device: where the parameters are.

    Raises:
        ValueError: an unknown name, or a missing size.
    """

    def __init__(
        self,
        stoch: int = 30,
        deter: int = 200,
        hidden: int = 200,
        action_type: str | None = None,
        layers_input: int = 1,
        layers_output: int = 1,
        rec_depth: int = 1,
        shared: bool = False,
        discrete: int = 0,
        act: Layer = nn.ELU,
        norm: Layer = nn.LayerNorm,
        mean_act: str = "none",
        std_act: str = "softplus",
        temp_post: bool = True,
        min_std: float = 0.1,
        cell: str = "gru",
        unimix_ratio: float = 0.01,
        num_actions: int | None = None,
        embed: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        check_choice("action_type", action_type, (None, "continuous", "discrete"))
        check_choice("mean_act", mean_act, _MEANS)
        check_choice("std_act", std_act, _STDS)
        check_choice("cell", cell, ("gru", "gru_layer_norm"))
        if num_actions is None or embed is None:
            raise InvalidArgumentError(f"RSSM needs num_actions and embed, got {num_actions!r} and {embed!r}")
        if rec_depth > 1 and hidden != deter:
            raise InvalidArgumentError(f"rec_depth={rec_depth} needs hidden={hidden} and deter={deter} to be equal")
        self._stoch, self._deter, self._discrete, self._embed = stoch, deter, int(discrete), embed
        self._action_type, self._rec_depth, self._shared, self._temp_post = action_type, rec_depth, shared, temp_post
        self._mean_act, self._std_act = _MEANS[mean_act], _STDS[std_act]
        self._min_std, self._unimix_ratio = min_std, unimix_ratio
        kinds = layer_class(act, "act"), layer_class(norm, "norm")
        flat, inputs = [hidden] * layers_input, [hidden] * layers_output
        size = stoch * (self._discrete or 1)
        self._inp_layers = dense_layers([size + num_actions + embed * bool(shared), *flat], *kinds)
        self._cell = GRUCell(hidden, deter, norm=cell == "gru_layer_norm")
        self._img_out_layers = dense_layers([deter, *inputs], *kinds)
        self._obs_out_layers = dense_layers([embed + deter * bool(temp_post), *inputs], *kinds)
        outputs = size if self._discrete else 2 * stoch
        self._ims_stat_layer = nn.Linear(hidden, outputs)
        self._obs_stat_layer = nn.Linear(hidden, outputs)
        self.apply(weight_init)
        if device is not None:
            self.to(device)

    def initial(self, batch_size: int) -> Latent:
        """Return the states before the first observation, all zeros."""
        where = self._ims_stat_layer.weight
        stoch = where.new_zeros(batch_size, self._stoch, *[self._discrete] * bool(self._discrete))
        names = ("logit",) if self._discrete else ("mean", "std")
        deter = where.new_zeros(batch_size, self._deter)
        return {**{name: torch.zeros_like(stoch) for name in names}, "stoch": stoch, "deter": deter}

    def observe(
        self,
        embed: torch.Tensor,
        action: torch.Tensor,
        state: Latent | None = None,
        is_first: torch.Tensor | None = None,
    ) -> tuple[Latent, Latent]:
        """Return the posteriors and the priors of sequences.

        Args:
            embed: encoded observations ``[B, T, E]``.
            action: ``[B, T, A]``; the one of a step leads to its observation.
            state: states before the first step; :meth:`initial` unless given.
            is_first: ``[B, T]``, 1 where an episode begins: the step has neither a state before it nor an action.

        Returns:
            Two dicts of tensors ``[B, T, ...]``.
        """
        start = self.initial(len(embed)) if state is None else state
        action = self._bounded(action)
        goes_on = None if is_first is None else 1 - is_first.to(action.dtype).unsqueeze(-1)
        if goes_on is not None:
            action = action * goes_on
        if self._shared:
            return self._observe_by_steps(embed, action, start, goes_on)
        posts = list[Latent]()
        stoch, deter = self._flat(start), start["deter"]
        # What the first layers make of actions and observations, for all steps at once.
        first, second = (layers.get_parameter("0.weight") for layers in (self._inp_layers, self._obs_out_layers))
        size, skipped = stoch.shape[-1], self._deter if self._temp_post else 0
        from_action = F.linear(action, first[:, size:]).unbind(1)
        from_embed = F.linear(embed, second[:, skipped:]).unbind(1)
        from_stoch, from_deter = first[:, :size], second[:, :skipped]
        inputs, outputs = self._inp_layers[1:], self._obs_out_layers[1:]
        resets = [None] * embed.shape[1] if goes_on is None else goes_on.unbind(1)
        for seen, done, keep in zip(from_embed, from_action, resets):
            if keep is not None:
                stoch, deter = stoch * keep, deter * keep
            hidden = inputs(F.linear(stoch, from_stoch) + done)
            deter = self._recurrent(hidden, deter)
            hidden = outputs(F.linear(deter, from_deter) + seen if self._temp_post else seen)
            post = self._random_part(self._obs_stat_layer(hidden), sample=True)
            stoch = self._flat(post)
            posts.append({**post, "deter": deter})
        post = _stacked(posts)
        # The next posterior needs nothing of a prior but its deterministic part.
        prior = self._random_part(self._ims_stat_layer(self._img_out_layers(post["deter"])), sample=True)
        return post, {**prior, "deter": post["deter"]}

    def _observe_by_steps(
        self, embed: torch.Tensor, action: torch.Tensor, state: Latent, goes_on: torch.Tensor | None
    ) -> tuple[Latent, Latent]:
        posts, priors = list[Latent](), list[Latent]()
        for step in range(embed.shape[1]):
            if goes_on is not None:
                keep = goes_on[:, step]
                state = {key: value * keep.view(-1, *[1] * (value.dim() - 1)) for key, value in state.items()}
            state, prior = self.obs_step(state, action[:, step], embed[:, step])
            posts.append(state)
            priors.append(prior)
        return _stacked(posts), _stacked(priors)

    def imagine(self, action: torch.Tensor, state: Latent | None = None) -> Latent:
        """Return the priors along actions ``[B, T, A]``, from ``state`` or the initial states on: ``[B, T, ...]``."""
        state = self.initial(len(action)) if state is None else state
        priors = list[Latent]()
        for one in action.unbind(1):
            state = self.img_step(state, one)
            priors.append(state)
        return _stacked(priors)

    def obs_step(
        self, prev_state: Latent, prev_action: torch.Tensor, embed: torch.Tensor, sample: bool = True
    ) -> tuple[Latent, Latent]:
        """Return the posterior and the prior of a step.

        Args:
            prev_state: states ``[B, ...]``.
            prev_action: the actions in them, ``[B, A]``.
            embed: the encoded observations that followed, ``[B, E]``.
            sample: whether ``stoch`` is drawn; else it is the mode.
        """
        prior = self.img_step(prev_state, prev_action, sample=sample)
        if self._shared:
            return self.img_step(prev_state, prev_action, embed, sample), prior
        inputs = torch.cat([prior["deter"], embed], -1) if self._temp_post else embed
        post = self._random_part(self._obs_stat_layer(self._obs_out_layers(inputs)), sample)
        return {**post, "deter": prior["deter"]}, prior

    def img_step(
        self, prev_state: Latent, prev_action: torch.Tensor, embed: torch.Tensor | None = None, sample: bool = True
    ) -> Latent:
        """Return the prior of a step.

        Args:
            prev_state: states ``[B, ...]``.
            prev_action: the actions in them, ``[B, A]``.
            embed: ``[B, E]``, an input where ``shared`` is on; zeros unless given.
            sample: whether ``stoch`` is drawn; else it is the mode.
        """
        inputs = [self._flat(prev_state), self._bounded(prev_action)]
        if self._shared:
            inputs.append(prev_action.new_zeros(*prev_action.shape[:-1], self._embed) if embed is None else embed)
        deter = self._recurrent(self._inp_layers(torch.cat(inputs, -1)), prev_state["deter"])
        return {**self._random_part(self._ims_stat_layer(self._img_out_layers(deter)), sample), "deter": deter}

    def get_feat(self, state: Latent) -> torch.Tensor:
        """Return the features ``[..., F]`` of states: ``stoch``, flat, then ``deter``."""
        return torch.cat([self._flat(state), state["deter"]], -1)

    def get_dist(self, state: Latent) -> td.Distribution | ContDist:
        """Return the distribution of ``stoch``."""
        if self._discrete:
            return td.Independent(OneHotDist(state["logit"], unimix_ratio=self._unimix_ratio), 1, validate_args=False)
        return ContDist(_normal(state))

    def kl_loss(
        self, post: Latent, prior: Latent, forward: bool, free: float, lscale: float, rscale: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the loss that draws posteriors and priors together, ``lscale * lhs + rscale * rhs``.

        ``lhs`` is the mean of ``KL(post || prior)`` with gradients to the posterior, ``rhs`` with those to the prior.

        Args:
            post, prior: states of the same shape.
            forward: whether the divergence is ``KL(prior || post)``; then ``lhs`` has the gradients to the prior.
            free: divergences below it count as this number, and have no gradient.
            lscale, rscale: weights.

        Returns:
            The loss, the divergence of each state, ``lhs`` and ``rhs``.
        """
        left, right = (prior, post) if forward else (post, prior)
        to_left, to_right = self._divergences(left, right)
        lhs, rhs = to_left.clamp(min=free).mean(), to_right.clamp(min=free).mean()
        return lscale * lhs + rscale * rhs, to_left, lhs, rhs

    def _divergences(self, left: Latent, right: Latent) -> tuple[torch.Tensor, torch.Tensor]:
        """``KL(left || right)`` with gradients to the left, and with those to the right."""
        if not self._discrete:
            p, q = _normal(left), _normal(right)
            fixed_p, fixed_q = (_normal({key: value.detach() for key, value in one.items()}) for one in (left, right))
            return td.kl_divergence(p, fixed_q), td.kl_divergence(fixed_p, q)
        p_, q_ = (OneHotDist(one["logit"], unimix_ratio=self._unimix_ratio) for one in (left, right))
        log_p, log_q, probs = p_.logits, q_.logits, p_.probs
        to_left = (probs * (log_p - log_q.detach())).sum((-2, -1))
        return to_left, (probs.detach() * (log_p.detach() - log_q)).sum((-2, -1))

    def _bounded(self, action: torch.Tensor) -> torch.Tensor:
        """Continuous actions with all entries between -1 and 1; those beyond keep a gradient."""
        return action / action.detach().abs().clamp(min=1.0) if self._action_type == "continuous" else action

    def _flat(self, state: Latent) -> torch.Tensor:
        return state["stoch"].flatten(-2) if self._discrete else state["stoch"]

    def _recurrent(self, hidden: torch.Tensor, deter: torch.Tensor) -> torch.Tensor:
        for _ in range(self._rec_depth):
            hidden, _state = self._cell(hidden, [deter])
        return hidden

    def _random_part(self, output: torch.Tensor, sample: bool) -> Latent:
        """``stoch`` and what its distribution is made of."""
        if self._discrete:
            stats = {"logit": output.unflatten(-1, (self._stoch, self._discrete))}
        else:
            mean, std = output.chunk(2, -1)
            stats = {"mean": self._mean_act(mean), "std": self._std_act(std) + self._min_std}
        dist = self.get_dist(stats)
        # `mode` of `Independent` is that of its base, a method.
        return {"stoch": dist.sample() if sample else dist.mode(), **stats}  # type: ignore[operator]


def _normal(state: Latent) -> td.Distribution:
    return td.Independent(td.Normal(state["mean"], state["std"], validate_args=False), 1, validate_args=False)


def _stacked(states: Sequence[Latent]) -> Latent:
    """States ``[B, ...]`` of the steps, as ``[B, T, ...]``."""
    return {key: torch.stack([state[key] for state in states], 1) for key in states[0]}


class ConvDecoder(nn.Module):
    """Transposed convolutions, each of which doubles the size of the image.

    State: ``_linear_layer`` and ``layers``.

    Args:
        inp_depth: number of features.
        depth: channels before the last convolution; each one before has twice as many.
        act: activation, a name or class of ``torch.nn``.
        norm: of the channels at each pixel: ``LayerNorm``, another name or class of ``torch.nn``, or ``None``.
        shape: ``(C, H, W)`` of the image.
        kernels: size of each kernel.
        outscale: not used: the last convolution keeps the weights that torch draws, as in DI-engine.

    Raises:
        ValueError: H or W is not divisible by 2 to the number of kernels.
    """

    def __init__(
        self,
        inp_depth: int,
        depth: int = 32,
        act: Layer = nn.ELU,
        norm: Layer | None = nn.LayerNorm,
        shape: Sequence[int] = (3, 64, 64),
        kernels: Sequence[int] = (3, 3, 3, 3),
        outscale: float = 1.0,
    ) -> None:
        super().__init__()
        self._shape, scale = tuple(shape), 2 ** len(kernels)
        channels, height, width = self._shape
        if height % scale or width % scale:
            raise InvalidArgumentError(
                f"{len(kernels)} kernels need images whose height and width are divisible by {scale}, got {self._shape}"
            )
        widths = [depth * 2**power for power in reversed(range(len(kernels)))]
        self._start = (height // scale, width // scale, widths[0])
        self._embed_size = self._start[0] * self._start[1] * self._start[2]
        self._linear_layer = nn.Linear(inp_depth, self._embed_size)
        layers: list[nn.Module] = []
        for kernel, (width_in, width_out) in zip(kernels, pairwise(widths)):
            pad, outpad = self.calc_same_pad(kernel, 2, 1)
            layers.append(nn.ConvTranspose2d(width_in, width_out, kernel, 2, pad, outpad, bias=norm is None))
            if norm is not None:
                layers.append(_channel_norm(norm, width_out))
            layers.append(layer_class(act, "act")())
        pad, outpad = self.calc_same_pad(kernels[-1], 2, 1)
        last = nn.ConvTranspose2d(widths[-1], channels, kernels[-1], 2, pad, outpad)
        self.layers = nn.Sequential(*layers, last)
        self._linear_layer.apply(weight_init)
        self.layers[:-1].apply(weight_init)
        last.apply(uniform_weight_init(outscale))

    def calc_same_pad(self, k: int, s: int, d: int) -> tuple[int, int]:
        """Return the paddings of a transposed convolution that multiplies the size by the stride.

        Args:
            k, s, d: kernel size, stride and dilation.

        Returns:
            ``padding`` and ``output_padding`` of ``torch.nn.ConvTranspose2d``.
        """
        both = d * (k - 1) - s + 1
        pad = -(-both // 2)
        return pad, 2 * pad - both

    def forward(self, features: torch.Tensor) -> SymlogDist:
        """Features ``[..., inp_depth]`` to a distribution over images ``[..., C, H, W]``."""
        height, width, channels = self._start
        start = self._linear_layer(features).reshape(-1, height, width, channels).permute(0, 3, 1, 2)
        return SymlogDist(self.layers(start).reshape(*features.shape[:-1], *self._shape))


def _channel_norm(norm: Layer, channels: int) -> nn.Module:
    kind = layer_class(norm, "norm")
    return DreamerLayerNorm(channels) if kind is nn.LayerNorm else kind(channels)
