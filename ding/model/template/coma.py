"""The networks of COMA."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ding.model.common.shapes import ObsShape
from ding.model.template._agent_q import agent_values
from ding.model.template._drqn import DRQN
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES
from ding.model.template.vac import unknown_mode
from ding.utils import MODEL_REGISTRY, squeeze


class COMAActorNetwork(nn.Module):
    """Logits of each agent from its own history. State: ``main``. Arguments as in ``DRQN``."""

    def __init__(
        self, obs_shape: ObsShape, action_shape: int, hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES
    ) -> None:
        super().__init__()
        self.main = DRQN(obs_shape, action_shape, hidden_size_list)

    def forward(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """``logit`` ``[(T,) B, A, actions]`` of ``obs['agent_state']`` ``[(T,) B, A, *obs_shape]`` and ``prev_state``;
        ``next_state`` and ``action_mask``.
        """
        obs = inputs["obs"]
        agent_state = obs["agent_state"]
        single_step = agent_state.ndim == 3
        values = agent_values(self.main, agent_state.unsqueeze(0) if single_step else agent_state, inputs["prev_state"])
        logit = values.q.squeeze(0) if single_step else values.q
        output = {"logit": logit, "next_state": values.next_state}
        return {**output, "action_mask": obs["action_mask"]} if "action_mask" in obs else output


class COMACriticNetwork(nn.Module):
    """Values of all actions of an agent, given what the others do. State: ``mlp``.

    Arguments:
        input_size: features of what :meth:`forward` puts together: the global state, what the agent sees, the last
            actions of all agents, the actions of the others, the number of the agent.
        action_shape: number of actions of each agent.
        hidden_size: width of both hidden layers.
    """

    def __init__(self, input_size: int, action_shape: int, hidden_size: int = 128) -> None:
        super().__init__()
        self.action_shape = action_shape
        hidden = nn.Sequential(
            nn.Linear(input_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, hidden_size), nn.ReLU()
        )
        self.mlp = nn.Sequential(hidden, nn.Linear(hidden_size, action_shape))

    def forward(self, data: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """``q_value`` ``[T, B, A, actions]``.

        Arguments:
            data: ``obs``: ``agent_state`` ``[T, B, A, O]``, whose last features are the agent's last action and its
                number (both one-hot), and ``global_state`` ``[T, B, G]``; ``action`` ``[T, B, A]``.
        """
        return {"q_value": self.mlp(self._inputs(data))}

    def _inputs(self, data: Mapping[str, Any]) -> torch.Tensor:
        agent_state, global_state = data["obs"]["agent_state"], data["obs"]["global_state"]
        agents, actions = agent_state.shape[-2], self.action_shape
        own, last_action, number = agent_state.split([agent_state.shape[-1] - actions - agents, actions, agents], -1)
        taken = functional.one_hot(data["action"].long(), actions).to(next(self.parameters()).dtype)
        # [A, A, 1]: 0 where an agent would see its own action.
        others = 1 - torch.eye(agents, device=taken.device, dtype=taken.dtype).unsqueeze(-1)
        seen_actions = (taken.unsqueeze(-3) * others).flatten(-2)
        for_all = torch.cat([global_state, last_action.flatten(-2)], dim=-1)
        state, last = (
            for_all.unsqueeze(-2).expand(*own.shape[:-1], -1).split([global_state.shape[-1], agents * actions], -1)
        )
        return torch.cat([state, own, last, seen_actions, number], dim=-1)


@MODEL_REGISTRY.register("coma")
class COMA(nn.Module):
    """Recurrent actors and a central critic that tells what each agent's action was worth (arXiv:1705.08926).

    State: ``actor``, ``critic``.

    Arguments:
        agent_num: A, number of agents.
        obs_shape: ``{'agent_state': O, 'global_state': G}``.
        action_shape: number of actions of each agent, also as ``[number]``.
        actor_hidden_size_list: widths of the actor's encoder; the last one is that of the critic too.
    """

    mode = ["compute_actor", "compute_critic"]

    def __init__(
        self,
        agent_num: int,
        obs_shape: Mapping[str, Any],
        action_shape: int | Sequence[int],
        actor_hidden_size_list: Sequence[int],
    ) -> None:
        super().__init__()
        agent_size, global_size, actions = map(
            squeeze, (obs_shape["agent_state"], obs_shape["global_state"], action_shape)
        )
        inputs = global_size + agent_size - actions + 2 * agent_num * actions
        self.actor = COMAActorNetwork(agent_size, actions, actor_hidden_size_list)
        self.critic = COMACriticNetwork(inputs, actions, actor_hidden_size_list[-1])

    def forward(self, inputs: Mapping[str, Any], mode: str) -> dict[str, Any]:
        """``compute_actor``: see :class:`COMAActorNetwork`; ``compute_critic``: see :class:`COMACriticNetwork`."""
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        output: dict[str, Any] = self.actor(inputs) if mode == "compute_actor" else self.critic(inputs)
        return output
