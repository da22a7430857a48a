"""The network of weighted QMIX."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.common.shapes import ObsShape
from ding.model.template._agent_q import agent_values, chosen, joint_output, with_time
from ding.model.template._drqn import DRQN
from ding.model.template.qmix import Mixer
from ding.torch_utils.network.input_dtype import as_input
from ding.utils import MODEL_REGISTRY


class MixerStar(nn.Module):
    """The joint value as a function of the agents' values and the global state that need not be monotone.

    State: ``net``, ``V``. Arguments as in :class:`Mixer`.
    """

    def __init__(self, agent_num: int, state_dim: int, mixing_embed_dim: int) -> None:
        super().__init__()
        width = mixing_embed_dim
        self.net = _mlp(agent_num + state_dim, width, width, width)
        self.V = _mlp(state_dim, width)

    def forward(self, agent_qs: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Joint values ``[...]`` of ``agent_qs`` ``[..., A]`` in global ``states`` ``[..., G]``."""
        advantage = self.net(torch.cat([states, agent_qs], dim=-1))
        output: torch.Tensor = (advantage + self.V(as_input(states, self.V))).squeeze(-1)
        return output


def _mlp(inputs: int, *widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


@MODEL_REGISTRY.register("wqmix")
class WQMix(nn.Module):
    """A monotone joint value to act by, and an unrestricted one, ``Q*``, to learn from (weighted QMIX,
    arXiv:2006.10800).

    State: ``_q_network``, ``_q_network_star``, ``_mixer``, ``_mixer_star``. Arguments as in :class:`QMix`.
    """

    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        global_obs_shape: int,
        action_shape: int,
        hidden_size_list: Sequence[int],
        lstm_type: str = "gru",
        dueling: bool = False,
    ) -> None:
        super().__init__()
        sizes = (obs_shape, action_shape, hidden_size_list)
        self._q_network = DRQN(*sizes, lstm_type=lstm_type, dueling=dueling)
        self._q_network_star = DRQN(*sizes, lstm_type=lstm_type, dueling=dueling)
        self._mixer = Mixer(agent_num, global_obs_shape, hidden_size_list[-1])
        self._mixer_star = MixerStar(agent_num, global_obs_shape, 256)

    def forward(self, data: Mapping[str, Any], single_step: bool = True, q_star: bool = False) -> dict[str, Any]:
        """As :meth:`QMix.forward`; with ``q_star`` by the unrestricted networks."""
        obs, action = with_time(data, single_step)
        network = self._q_network_star if q_star else self._q_network
        mixer = self._mixer_star if q_star else self._mixer
        values = agent_values(network, obs["agent_state"], data["prev_state"])
        q, logit = chosen(values.q, action, obs.get("action_mask"))
        return joint_output(values, mixer(q, obs["global_state"]), logit, obs, single_step)
