"""The network of multi-agent DQN with a cooperative critic."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from ding.model.common.shapes import ObsShape
from ding.model.template.qmix import QMix
from ding.utils import MODEL_REGISTRY


@MODEL_REGISTRY.register("madqn")
class MADQN(nn.Module):
    """Two joint networks: one to act by, and one that knows more and gives it its targets.

    State: ``current``, ``cooperation``.

    Arguments:
        global_obs_shape: features of the global state.
        mixer: mix the agents' values by a network, else they are summed.
        global_cooperation: the second network sees ``global_state`` ``[..., A, G]`` instead of ``agent_state``. Others
            as in :class:`ding.model.QMix`.
    """

    def __init__(
        self,
        agent_num: int,
        obs_shape: ObsShape,
        action_shape: int,
        hidden_size_list: Sequence[int],
        global_obs_shape: int | None = None,
        mixer: bool = False,
        global_cooperation: bool = True,
        lstm_type: str = "gru",
        dueling: bool = False,
    ) -> None:
        super().__init__()
        if global_obs_shape is None and (mixer or global_cooperation):
            raise ValueError("MADQN needs global_obs_shape, unless mixer and global_cooperation are both False")
        self.global_cooperation = global_cooperation
        state_dim = 0 if global_obs_shape is None else global_obs_shape
        options: dict[str, Any] = {"mixer": mixer, "lstm_type": lstm_type, "dueling": dueling}
        seen = state_dim if global_cooperation else obs_shape
        self.current = QMix(agent_num, obs_shape, state_dim, action_shape, hidden_size_list, **options)
        self.cooperation = QMix(agent_num, seen, state_dim, action_shape, hidden_size_list, **options)

    def forward(self, data: Mapping[str, Any], cooperation: bool = False, single_step: bool = True) -> dict[str, Any]:
        """As :meth:`ding.model.QMix.forward`, by the second network with ``cooperation``."""
        network = self.cooperation if cooperation else self.current
        if cooperation and self.global_cooperation:
            obs = data["obs"]
            data = {**data, "obs": {**obs, "agent_state": obs["global_state"]}}
        output: dict[str, Any] = network(data, single_step=single_step)
        return output
