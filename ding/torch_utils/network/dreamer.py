"""Networks and distributions of Dreamer (Hafner et al. 2023, arXiv:2301.04104).

:class:`DenseHead` predicts rewards, values, vectors and the ends of episodes, :class:`ActionHead` is the policy; both
return distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import torch
from torch import distributions as td
from torch import nn
from torch.nn import functional as F

from ding.torch_utils.network._dreamer_distributions import NUM_BUCKETS
from ding.torch_utils.network._dreamer_distributions import Bernoulli as Bernoulli
from ding.torch_utils.network._dreamer_distributions import ContDist as ContDist
from ding.torch_utils.network._dreamer_distributions import GumbelOneHotDist as GumbelOneHotDist
from ding.torch_utils.network._dreamer_distributions import OneHotDist as OneHotDist
from ding.torch_utils.network._dreamer_distributions import SafeTruncatedNormal as SafeTruncatedNormal
from ding.torch_utils.network._dreamer_distributions import SampleDist as SampleDist
from ding.torch_utils.network._dreamer_distributions import SymlogDist as SymlogDist
from ding.torch_utils.network._dreamer_distributions import TanhBijector as TanhBijector
from ding.torch_utils.network._dreamer_distributions import TwoHotDistSymlog as TwoHotDistSymlog
from ding.torch_utils.network._dreamer_distributions import UnnormalizedHuber as UnnormalizedHuber
from ding.torch_utils.network.nn_module import MLP
from ding.torch_utils.network.normalization import LAYER_NORM_EPS
from ding.torch_utils.network.normalization import DreamerLayerNorm as DreamerLayerNorm
from ding.torch_utils.network.same_padding import Conv2dSame as Conv2dSame
from ding.utils.errors import InvalidArgumentError
from ding.utils.names import check_choice, did_you_mean

Layer: TypeAlias = str | type[nn.Module]
"""A class of layers, or its name in ``torch.nn``."""

Predicted: TypeAlias = ContDist | Bernoulli | TwoHotDistSymlog | SymlogDist
"""What :class:`DenseHead` returns."""

ActionDist: TypeAlias = ContDist | SampleDist | OneHotDist
"""What :class:`ActionHead` returns."""

_DENSE = ("normal", "huber", "binary", "twohot_symlog", "symlog")
_TWO_OUTPUTS = ("tanh_normal", "tanh_normal_5", "normal", "trunc_normal")
# One that DI-engine spells in two ways, and builds in none.
_ALIASES = {"onehot_gumble": "onehot_gumbel"}
_ACTION = (*_TWO_OUTPUTS, "normal_1", "onehot", "onehot_gumbel", "onehot_gumble")

# Deviation of a standard normal distribution that ends at -2 and 2.
_TRUNCATED_STD = 0.87962566
_MIN_STD = 0.1


def layer_class(layer: Layer, what: str) -> type[nn.Module]:
    """Return the class that ``layer`` is or names.

    Args:
        layer: class, or name of a class in ``torch.nn``.
        what: name of the argument, for the error.

    Raises:
        ValueError: ``torch.nn`` has no class of that name.
    """
    found = getattr(nn, layer, None) if isinstance(layer, str) else layer
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise InvalidArgumentError(
            f"{what} must name a layer of torch.nn, got {layer!r}.{did_you_mean(str(layer), dir(nn))}"
        )
    return found


def weight_init(m: nn.Module) -> None:
    """Draw the weights of a linear or convolution layer from a truncated normal distribution; biases become 0.

    The standard deviation is ``sqrt(2 / (fan_in + fan_out))`` and values end at -2 and 2. A ``LayerNorm`` becomes the
    identity. Use with ``module.apply``.
    """
    if isinstance(m, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        area = math.prod(m.weight.shape[2:])
        fans = (m.weight.shape[0] + m.weight.shape[1]) * area
        nn.init.trunc_normal_(m.weight, std=math.sqrt(2 / fans) / _TRUNCATED_STD, a=-2.0, b=2.0)
        if m.bias is not None:
            nn.init.zeros_(m.bias)
    elif isinstance(m, nn.LayerNorm):
        _identity(m)


def uniform_weight_init(given_scale: float) -> Callable[[nn.Module], None]:
    """Return a function for ``module.apply`` that draws the weights of linear layers from ``U(-l, l)``.

    ``l`` is ``sqrt(6 given_scale / (in + out))``, so that 0 makes a layer that begins as 0. Biases become 0, and a
    ``LayerNorm`` the identity. Convolutions keep their weights.
    """

    def init(m: nn.Module) -> None:
        if isinstance(m, nn.Linear):
            limit = math.sqrt(3 * given_scale * 2 / (m.in_features + m.out_features))
            nn.init.uniform_(m.weight, -limit, limit)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.LayerNorm):
            _identity(m)

    return init


def _identity(norm: nn.LayerNorm) -> None:
    nn.init.ones_(norm.weight)
    if norm.bias is not None:
        nn.init.zeros_(norm.bias)


class DenseHead(nn.Module):
    """Linear layers that predict a distribution of numbers.

    State: ``mlp.0`` linear, ``mlp.1`` norm, ``mlp.3``, ..., ``mean_layer``, and ``std_layer`` for a learned deviation.

    Args:
        inp_dim: number of features.
        shape: shape of what is predicted; empty for one number; 255 for ``twohot_symlog``.
        layer_num, units: number and width of the hidden layers.
        act: activation, a name or class of ``torch.nn``.
        norm: ``LN`` or another ``norm_type`` of ``MLP``; ``None`` for none.
        dist: ``normal``, ``huber`` (normal with a smooth absolute error), ``binary``, ``symlog`` (squared error in
            symlog space), or ``twohot_symlog``.
        std: deviation of ``normal`` and ``huber``; ``learned`` for one that depends on the features.
        outscale: scale of the initial weights of the last layer; 0 begins with a prediction of 0.
        device: not used, because the head is where its parameters are.
        low, high: outermost buckets of ``twohot_symlog``, in symlog space. DI-engine has -1 and 1, so that numbers
            beyond 1.72 count as 1.72.

    Raises:
        ValueError: an unknown ``dist`` or ``act``.
    """

    def __init__(
        self,
        inp_dim: int,
        shape: int | Sequence[int],
        layer_num: int,
        units: int,
        act: Layer = "SiLU",
        norm: str | None = "LN",
        dist: str = "normal",
        std: float | Literal["learned"] = 1.0,
        outscale: float = 1.0,
        device: torch.device | str = "cpu",
        low: float = -20.0,
        high: float = 20.0,
    ) -> None:
        super().__init__()
        check_choice("dist", dist, _DENSE)
        self._shape = (shape,) if isinstance(shape, int) else tuple(shape) or (1,)
        if dist == "twohot_symlog" and self._shape != (NUM_BUCKETS,):
            raise InvalidArgumentError(f"shape must be {NUM_BUCKETS}, the buckets of twohot_symlog, got {shape!r}")
        self._dist, self._std, self._low, self._high = dist, std, low, high
        self.mlp = MLP(inp_dim, units, units, layer_num, activation=layer_class(act, "act")(), norm_type=norm)
        self.mlp.apply(weight_init)
        width = units if layer_num else inp_dim
        self.mean_layer = nn.Linear(width, math.prod(self._shape))
        self.mean_layer.apply(uniform_weight_init(outscale))
        if std == "learned":
            self.std_layer = nn.Linear(width, math.prod(self._shape))
            self.std_layer.apply(uniform_weight_init(outscale))

    def forward(self, features: torch.Tensor) -> Predicted:
        """Map features ``[..., inp_dim]`` to a distribution over ``[..., *shape]``."""
        hidden = self.mlp(features)
        mean = self._shaped(self.mean_layer(hidden))
        if self._dist == "twohot_symlog":
            return TwoHotDistSymlog(mean, self._low, self._high)
        event = len(self._shape)
        if self._dist == "symlog":
            return SymlogDist(mean, dim_to_reduce=range(-event, 0))
        if self._dist == "binary":
            return Bernoulli(_independent(td.Bernoulli(logits=mean, validate_args=False), event))
        if isinstance(self._std, str):
            std: torch.Tensor | float = F.softplus(self._shaped(self.std_layer(hidden))) + _MIN_STD
        else:
            std = self._std
        normal = _normal(mean, std) if self._dist == "normal" else UnnormalizedHuber(mean, std)
        return ContDist(_independent(normal, event))

    def _shaped(self, output: torch.Tensor) -> torch.Tensor:
        return output if len(self._shape) == 1 else output.unflatten(-1, self._shape)


class ActionHead(nn.Module):
    """The policy of Dreamer: linear layers that give a distribution of actions.

    State: ``_pre_layers`` (linear without bias, norm, activation of each layer) and ``_dist_layer``.

    Args:
        inp_dim: number of features.
        size: number of discrete actions, or of dimensions of a continuous one.
        layers, units: number and width of the hidden layers.
        act, norm: activation and norm, names or classes of ``torch.nn``.
        dist: of continuous actions ``normal`` (mean in (-1, 1)), ``normal_1`` (its deviation is 1), ``trunc_normal``
            (samples in (-1, 1)), ``tanh_normal`` or ``tanh_normal_5`` (a normal distribution with means in (-1, 1) or
            (-5, 5), squashed); of discrete ones ``onehot`` or ``onehot_gumbel``.
        init_std: added to the output that becomes the deviation of the squashed distributions.
        min_std, max_std: limits of the deviation; ``max_std`` of ``normal`` alone.
        temp: temperature of ``onehot_gumbel``.
        outscale: scale of the initial weights of the last layer.
        unimix_ratio: share of the uniform distribution in that of discrete actions.

    Raises:
        ValueError: an unknown ``dist``, ``act`` or ``norm``.
    """

    def __init__(
        self,
        inp_dim: int,
        size: int,
        layers: int,
        units: int,
        act: Layer = nn.ELU,
        norm: Layer = nn.LayerNorm,
        dist: str = "trunc_normal",
        init_std: float = 0.0,
        min_std: float = 0.1,
        max_std: float = 1.0,
        temp: float = 0.1,
        outscale: float = 1.0,
        unimix_ratio: float = 0.01,
    ) -> None:
        super().__init__()
        check_choice("dist", dist, _ACTION)
        self._dist = _ALIASES.get(dist, dist)
        self._init_std, self._min_std, self._max_std = init_std, min_std, max_std
        self._temp, self._unimix_ratio = temp, unimix_ratio
        widths = [inp_dim, *[units] * layers]
        self._pre_layers = dense_layers(widths, layer_class(act, "act"), layer_class(norm, "norm"))
        self._pre_layers.apply(weight_init)
        self._dist_layer = nn.Linear(widths[-1], 2 * size if dist in _TWO_OUTPUTS else size)
        self._dist_layer.apply(uniform_weight_init(outscale))

    def forward(self, features: torch.Tensor) -> ActionDist:
        """Map features ``[..., inp_dim]`` to a distribution over ``[..., size]``."""
        output = self._dist_layer(self._pre_layers(features))
        if self._dist == "onehot":
            return OneHotDist(output, unimix_ratio=self._unimix_ratio)
        if self._dist == "onehot_gumbel":
            return GumbelOneHotDist(output, self._unimix_ratio, self._temp)
        if self._dist == "normal_1":
            return ContDist(_independent(_normal(output.tanh(), 1.0)))
        mean, std = output.chunk(2, -1)
        if self._dist == "normal":
            std = (self._max_std - self._min_std) * torch.sigmoid(std + 2.0) + self._min_std
            return ContDist(_independent(_normal(mean.tanh(), std)))
        if self._dist == "trunc_normal":
            std = 2 * torch.sigmoid(std / 2) + self._min_std
            return ContDist(_independent(SafeTruncatedNormal(mean.tanh(), std, -1, 1)))
        mean = 5 * torch.tanh(mean / 5) if self._dist == "tanh_normal_5" else mean.tanh()
        normal = _normal(mean, F.softplus(std + self._init_std) + self._min_std)
        squashed = td.TransformedDistribution(normal, [TanhBijector()], validate_args=False)
        return SampleDist(_independent(squashed))


def dense_layers(widths: Sequence[int], act: type[nn.Module], norm: type[nn.Module]) -> nn.Sequential:
    """Return a linear layer without bias, a norm and an activation from each width to the next."""
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out, bias=False), norm(width_out, eps=LAYER_NORM_EPS), act()]
    return nn.Sequential(*layers)


def _normal(mean: torch.Tensor, std: torch.Tensor | float) -> td.Normal:
    return td.Normal(mean, std, validate_args=False)


def _independent(dist: td.Distribution, event: int = 1) -> td.Distribution:
    return td.Independent(dist, event, validate_args=False)


State: TypeAlias = dict[str, torch.Tensor]
Output: TypeAlias = State | torch.Tensor


def static_scan(
    fn: Callable[..., State | Sequence[Output]],
    inputs: Sequence[torch.Tensor],
    start: State | Sequence[Output],
) -> list[Output]:
    """Call ``fn`` for each row of the inputs, with what it returned for the row before.

    Args:
        fn: ``fn(last, *rows)`` returns a dict of tensors, or a sequence of dicts and tensors.
        inputs: tensors of equal length on their first axis.
        start: ``last`` of the first call.

    Returns:
        What the calls returned, stacked on a new first axis: a list of one dict, or of an entry for each of the
        sequence.

    Raises:
        ValueError: there are no rows.
    """
    outputs = []
    last = start
    for rows in zip(*inputs):
        last = fn(last, *rows)
        outputs.append([last] if isinstance(last, dict) else list(last))
    if not outputs:
        raise InvalidArgumentError("static_scan needs inputs of at least one row")
    return [_stacked(column) for column in zip(*outputs)]


def _stacked(column: Sequence[Output]) -> Output:
    first = column[0]
    if isinstance(first, dict):
        return {key: torch.stack([one[key] for one in column]) for key in first}  # type: ignore[index]
    return torch.stack(list(column))  # type: ignore[arg-type]
