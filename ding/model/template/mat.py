"""The network of the multi-agent transformer (Wen et al. 2022, arXiv:2205.14953)."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.encoder import encode
from ding.model.common.shapes import output_sizes, squeezed
from ding.model.template.q_model import ACTION_MASK
from ding.model.template.vac import RELU, actor_output, make_actor_head, unknown_mode
from ding.rl_utils.sampler import ArgmaxSampler, MultinomialSampler, MuSampler, ReparameterizationSampler
from ding.torch_utils.network.transformer import ScaledDotProductAttention
from ding.utils import MODEL_REGISTRY
from ding.utils.nested import map_together

# Finite, so that differences of the logits of forbidden actions are numbers.
_FORBIDDEN = -99999999.0
_SAMPLERS: dict[str, tuple[Callable[[Any], torch.Tensor], Callable[[Any], torch.Tensor]]] = {
    "discrete": (MultinomialSampler(), ArgmaxSampler()),
    "continuous": (ReparameterizationSampler(), MuSampler()),
}


class CrossAttention(nn.Module):
    """Multi-head attention of queries to other tokens.

    Arguments:
        width: features of queries, tokens and results.
        head_num: number of heads, a divisor of ``width``.
    """

    def __init__(self, width: int, head_num: int) -> None:
        super().__init__()
        self.head_num = head_num
        self.query, self.key, self.value, self.project = (nn.Linear(width, width) for _ in range(4))
        self.attend = ScaledDotProductAttention(width // head_num)

    def forward(self, queries: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """All ``[B, N, width]``; ``mask``: bool ``[N, N]``, False where a query must not look."""
        q, k, v = (
            layer(x).unflatten(-1, (self.head_num, -1)).transpose(1, 2)
            for layer, x in ((self.query, queries), (self.key, tokens), (self.value, tokens))
        )
        output: torch.Tensor = self.project(self.attend(q, k, v, mask).transpose(1, 2).flatten(2))
        return output


class MATBlock(nn.Module):
    """Attention among the tokens, in a decoder also of the encoder's tokens to them, and a feed-forward block; each is
    followed by the sum with its queries and a layer norm.

    Arguments:
        decodes: whether the block belongs to the decoder.
    """

    def __init__(self, width: int, head_num: int, decodes: bool) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(CrossAttention(width, head_num) for _ in range(1 + decodes))
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 + decodes))

    def forward(
        self, tokens: torch.Tensor, encoded: torch.Tensor | None = None, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """``tokens`` and, in a decoder, ``encoded`` ``[B, N, width]`` to ``[B, N, width]``."""
        for attention, norm, queries in zip(self.attentions, self.norms, (None, encoded)):
            queries = tokens if queries is None else queries
            tokens = norm(queries + attention(queries, tokens, mask))
        output: torch.Tensor = self.norms[-1](tokens + self.mlp(tokens))
        return output


@MODEL_REGISTRY.register("mat")
class MAT(nn.Module):
    """An encoder over what the agents observe, with a value for each agent, and a decoder of their actions, each of
    which depends on those of the agents before it.

    Agents are told apart by their observations alone, which therefore hold their number where it matters.

    State: ``embed_obs``, ``encoder``, ``critic_head``, ``embed_action``, ``decoder``, ``actor_hidden``, ``actor_head``.

    Arguments:
        agent_obs_shape: features of the observation of an agent.
        action_shape: number of actions, or of dimensions of a continuous action.
        agent_num: A, number of agents.
        embed_dim: width of the tokens, typically 64 to 128.
        head_num: heads of each attention; a divisor of ``embed_dim``.
        layer_num: blocks of the encoder, and of the decoder.
        sigma_type: of continuous actions, as in :class:`ding.model.VAC`.

    Raises:
        ValueError: shapes of several axes, actions that are neither discrete nor continuous, or a width that is no
            multiple of ``head_num``.
    """

    _start: torch.Tensor
    _causal: torch.Tensor

    mode = ["compute_critic", "compute_actor_critic", "sample", "argmax"]

    def __init__(
        self,
        agent_obs_shape: int | Sequence[int],
        action_shape: int | Sequence[int],
        agent_num: int,
        embed_dim: int = 64,
        head_num: int = 1,
        layer_num: int = 1,
        action_space: str = "discrete",
        sigma_type: str = "independent",
    ) -> None:
        super().__init__()
        obs_size, action_size = squeezed(agent_obs_shape), output_sizes(action_shape)
        if not isinstance(obs_size, int) or not isinstance(action_size, int):
            raise ValueError(
                "MAT takes a vector and one action of each agent, got "
                f"agent_obs_shape={agent_obs_shape!r} and action_shape={action_shape!r}"
            )
        if action_space not in _SAMPLERS:
            raise ValueError(f"MAT has {' or '.join(_SAMPLERS)} actions, got action_space={action_space!r}")
        if embed_dim % head_num:
            raise ValueError(f"embed_dim={embed_dim} is no multiple of head_num={head_num}")
        self.agent_num, self.action_space, self.action_shape = agent_num, action_space, action_size
        self.embed_obs = nn.Sequential(
            nn.LayerNorm(obs_size), nn.Linear(obs_size, embed_dim), nn.GELU(), nn.LayerNorm(embed_dim)
        )
        self.encoder = nn.ModuleList(MATBlock(embed_dim, head_num, decodes=False) for _ in range(layer_num))
        self.critic_head = nn.Sequential(
            nn.Linear(embed_dim, embed_dim), nn.GELU(), nn.LayerNorm(embed_dim), nn.Linear(embed_dim, 1)
        )
        # The first feature marks the start: there is no action before the first agent.
        self.embed_action = nn.Sequential(
            nn.Linear(1 + action_size, embed_dim, bias=False), nn.GELU(), nn.LayerNorm(embed_dim)
        )
        self.decoder = nn.ModuleList(MATBlock(embed_dim, head_num, decodes=True) for _ in range(layer_num))
        self.actor_hidden = nn.Sequential(nn.Linear(embed_dim, embed_dim), nn.GELU(), nn.LayerNorm(embed_dim))
        self.actor_head = make_actor_head(action_space, action_size, embed_dim, 0, RELU, None, sigma_type)
        start = torch.zeros(agent_num, 1 + action_size)
        start[0, 0] = 1
        self.register_buffer("_start", start, persistent=False)
        self.register_buffer("_causal", torch.ones(agent_num, agent_num).tril().bool(), persistent=False)

    def init_parameters(self) -> None:
        """Orthogonal weights and zero biases, as in the paper's code: gain ``sqrt(2)`` before an activation, 0.01 in
        attentions, before sums, and of outputs. Continuous actions start with ``log sigma`` -0.5, as in PPO.
        """
        stacks = [self.embed_obs, self.critic_head, self.embed_action, self.actor_hidden]
        stacks += [block.mlp for block in (*self.encoder, *self.decoder)]
        wide = {layer for stack in stacks for layer, after in itertools.pairwise(stack) if isinstance(after, nn.GELU)}
        with torch.no_grad():
            for layer in self.modules():
                if isinstance(layer, nn.Linear):
                    nn.init.orthogonal_(layer.weight, gain=math.sqrt(2) if layer in wide else 0.01)
                    if layer.bias is not None:
                        nn.init.zeros_(layer.bias)
            for name, parameter in self.named_parameters():
                if name.endswith("log_sigma_param"):
                    parameter.fill_(-0.5)

    def forward(self, inputs: Mapping[str, Any], mode: str) -> dict[str, Any]:
        """Run the method that ``mode`` names; ``sample`` and ``argmax`` are :meth:`act`, with drawn or best actions.

        Raises:
            ValueError: there is no such mode.
        """
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        if mode in ("sample", "argmax"):
            return self.act(inputs, draws=mode == "sample")
        output: dict[str, Any] = getattr(self, mode)(inputs)
        return output

    def compute_critic(self, obs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """``agent_state`` ``[B, A, O]`` to ``value`` ``[B, A]``."""
        return {"value": self._value(self._encode(obs))}

    def compute_actor_critic(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """All agents at once, to learn.

        Arguments:
            inputs: ``obs``, with ``agent_state`` ``[B, A, O]`` and for discrete actions optionally ``action_mask``
                ``[B, A, N]`` (0: forbidden); and ``action``, int64 ``[B, A]`` or float32 ``[B, A, D]``.

        Returns:
            ``value`` ``[B, A]`` and ``logit`` ``[B, A, N]``, or ``{'mu', 'sigma'}`` ``[B, A, D]``; the one of agent i
            depends on the actions of the agents before it.
        """
        obs = inputs["obs"]
        encoded = self._encode(obs)
        decoded = self._decode(encoded, self._features(inputs["action"][:, :-1]))
        return {"logit": self._logit(decoded, obs.get(ACTION_MASK)), "value": self._value(encoded)}

    def act(self, obs: Mapping[str, torch.Tensor], draws: bool) -> dict[str, Any]:
        """Agent by agent: ``obs`` as above to ``action``, ``logit`` and ``value``.

        Arguments:
            draws: draw actions, or take the most likely ones.
        """
        encoded, mask = self._encode(obs), obs.get(ACTION_MASK)
        sampler = _SAMPLERS[self.action_space][not draws]
        features = encoded.new_zeros(len(encoded), 0, self.action_shape)
        steps: list[dict[str, Any]] = []
        for agent in range(self.agent_num):
            decoded = self._decode(encoded[:, : agent + 1], features)[:, -1]
            logit = self._logit(decoded, None if mask is None else mask[:, agent])
            steps.append({"action": sampler(logit), "logit": logit})
            features = torch.cat([features, self._features(steps[-1]["action"].unsqueeze(1))], 1)
        together: dict[str, Any] = map_together(lambda *rows: torch.stack(rows, dim=1), *steps)
        return {**together, "value": self._value(encoded)}

    def _encode(self, obs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        tokens = encode(obs["agent_state"], self.embed_obs)
        for block in self.encoder:
            tokens = block(tokens)
        return tokens

    def _value(self, encoded: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.critic_head(encoded)
        return output.squeeze(-1)

    def _features(self, action: torch.Tensor) -> torch.Tensor:
        """Actions as the decoder reads them, float32 ``[B, n, size]``: discrete ones one-hot."""
        if self.action_space == "continuous":
            return action.unflatten(1, (-1, 1)) if action.ndim == 2 else action
        return (action.unsqueeze(-1) == torch.arange(self.action_shape, device=action.device)).float()

    def _decode(self, encoded: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """``encoded`` ``[B, n, width]`` of the first n agents, and ``features`` of the actions of all of them but the
        last, to ``[B, n, width]``.
        """
        number = encoded.shape[1]
        tokens: torch.Tensor = self.embed_action(nn.functional.pad(features, (1, 0, 1, 0)) + self._start[:number])
        for block in self.decoder:
            tokens = block(tokens, encoded, self._causal[:number, :number])
        return tokens

    def _logit(self, decoded: torch.Tensor, action_mask: torch.Tensor | None) -> torch.Tensor | dict[str, torch.Tensor]:
        logit: torch.Tensor | dict[str, torch.Tensor] = actor_output(self.actor_head, self.actor_hidden(decoded))[
            "logit"
        ]
        if action_mask is None or not isinstance(logit, torch.Tensor):
            return logit
        return logit.masked_fill(action_mask == 0, _FORBIDDEN)
