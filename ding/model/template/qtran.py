"""The network of QTRAN."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ding.model.common.shapes import ObsShape
from ding.model.template._agent_q import agent_values, chosen, joint_output, with_time
from ding.model.template._drqn import DRQN
from ding.torch_utils.network.input_dtype import as_input
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("qtran")
class QTran(nn.Module):
    """Values of each agent's own history, and beside them a joint value of all histories and actions, and one of the
    state (QTRAN, arXiv:1905.05408).

    State: ``_q_network``, ``Q``, ``V``, ``action_encoding``.

    Arguments:
        embedding_size: width of the joint networks. Others as in :class:`ding.model.QMix`.
    """

    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        global_obs_shape: int,
        action_shape: int,
        hidden_size_list: Sequence[int],
        embedding_size: int,
        lstm_type: str = "gru",
        dueling: bool = False,
    ) -> None:
        super().__init__()
        self._action_num = action_shape
        self._q_network = DRQN(obs_shape, action_shape, hidden_size_list, lstm_type=lstm_type, dueling=dueling)
        encoded = hidden_size_list[-1] + action_shape
        self.Q = _mlp(global_obs_shape + encoded, embedding_size, embedding_size, 1)
        self.V = _mlp(global_obs_shape, embedding_size, embedding_size, 1)
        self.action_encoding = _mlp(encoded, encoded, encoded)

    def forward(self, data: Mapping[str, Any], single_step: bool = True) -> dict[str, Any]:
        """Input and output of :meth:`ding.model.QMix.forward`, and ``agent_q_act`` ``[(T,) B, A]``, the agents' values
        of the actions, and ``vs`` ``[(T,) B]``, the value of the state.
        """
        obs, action = with_time(data, single_step)
        values = agent_values(self._q_network, obs["agent_state"], data["prev_state"])
        q, logit = chosen(values.q, action, obs.get("action_mask"))
        taken = logit.argmax(-1) if action is None else action.long()
        state = obs["global_state"]
        joint = torch.cat([values.hidden, functional.one_hot(taken, self._action_num).to(q.dtype)], dim=-1)
        total_q = self.Q(torch.cat([state, self.action_encoding(joint).sum(-2)], dim=-1)).squeeze(-1)
        more = {"agent_q_act": q, "vs": self.V(as_input(state, self.V)).squeeze(-1)}
        return joint_output(values, total_q, logit, obs, single_step, **more)


def _mlp(inputs: int, *widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers[:-1])
