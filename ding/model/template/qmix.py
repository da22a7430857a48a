"""The network of QMIX."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ding.model.common.encoder import ConvEncoder
from ding.model.common.shapes import ObsShape, as_shape
from ding.model.template._agent_q import agent_values, chosen, joint_output, with_time
from ding.model.template._drqn import DRQN
from ding.model.template.vac import RELU
from ding.torch_utils.network.input_dtype import as_input
from ding.utils import MODEL_REGISTRY


class Mixer(nn.Module):
    """The joint value as a monotone function of the agents' values, with weights made from the global state.

    State: ``hyper_w_1``, ``hyper_w_final``, ``hyper_b_1``, ``V``.

    Arguments:
        agent_num: A, number of agents.
        state_dim: G, features of the global state.
        mixing_embed_dim: width of the mixing layer.
        hypernet_embed: width of the networks that make the weights.
    """

    def __init__(
        self,
        agent_num: int,
        state_dim: int,
        mixing_embed_dim: int,
        hypernet_embed: int = 64,
        activation: nn.Module | None = RELU,
    ) -> None:
        super().__init__()
        self.n_agents, self.embed_dim = agent_num, mixing_embed_dim
        act = nn.ReLU() if activation is None else activation
        self.hyper_w_1 = _hypernet(state_dim, hypernet_embed, mixing_embed_dim * agent_num, act)
        self.hyper_w_final = _hypernet(state_dim, hypernet_embed, mixing_embed_dim, act)
        self.hyper_b_1 = nn.Linear(state_dim, mixing_embed_dim)
        self.V = _hypernet(state_dim, mixing_embed_dim, 1, act)

    def forward(self, agent_qs: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Joint values ``[...]`` of ``agent_qs`` ``[..., A]`` in global ``states`` ``[..., G]``."""
        states = as_input(states, self.hyper_b_1)
        # Weights that are not negative: what is best for each agent is best for all.
        first = self.hyper_w_1(states).abs().unflatten(-1, (self.n_agents, self.embed_dim))
        last = self.hyper_w_final(states).abs()
        # Not `@`: products of small matrices, one for each state, take two to three times as long.
        mixed = (agent_qs.unsqueeze(-1) * first).sum(-2)
        hidden = functional.elu(mixed + self.hyper_b_1(states))
        output: torch.Tensor = (hidden * last).sum(-1) + self.V(states).squeeze(-1)
        return output


def _hypernet(inputs: int, hidden: int, outputs: int, activation: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), activation, nn.Linear(hidden, outputs))


@MODEL_REGISTRY.register("qmix")
class QMix(nn.Module):
    """Values of each agent's own history, by one network for all agents, mixed into a joint value (QMIX,
    arXiv:1803.11485).

    State: ``_q_network``, ``_mixer``, and ``_global_state_encoder`` of images.

    Arguments:
        agent_num: A, number of agents.
        obs_shape: what an agent sees.
        global_obs_shape: features of the global state, or ``[C, H, W]`` of an image, which a ``ConvEncoder`` with the
            sizes of ``hidden_size_list`` reads.
        action_shape: number of actions of each agent.
        hidden_size_list: widths of the encoder; the last one is that of the recurrent layer too.
        mixer: mix by a network, else the joint value is the sum (VDN, arXiv:1706.05296).
        lstm_type: as in ``DRQN``.
    """

    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        global_obs_shape: int | Sequence[int],
        action_shape: int,
        hidden_size_list: Sequence[int],
        mixer: bool = True,
        lstm_type: str = "gru",
        activation: nn.Module = RELU,
        dueling: bool = False,
    ) -> None:
        super().__init__()
        self.mixer = mixer
        self._q_network = DRQN(
            obs_shape, action_shape, hidden_size_list, lstm_type=lstm_type, dueling=dueling, activation=activation
        )
        self._global_state_encoder: nn.Module | None = None
        if mixer:
            width = as_shape(global_obs_shape, "global_obs_shape")
            if not isinstance(width, int):
                self._global_state_encoder = ConvEncoder(width, hidden_size_list, activation=activation)
                width = hidden_size_list[-1]
            self._mixer = Mixer(agent_num, width, hidden_size_list[-1], activation=activation)

    def forward(self, data: Mapping[str, Any], single_step: bool = True) -> dict[str, Any]:
        """Joint values of a step, or of a sequence of T steps.

        Arguments:
            data: ``obs``: ``agent_state`` ``[(T,) B, A, *obs_shape]``, ``global_state`` ``[(T,) B,
                *global_obs_shape]`` and optionally ``action_mask`` ``[(T,) B, A, actions]``; ``prev_state``: the
                recurrent states of the B rows, see :func:`ding.model.template._agent_q.joint_state`; optionally
                ``action`` ``[(T,) B, A]``, the best allowed ones unless given.
            single_step: whether there is no time axis.

        Returns:
            ``total_q`` ``[(T,) B]`` of the actions, ``logit`` ``[(T,) B, A, actions]`` (forbidden ones at -9999999
            without ``action``), ``action_mask`` and ``next_state``, for each row a list of ``{'h', 'c'}``, each
            ``[layers, 1, H]``, of A agents.
        """
        obs, action = with_time(data, single_step)
        values = agent_values(self._q_network, obs["agent_state"], data["prev_state"])
        q, logit = chosen(values.q, action, obs.get("action_mask"))
        total_q = self._mixer(q, self._global_features(obs["global_state"])) if self.mixer else q.sum(-1)
        return joint_output(values, total_q, logit, obs, single_step)

    def _global_features(self, state: torch.Tensor) -> torch.Tensor:
        """``[T, B, G]`` of global states ``[T, B, *global_obs_shape]``."""
        if self._global_state_encoder is None:
            return state
        features: torch.Tensor = self._global_state_encoder(state.flatten(0, 1))
        return features.reshape(*state.shape[:2], -1)
