"""The networks of ATOC."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.head import RegressionHead
from ding.model.common.shapes import as_shape
from ding.model.template.vac import RELU, unknown_mode
from ding.torch_utils.network.input_dtype import as_input
from ding.utils import MODEL_REGISTRY


class ATOCAttentionUnit(nn.Module):
    """The chance that an agent starts a communication, from its thought. State: ``_fc1``, ``_fc2``, ``_fc3``."""

    def __init__(self, thought_size: int, embedding_size: int) -> None:
        super().__init__()
        self._fc1 = nn.Linear(thought_size, embedding_size)
        self._fc2 = nn.Linear(embedding_size, embedding_size)
        self._fc3 = nn.Linear(embedding_size, 1)

    def forward(self, data: Mapping[str, torch.Tensor] | torch.Tensor) -> torch.Tensor:
        """Thoughts ``[..., thought_size]`` (or a dict with ``thought``) to chances ``[..., 1]``."""
        x = data["thought"] if isinstance(data, Mapping) else data
        x = self._fc2(self._fc1(x).relu()).relu()
        output: torch.Tensor = self._fc3(x).sigmoid()
        return output


class ATOCCommunicationNet(nn.Module):
    """Communication within a group: updated thoughts of its members. State: ``_bi_lstm``.

    Raises:
        ValueError: ``thought_size`` is odd.
    """

    def __init__(self, thought_size: int) -> None:
        super().__init__()
        if thought_size % 2:
            raise ValueError(f"ATOC needs an even thought_size, half for each direction, found {thought_size}")
        self._bi_lstm = nn.LSTM(thought_size, thought_size // 2, bidirectional=True, batch_first=True)

    def forward(self, data: Mapping[str, torch.Tensor] | torch.Tensor) -> torch.Tensor:
        """Thoughts of groups ``[B, M, thought_size]`` (or a dict with ``thoughts``) to new ones of that shape."""
        x = data["thoughts"] if isinstance(data, Mapping) else data
        output: torch.Tensor = self._bi_lstm(x)[0]
        return output


class ATOCActorNet(nn.Module):
    """Actions of agents that may talk in groups.

    State: ``actor_1``, ``actor_2``, with ``communication`` ``attention`` and ``comm_net``.

    Arguments:
        obs_shape, action_shape: features of what an agent sees, and of its action.
        thought_size: even.
        n_agent: A, number of agents.
        agent_per_group: M, members of a group: who starts it, and those whose thoughts are nearest.
        initiator_threshold: the chance above which an agent starts a group.
    """

    def __init__(
        self,
        obs_shape: int | Sequence[int],
        thought_size: int,
        action_shape: int,
        n_agent: int,
        communication: bool = True,
        agent_per_group: int = 2,
        initiator_threshold: float = 0.5,
        attention_embedding_size: int = 64,
        actor_1_embedding_size: int | None = None,
        actor_2_embedding_size: int | None = None,
        activation: nn.Module = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        features = _features(obs_shape)
        self._agent_per_group, self._threshold = min(n_agent, agent_per_group), initiator_threshold
        self._communication = communication
        first = actor_1_embedding_size or thought_size
        second = actor_2_embedding_size or thought_size
        self.actor_1 = nn.Sequential(
            nn.Linear(features, first),
            activation,
            nn.Linear(first, thought_size),
            activation,
        )
        head = RegressionHead(second, action_shape, 2, final_tanh=True, activation=activation, norm_type=norm_type)
        self.actor_2 = nn.Sequential(nn.Linear(thought_size * 2, second), activation, head)
        if communication:
            self.attention = ATOCAttentionUnit(thought_size, attention_embedding_size)
            self.comm_net = ATOCCommunicationNet(thought_size)

    def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        """``obs`` ``[B, A, O]`` to ``action`` ``[B, A, D]``.

        With ``communication`` also ``group`` bool ``[B, A, A]`` (row: the members of the group of that agent, if it
        starts one), ``initiator_prob`` ``[B, A]``, ``is_initiator`` bool ``[B, A]``, ``new_thoughts`` and
        ``old_thoughts`` ``[B, A, thought_size]``.
        """
        old = self.actor_1(as_input(obs, self.actor_1))
        if not self._communication:
            return {"action": self.act(old, old)}
        chance = self.attention(old.detach()).squeeze(-1)
        starts = chance > self._threshold
        distance = (old.unsqueeze(2) - old.unsqueeze(1)).square().sum(-1)
        members = distance.topk(self._agent_per_group, dim=-1, largest=False).indices.sort(-1).values
        new = old
        for agent in range(obs.shape[1]):
            index = members[:, agent].unsqueeze(-1).expand(-1, -1, old.shape[-1])
            heard = new.scatter(1, index, self.comm_net(old.gather(1, index)))
            new = torch.where(starts[:, agent, None, None], heard, new)
        group = torch.zeros_like(distance, dtype=torch.bool).scatter(2, members, True) & starts.unsqueeze(-1)
        return {
            "action": self.act(old, new),
            "group": group,
            "initiator_prob": chance,
            "is_initiator": starts,
            "new_thoughts": new,
            "old_thoughts": old,
        }

    def act(self, old_thoughts: torch.Tensor, new_thoughts: torch.Tensor) -> torch.Tensor:
        """Actions of thoughts before and after the communication."""
        output: torch.Tensor = self.actor_2(torch.cat([old_thoughts, new_thoughts], dim=-1))["pred"]
        return output


def _features(obs_shape: int | Sequence[int]) -> int:
    size = as_shape(obs_shape, "obs_shape")
    if not isinstance(size, int):
        raise ValueError(f"ATOC takes vector observations, got obs_shape={obs_shape!r}")
    return size


@MODEL_REGISTRY.register("atoc")
class ATOC(nn.Module):
    """Agents that share an actor, talk in groups when they think it pays, and share a critic (ATOC, arXiv:1805.07733).

    State: ``actor``, ``critic``.

    Arguments:
        critic_head_hidden_size, critic_head_layer_num: of the critic. Others as in :class:`ATOCActorNet`.
    """

    mode = ["compute_actor", "compute_critic", "optimize_actor_attention"]

    def __init__(
        self,
        obs_shape: int | Sequence[int],
        action_shape: int,
        thought_size: int,
        n_agent: int,
        communication: bool = True,
        agent_per_group: int = 2,
        actor_1_embedding_size: int | None = None,
        actor_2_embedding_size: int | None = None,
        critic_head_hidden_size: int = 64,
        critic_head_layer_num: int = 2,
        activation: nn.Module = RELU,
        norm_type: str | None = None,
    ) -> None:
        super().__init__()
        features = _features(obs_shape)
        self._communication = communication
        self.actor = ATOCActorNet(
            features,
            thought_size,
            action_shape,
            n_agent,
            communication,
            agent_per_group,
            actor_1_embedding_size=actor_1_embedding_size,
            actor_2_embedding_size=actor_2_embedding_size,
            activation=activation,
            norm_type=norm_type,
        )
        width = critic_head_hidden_size
        head = RegressionHead(width, 1, critic_head_layer_num, activation=activation, norm_type=norm_type)
        self.critic = nn.Sequential(nn.Linear(features + action_shape, width), activation, head)

    def forward(self, inputs: Any, mode: str, **kwargs: Any) -> dict[str, torch.Tensor]:
        """Run the method that ``mode`` names.

        Raises:
            ValueError: there is no such mode.
        """
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        output: dict[str, torch.Tensor] = getattr(self, mode)(inputs, **kwargs)
        return output

    def compute_actor(self, obs: torch.Tensor, get_delta_q: bool = False) -> dict[str, torch.Tensor]:
        """See :class:`ATOCActorNet`.

        Arguments:
            get_delta_q: also return ``delta_q`` ``[B, A]``: by how much the communication that an agent started raised
                the mean value of its group; 0 if it started none.
        """
        output: dict[str, torch.Tensor] = self.actor(obs)
        if get_delta_q and self._communication:
            with torch.no_grad():
                old, new = output["old_thoughts"], output["new_thoughts"]
                gain = self._value(obs, self.actor.act(old, new)) - self._value(obs, self.actor.act(old, old))
                group = output["group"].to(gain.dtype)
                output["delta_q"] = (group * gain.unsqueeze(1)).sum(-1) / group.sum(-1).clamp(min=1)
        return output

    def compute_critic(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """``obs`` ``[B, A, O]`` and ``action`` ``[B, A, D]`` to ``q_value`` ``[B, A]``."""
        return {"q_value": self._value(inputs["obs"], inputs["action"])}

    def _value(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.critic(torch.cat([obs, action], dim=-1))["pred"]
        return output

    def optimize_actor_attention(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """``loss`` (0-d): the cross entropy of ``initiator_prob`` against ``delta_q``, both ``[B, A]`` in [0, 1], over
        the agents of ``is_initiator``.

        Raises:
            NotImplementedError: there is no communication.
        """
        if not self._communication:
            raise NotImplementedError("ATOC with communication=False has no attention to optimise")
        # Away from 0 and 1, where the logarithm has no bound.
        chance = inputs["initiator_prob"] * 0.9 + 0.05
        wanted, counts = inputs["delta_q"], inputs["is_initiator"].to(chance.dtype)
        entropy = -wanted * chance.log() - (1 - wanted) * (1 - chance).log()
        return {"loss": (entropy * counts).sum() / counts.sum().clamp(min=1)}
